/* SPDX-License-Identifier: MIT */
#include "cache/torch/tally.h"

#include "cache/observe/stats.h"
#include "tests/support/dice.h"

#include <string.h>

/* Levels move without the statistics, which are exact as soon as somebody looks. */
TEST(statistics_are_exact_once_settled)
{
    static struct stats_tally tally;
    static acre_cache_stats stats;

    memset(&tally, 0, sizeof tally);
    memset(&stats, 0, sizeof stats);
    tally_add(&tally, true, 1024, 700);
    tally_add(&tally, false, 4096, 4096);
    tally_remove(&tally, true, 1024, 700);
    EXPECT_EQ(stats.allocation.all.current, 0);
    tally_settle(&tally, &stats);
    EXPECT_EQ(stats.allocation.all.current, 1);
    EXPECT_EQ(stats.allocation.all.peak, 2);
    EXPECT_EQ(stats.allocation.small_pool.peak, 1);
    EXPECT_EQ(stats.allocated_bytes.all.peak, 5120);
    EXPECT_EQ(stats.allocated_bytes.small_pool.freed, 1024);
    EXPECT_EQ(stats.requested_bytes.all.allocated, 4796);
    EXPECT_EQ(stats.active_bytes.large_pool.current, 4096);
}

/* The peaks of live and of waiting blocks are kept apart. */
TEST(waiting_blocks_part_the_peaks)
{
    static struct stats_tally tally;
    static acre_cache_stats stats;

    memset(&tally, 0, sizeof tally);
    memset(&stats, 0, sizeof stats);
    tally_add(&tally, true, 512, 1);
    tally_wait(&tally, &stats, true, 512);
    tally_add(&tally, true, 512, 1);
    tally_retire(&tally, &stats, true, 512, 1);
    tally_add(&tally, true, 512, 1);
    tally_settle(&tally, &stats);
    EXPECT_EQ(stats.allocation.all.peak, 2);
    EXPECT_EQ(stats.active.all.peak, 2);
    tally_resume(&tally, &stats);
    tally_wait(&tally, &stats, true, 512);
    tally_add(&tally, true, 512, 1);
    tally_settle(&tally, &stats);
    EXPECT_EQ(stats.allocation.all.peak, 2);
    EXPECT_EQ(stats.active.all.peak, 3);
}

enum { BLOCKS = 64 };

/* A block of the picture below. */
struct piece {
    size_t bytes, requested;
    enum { GONE, LIVE, WAITING } state;
};

/* Lets one piece go on, in the tally and in statistics that are moved at once. */
static void piece_step(struct piece *piece, struct stats_tally *tally, acre_cache_stats *stats,
                       acre_cache_stats *plain)
{
    bool is_small = piece->bytes <= 4096;

    if (piece->state == GONE) {
        piece->bytes = 512 * (1 + below(16));
        piece->requested = piece->bytes - below(512);
        is_small = piece->bytes <= 4096;
        piece->state = LIVE;
        tally_add(tally, is_small, piece->bytes, piece->requested);
        stats_live_add(plain, is_small, piece->bytes, piece->requested);
    } else if (piece->state == LIVE && below(3) == 0) {
        piece->state = WAITING;
        tally_wait(tally, stats, is_small, piece->bytes);
        stats_live_drop(plain, is_small, piece->bytes);
    } else if (piece->state == LIVE) {
        piece->state = GONE;
        tally_remove(tally, is_small, piece->bytes, piece->requested);
        stats_live_drop(plain, is_small, piece->bytes);
        stats_live_retire(plain, is_small, piece->bytes, piece->requested);
    } else {
        piece->state = GONE;
        tally_retire(tally, stats, is_small, piece->bytes, piece->requested);
        stats_live_retire(plain, is_small, piece->bytes, piece->requested);
    }
}

/* Whatever happens, in whatever order, the same comes out as when all statistics are moved
 * at once. */
TEST(agrees_with_statistics_that_are_moved_at_once)
{
    static struct stats_tally tally;
    static acre_cache_stats stats, plain;
    static struct piece pieces[BLOCKS];
    int64_t splits[2] = {0};

    dice_begin();
    memset(&tally, 0, sizeof tally);
    memset(&stats, 0, sizeof stats);
    memset(&plain, 0, sizeof plain);
    memset(pieces, 0, sizeof pieces);
    for (int step = 0; step < 20000; step++) {
        piece_step(&pieces[below(BLOCKS)], &tally, &stats, &plain);
        bool is_small = below(2);
        int64_t change = (int64_t)below(5) - 2;
        if (splits[is_small] + change >= 0) {
            splits[is_small] += change;
            tally_split(&tally, is_small, change, 512 * change);
            stats_move(&plain.inactive_split, is_small, change);
            stats_move(&plain.inactive_split_bytes, is_small, 512 * change);
        }
        if (below(16))
            continue;
        tally_settle(&tally, &stats);
        REQUIRE(memcmp(&stats, &plain, sizeof stats) == 0);
        if (below(20) == 0) {
            stats_reset_peak(&stats);
            stats_reset_peak(&plain);
        }
        if (below(20) == 0) {
            stats_reset_accumulated(&stats);
            stats_reset_accumulated(&plain);
        }
        tally_resume(&tally, &stats);
    }
}

T_MAIN()
