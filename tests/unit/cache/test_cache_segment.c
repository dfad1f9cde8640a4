/* SPDX-License-Identifier: MIT */
#include "cache/segment.h"

#include "cache/block.h"
#include "tests/support/t.h"

TEST(a_new_segment_is_one_block)
{
    struct segment segment;
    struct block block = {.state = BLOCK_LIVE};
    const char *fact;
    int pool, stream;

    segment_init(&segment, &block, (struct pool *)&pool, &stream, (void *)0x1000000, 4096);
    EXPECT(segment_check(&segment, &fact));
    EXPECT_PTR_EQ(segment.first, &block);
    EXPECT_PTR_EQ(block.segment, &segment);
    EXPECT_PTR_EQ(block.pool, (struct pool *)&pool);
    EXPECT_PTR_EQ(block.stream, &stream);
    EXPECT_EQ(block.bytes, 4096);
    EXPECT(!segment.is_oversize);
    block.bytes = 2048;
    EXPECT(!segment_check(&segment, &fact));
    block.bytes = 4096;
    block.segment = NULL;
    EXPECT(!segment_check(&segment, &fact));
    EXPECT_HAS(fact, "knows its segment");
}

T_MAIN()
