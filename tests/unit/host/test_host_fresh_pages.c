/* SPDX-License-Identifier: MIT */
/* Fresh pages: where they begin, and that none is touched. */
#include "tests/support/t.h"

#include "host/fresh_pages.h"

#include <sys/mman.h>

TEST(large_ranges_begin_at_huge_pages_and_leave_nothing_mapped_around)
{
    int before = t_map_count();
    unsigned char vector[1024];

    for (size_t bytes = 2 << 20; bytes <= 4 << 20; bytes += 4096 * 100) {
        char *base = fresh_pages_map(bytes);
        REQUIRE(base != MAP_FAILED);
        EXPECT_EQ((uintptr_t)base % (2 << 20), 0);
        REQUIRE_EQ(mincore(base, bytes, vector), 0);
        for (size_t i = 0; i < bytes / 4096; i++)
            REQUIRE_EQ(vector[i] & 1, 0);
        base[bytes - 1] = 1;
        munmap(base, bytes);
        EXPECT_EQ(t_map_count(), before);
    }
}

TEST(advice_is_taken_and_memory_works)
{
    char *base;

    fresh_pages_spread(true);
    base = fresh_pages_map(4 << 20);
    fresh_pages_spread(false);
    REQUIRE(base != MAP_FAILED);
    memset(base, 1, 4 << 20);
    EXPECT_EQ(base[(4 << 20) - 1], 1);
    munmap(base, 4 << 20);
}
T_MAIN()
