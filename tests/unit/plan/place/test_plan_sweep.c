/* SPDX-License-Identifier: MIT */
/* Sweeps and what they are made of: the space of one moment, and scores. */
#include "base/heap.h"
#include "plan/place/shift.h"
#include "plan/place/sweep_axis.h"
#include "plan/place/space.h"
#include "plan/place/sweep.h"
#include "plan/place/hole_score.h"
#include "tests/support/t.h"

#include <math.h>

#define RESIDENTS 64u
#define CEILING   4096

/* ---- Space ---------------------------------------------------------------------------- */

/* The first turn of seed 0, with a ceiling and neither limit nor deadline. */
static int64_t place_within(struct sweep *sweep, int64_t ceiling, int64_t *offsets)
{
    struct sweep_goal goal = {ceiling, INT64_MAX, 0};

    return sweep_place(sweep, 0, 0, &goal, offsets);
}

TEST(bins_are_in_order_of_size)
{
    for (int64_t size = 1; size < 5000; size++) {
        uint32_t bin = space_bin(size);
        EXPECT_GE(space_bin(size + 1), bin);
        EXPECT_LE(space_bin_size(bin), size);
        EXPECT_EQ(space_bin(space_bin_size(bin)), bin);
        EXPECT_LE(size - space_bin_size(bin), size / 8);
    }
    EXPECT_LE(space_bin(INT64_MAX), SPACE_BINS - 1);
}

/* Walks residents and holes, and checks that bins hold exactly the holes there are. */
static void check_space(const struct space *space, const bool *lives)
{
    uint32_t holes = 0, listed = 0, count = 0;
    int64_t top = 0;

    for (uint32_t at = space->floor; at != SPACE_NONE; at = space->residents[at].above) {
        EXPECT_GE(space->residents[at].offset, top);
        top = space_hole_start(space, at);
        uint32_t above = space->residents[at].above;
        int64_t size = space->residents[at].hole;
        EXPECT_EQ(top + size,
                  above == SPACE_NONE ? space->ceiling : space->residents[above].offset);
        EXPECT_EQ(space->residents[at].bin, size ? space_bin(size) : SPACE_NONE);
        holes += size > 0;
        if (at != space->floor) {
            EXPECT(lives[at]);
            count++;
        }
        if (above == SPACE_NONE)
            EXPECT_EQ(space->top, at);
        else
            EXPECT_EQ(space->residents[above].below, at);
    }
    EXPECT_EQ(space->count, count);
    for (uint32_t bin = space_next_bin(space, 0); bin < SPACE_BINS;
         bin = space_next_bin(space, bin + 1))
        for (uint32_t at = space->bins[bin]; at != SPACE_NONE; at = space->residents[at].behind) {
            EXPECT_EQ(space->residents[at].bin, bin);
            listed++;
        }
    EXPECT_EQ(listed, holes);
}

/* Puts a buffer into the first hole that is large enough; false when there is none. */
static bool put_somewhere(struct space *space, uint32_t buffer, bool is_high)
{
    int64_t size = space->residents[buffer].size;

    for (uint32_t bin = space_next_bin(space, space_bin(size)); bin < SPACE_BINS;
         bin = space_next_bin(space, bin + 1))
        for (uint32_t at = space->bins[bin]; at != SPACE_NONE; at = space->residents[at].behind) {
            int64_t start = space_hole_start(space, at), end = space_hole_end(space, at);
            if (end - start < size)
                continue;
            space_put(space, buffer, at, is_high ? end - size : start);
            return true;
        }
    return false;
}

TEST(a_space_knows_its_holes_and_comes_back_to_a_list)
{
    struct space space = {0};
    uint64_t random = t_seed();
    bool lives[RESIDENTS] = {false}, lived[RESIDENTS] = {false};
    uint32_t list[RESIDENTS], count = 0;

    REQUIRE_OK(space_init(&space, RESIDENTS));
    for (uint32_t i = 0; i < RESIDENTS; i++)
        space.residents[i].size = 1 + (int64_t)(t_random(&random) % 200);
    space_clear(&space, CEILING);
    check_space(&space, lives);
    for (int step = 0; step < 2000; step++) {
        uint32_t i = (uint32_t)(t_random(&random) % RESIDENTS);
        if (lives[i])
            space_take(&space, i, (uint32_t)step);
        lives[i] = !lives[i] && put_somewhere(&space, i, t_random(&random) % 2);
        check_space(&space, lives);
        if (step == 1000) { /* what lives from here on to the end keeps its offset */
            space_list(&space, list);
            count = space.count;
            memcpy(lived, lives, sizeof lived);
        }
        if (step > 1000)
            lived[i] = false;
    }
    uint32_t kept = 0;
    for (uint32_t k = 0; k < count; k++)
        if (lived[list[k]])
            list[kept++] = list[k];
    space_restore(&space, list, kept, CEILING, 9);
    EXPECT_EQ(space.residents[space.floor].since, 9);
    check_space(&space, lived);
    EXPECT_EQ(space.count, kept);
    space_raise(&space, 2 * CEILING);
    EXPECT_EQ(space_hole_end(&space, space.top), 2 * CEILING);
    check_space(&space, lived);
    space_fini(&space);
    EXPECT_EQ(heap_live_count(), 0);
}

/* ---- Shift ---------------------------------------------------------------------------- */

/* Three buffers of 10, 20 and 10 from the floor up, and one of 45 that wants to come in
 * section 7; the ceiling is at 75, so there are 35 bytes in one piece. */
struct shift_bed {
    struct sections *sections;
    struct space space;
    uint32_t birth[4];
};

static void raise_bed(struct shift_bed *bed)
{
    static const acre_plan_buffer buffers[4] = {{.start = 0, .end = 99, .size = 10},
                                                {.start = 2, .end = 99, .size = 20},
                                                {.start = 3, .end = 99, .size = 10},
                                                {.start = 7, .end = 99, .size = 45}};

    *bed = (struct shift_bed){.birth = {0, 2, 3, 7}};
    REQUIRE_OK(sections_create(buffers, 4, &bed->sections));
    REQUIRE_OK(space_init(&bed->space, 4));
    for (int i = 0; i < 4; i++)
        bed->space.residents[i].size = (int64_t)buffers[i].size;
    space_clear(&bed->space, 75);
    space_put(&bed->space, 0, bed->space.floor, 0);
    space_put(&bed->space, 1, 0, 10);
    space_put(&bed->space, 2, 1, 30);
}

static void end_bed(struct shift_bed *bed)
{
    space_fini(&bed->space);
    sections_destroy(bed->sections);
    EXPECT_EQ(heap_live_count(), 0);
}

TEST(a_neighbour_moves_to_a_hole_that_was_free_when_it_was_born)
{
    struct shift_bed bed;

    raise_bed(&bed);
    space_take(&bed.space, 0, 3); /* from section 3 on: the topmost, born then, may go there */
    EXPECT(shift_one(&bed.space, bed.sections, bed.birth, 1, 3));
    EXPECT_EQ(bed.space.residents[2].offset, 0);
    EXPECT_EQ(bed.space.residents[1].offset, 10);
    EXPECT_EQ(bed.space.residents[1].hole, 45);
    EXPECT_EQ(bed.space.count, 2);
    end_bed(&bed);
}

TEST(nothing_moves_to_a_hole_that_was_taken_nor_from_before_a_mark)
{
    struct shift_bed bed;

    raise_bed(&bed);
    EXPECT(!shift_one(&bed.space, bed.sections, bed.birth, 1, 3)); /* no hole to go to */
    space_take(&bed.space, 0, 4); /* but the topmost was born in section 3 */
    EXPECT(!shift_one(&bed.space, bed.sections, bed.birth, 1, 3));
    EXPECT_EQ(bed.space.residents[2].offset, 30);
    end_bed(&bed);
    raise_bed(&bed);
    space_take(&bed.space, 0, 3);
    EXPECT(!shift_one(&bed.space, bed.sections, bed.birth, 3, 3)); /* it is to stay */
    EXPECT_EQ(bed.space.residents[2].offset, 30);
    end_bed(&bed);
}

/* ---- Side ----------------------------------------------------------------------------- */

TEST(a_side_counts_in_the_direction_that_it_goes)
{
    static const acre_plan_buffer buffers[3] = {{.start = 0, .end = 2, .size = 1},
                                                {.start = 2, .end = 4, .size = 1},
                                                {.start = 0, .end = 6, .size = 1}};
    static const uint32_t order[3] = {2, 0, 1};
    struct sections *sections = NULL;
    struct sweep_axis axis = {0};

    REQUIRE_OK(sections_create(buffers, 3, &sections)); /* sections begin at 0 and at 2 */
    REQUIRE_OK(sweep_axis_init(&axis, sections, false, order, 3));
    EXPECT_EQ(axis.by_birth[0], 2); /* born together: as given */
    EXPECT_EQ(axis.by_birth[1], 0);
    EXPECT_EQ(sweep_axis_born(&axis, 0), 2);
    EXPECT_EQ(sweep_axis_dead(&axis, 0), 0);
    EXPECT_EQ(sweep_axis_dead(&axis, 1), 1);
    sweep_axis_fini(&axis);
    axis = (struct sweep_axis){0};
    REQUIRE_OK(sweep_axis_init(&axis, sections, true, order, 3));
    EXPECT_EQ(sweep_axis_born(&axis, 0), 2);
    EXPECT_EQ(axis.birth[0], 1);
    EXPECT_EQ(axis.death[1], 1);
    EXPECT_EQ(sweep_axis_dead(&axis, 1), 1);
    sweep_axis_fini(&axis);
    sections_destroy(sections);
    EXPECT_EQ(heap_live_count(), 0);
}

/* ---- Taste ---------------------------------------------------------------------------- */

TEST(no_hole_scores_less_than_the_least_of_its_bin)
{
    uint64_t random = t_seed();

    for (uint32_t turn = 0; turn < 200; turn++) {
        struct hole_score hole_score = turn < 2 ? hole_score_first(turn) : hole_score_draw(&random);
        for (float rest = 0; rest < 20; rest = rest * 1.3f + 0.01f)
            for (float more = 0; more < 20; more += 0.7f)
                EXPECT_LE(hole_score_least(&hole_score, rest),
                          hole_score_rate(&hole_score, rest + more, 1) + 1e-5f);
        EXPECT_GE(hole_score_rate(&hole_score, 0.5f, 4), hole_score_rate(&hole_score, 0.5f, 1));
        EXPECT_GE(hole_score_rate(&hole_score, 0.5f, 1),
                  hole_score_rate(&hole_score, 0, 1) - 1e-5f);
    }
    EXPECT_LE(fabsf(hole_score_log2(8) - 3), 0.02f);
    EXPECT_LE(fabsf(hole_score_log2(1)), 0.02f);
}

/* ---- Sweep ---------------------------------------------------------------------------- */

static acre_plan_buffer *draw(uint64_t *random, size_t count, bool is_aligned)
{
    acre_plan_buffer *buffers = calloc(count, sizeof *buffers);

    for (size_t i = 0; i < count; i++) {
        buffers[i].start = t_random(random) % (2 * count);
        buffers[i].end = buffers[i].start + t_random(random) % (i % 5 ? 20 : count / 4);
        buffers[i].size = t_random(random) % (i % 3 ? 50 : 1000);
        if (is_aligned && i % 4 == 0)
            buffers[i].alignment = 1 + t_random(random) % 64;
    }
    return buffers;
}

TEST(sweeps_are_valid_from_every_start_with_every_taste)
{
    uint64_t random = t_seed();

    for (size_t round = 0; round < 6; round++) {
        size_t count = 300 + 300 * round;
        acre_plan_buffer *buffers = draw(&random, count, round % 2);
        int64_t *offsets = calloc(count, sizeof *offsets), *again = calloc(count, sizeof *again);
        struct sections *sections = NULL;
        struct sweep *sweep = NULL, *twin = NULL;
        REQUIRE_OK(sections_create(buffers, count, &sections));
        REQUIRE_OK(sweep_create(sections, &sweep));
        REQUIRE_OK(sweep_create(sections, &twin));
        int64_t bound = sections->lower_bound, ceiling = bound + bound / 50;
        struct sweep_goal late = {ceiling, INT64_MAX, 1e-9}, any = {ceiling, INT64_MAX, 0};
        struct sweep_goal lower = {ceiling, bound, 0};
        EXPECT_EQ(sweep_place(sweep, 1, 0, &late, offsets), INT64_MAX);
        for (uint32_t turn = 0; turn < 12; turn++) {
            int64_t height = sweep_place(sweep, 1, turn, &any, offsets);
            EXPECT_GE(height, bound);
            EXPECT_LE(height, 2 * bound);
            REQUIRE_OK(acre_plan_verify(buffers, count, (uint64_t *)offsets, (uint64_t)height));
            EXPECT_EQ(sweep_place(twin, 1, turn, &any, again), height);
            EXPECT_EQ(memcmp(offsets, again, count * sizeof *offsets), 0);
            EXPECT_EQ(sweep_place(sweep, 1, turn, &lower, again), INT64_MAX);
        }
        EXPECT_GE(sweep_work(sweep), 1);
        sweep_destroy(sweep);
        sweep_destroy(twin);
        sections_destroy(sections);
        free(buffers);
        free(offsets);
        free(again);
    }
    EXPECT_EQ(heap_live_count(), 0);
}

TEST(a_sweep_of_nothing_and_of_one_moment)
{
    acre_plan_buffer none = {.start = 3, .end = 3, .size = 9}, stack[50];
    struct sections *sections = NULL;
    struct sweep *sweep = NULL;
    int64_t offsets[50] = {7};

    REQUIRE_OK(sections_create(&none, 1, &sections));
    REQUIRE_OK(sweep_create(sections, &sweep));
    EXPECT_EQ(place_within(sweep, 0, offsets), 0);
    EXPECT_EQ(offsets[0], 0);
    sweep_destroy(sweep);
    sections_destroy(sections);
    for (int i = 0; i < 50; i++)
        stack[i] = (acre_plan_buffer){.start = 1, .end = 2, .size = 3};
    REQUIRE_OK(sections_create(stack, 50, &sections));
    REQUIRE_OK(sweep_create(sections, &sweep));
    EXPECT_EQ(place_within(sweep, 150, offsets), 150);
    REQUIRE_OK(acre_plan_verify(stack, 50, (uint64_t *)offsets, 150));
    sweep_destroy(sweep);
    sections_destroy(sections);
}

/* Seventy holes of 96 bytes end together between buffers that stay; the only hole for one
 * of 100 is older than all of them and in the same bin. */
TEST(a_hole_behind_many_that_are_too_small_is_found)
{
    enum { BLOCKS = 140, CRUMBS = 400, COUNT = BLOCKS + CRUMBS + 1 };
    acre_plan_buffer buffers[COUNT];
    struct sections *sections = NULL;
    struct sweep *sweep = NULL;
    int64_t offsets[COUNT];

    for (uint64_t k = 0; k < CRUMBS; k++) /* each is a section of its own */
        buffers[BLOCKS + k] = (acre_plan_buffer){.start = k, .end = k + 1, .size = 1};
    for (uint64_t k = 0; k < BLOCKS; k++)
        buffers[k] =
            (acre_plan_buffer){.start = k + 1, .end = k % 2 ? 9000 : 1000, .size = k % 2 ? 8 : 96};
    buffers[COUNT - 1] = (acre_plan_buffer){.start = 1000, .end = 1001, .size = 100};
    REQUIRE_OK(sections_create(buffers, COUNT, &sections));
    REQUIRE_OK(sweep_create(sections, &sweep));
    int64_t ceiling = sections->lower_bound + 101;
    int64_t height = place_within(sweep, ceiling, offsets);
    EXPECT_LE(height, ceiling);
    REQUIRE_OK(acre_plan_verify(buffers, COUNT, (uint64_t *)offsets, (uint64_t)height));
    sweep_destroy(sweep);
    sections_destroy(sections);
}

TEST(every_allocation_of_a_sweep_may_fail)
{
    uint64_t random = t_seed();
    acre_plan_buffer *buffers = draw(&random, 3000, false);
    int64_t *offsets = calloc(3000, sizeof *offsets);
    struct sections *sections = NULL;

    REQUIRE_OK(sections_create(buffers, 3000, &sections));
    uint64_t live = heap_live_count();
    for (uint64_t nth = 1;; nth++) {
        struct sweep *sweep = NULL;
        int64_t height = INT64_MAX;
        heap_fail_nth(nth);
        if (sweep_create(sections, &sweep) == ACRE_OK)
            height = place_within(sweep, sections->lower_bound, offsets);
        bool has_failed = heap_fail_disarm();
        EXPECT_EQ(height == INT64_MAX, has_failed);
        sweep_destroy(sweep);
        EXPECT_EQ(heap_live_count(), live);
        if (!has_failed)
            break;
    }
    sections_destroy(sections);
    free(buffers);
    free(offsets);
}

T_MAIN()
