/* SPDX-License-Identifier: MIT */
#include "cache/block.h"

#include "base/heap.h"
#include "cache/segment.h"
#include "tests/support/t.h"

/* A segment of 64 KiB at a made-up address, with one live block. */
static struct block_store store;
static struct segment segment;
static int pool_stand_in;

static struct block *begin(void)
{
    block_store_init(&store);
    REQUIRE(block_store_reserve(&store, 1));
    struct block *block = block_create(&store);
    segment_init(&segment, block, (struct pool *)&pool_stand_in, NULL, (void *)0x10000, 65536);
    return block;
}

static bool holds(void)
{
    const char *fact = "";

    if (segment_check(&segment, &fact))
        return true;
    fprintf(stderr, "%s\n", fact);
    return false;
}

TEST(cut_and_joined_again)
{
    struct block *tail = begin();

    EXPECT(holds());
    struct block *a = block_split(&store, tail, 1024), *b = block_split(&store, tail, 512);
    EXPECT(holds());
    EXPECT_PTR_EQ(segment.first, a);
    EXPECT_PTR_EQ(a->next, b);
    EXPECT_PTR_EQ(b->next, tail);
    EXPECT_PTR_EQ(b->base, (char *)0x10000 + 1024);
    EXPECT_EQ(tail->bytes, 65536 - 1536);
    EXPECT(block_is_split(a) && block_is_split(tail));
    block_merge(&store, b, tail);
    EXPECT(holds());
    EXPECT_EQ(b->bytes, 65536 - 1024);
    block_merge(&store, b, a);
    EXPECT(holds());
    EXPECT_PTR_EQ(segment.first, b);
    EXPECT_PTR_EQ(b->base, (char *)0x10000);
    EXPECT(!block_is_split(b));
    block_store_fini(&store);
}

TEST(joining_in_the_middle_keeps_the_outer_links)
{
    struct block *d = begin(), *a = block_split(&store, d, 512), *b = block_split(&store, d, 512);
    struct block *c = block_split(&store, d, 512);

    block_merge(&store, b, c);
    EXPECT(holds());
    EXPECT(a->next == b && b->next == d && d->prev == b);
    EXPECT_EQ(b->bytes, 1024);
    block_store_fini(&store);
}

TEST(the_checker_notices)
{
    const char *fact;
    struct block *tail = begin(), *front = block_split(&store, tail, 1024);

    tail->base += 512;
    EXPECT(!segment_check(&segment, &fact));
    tail->base -= 512;
    front->bytes += 512;
    EXPECT(!segment_check(&segment, &fact));
    front->bytes -= 512;
    front->state = tail->state = BLOCK_FREE;
    EXPECT(!segment_check(&segment, &fact));
    EXPECT_HAS(fact, "BLOCK_FREE");
    front->state = BLOCK_WAITING;
    EXPECT(!segment_check(&segment, &fact));
    front->event_count = 1;
    EXPECT(holds());
    tail->prev = NULL;
    EXPECT(!segment_check(&segment, &fact));
    tail->prev = front;
    segment.first = tail;
    EXPECT(!segment_check(&segment, &fact));
    segment.first = front;
    EXPECT(holds());
    front->pool = NULL;
    EXPECT(!segment_check(&segment, &fact));
    block_store_fini(&store);
}

TEST(objects_are_reused_and_counted)
{
    uint64_t before = heap_live_count();

    block_store_init(&store);
    REQUIRE(block_store_reserve(&store, 100));
    EXPECT_GE(store.spare_count, 100);
    size_t spares = store.spare_count;
    struct block *block = block_create(&store);
    EXPECT_EQ(store.spare_count, spares - 1);
    block_destroy(&store, block);
    EXPECT_EQ(block->state, BLOCK_SPARE);
    EXPECT_PTR_EQ(block_create(&store), block);
    heap_fail_nth(1);
    EXPECT(!block_store_reserve(&store, 10000));
    heap_fail_disarm();
    EXPECT(block_store_reserve(&store, 10000));
    block_store_fini(&store);
    EXPECT_EQ(heap_live_count(), before);
}

T_MAIN()
