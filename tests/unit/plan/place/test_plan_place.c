/* SPDX-License-Identifier: MIT */
/* Placements against an independent checker, against brute force, and at the
 * edges of what is accepted. */
#include "base/heap.h"
#include "tests/support/t.h"

#include <acre/plan.h>

#include <inttypes.h>

#define SMALL_MAX 8

/* ---- The checker ---------------------------------------------------------------------- */

static bool lives_at(const acre_plan_buffer *buffer, uint64_t time)
{
    if (buffer->size == 0 || time < buffer->start || time >= buffer->end)
        return false;
    for (uint32_t g = 0; g < buffer->gap_count; g++)
        if (time >= buffer->gaps[g].start && time < buffer->gaps[g].end)
            return false;
    return true;
}

/* Whether two buffers are needed at one moment: at a start or at the end of a gap
 * of one of them. */
static bool meet(const acre_plan_buffer *a, const acre_plan_buffer *b)
{
    if (lives_at(a, b->start) && lives_at(b, b->start))
        return true;
    for (uint32_t g = 0; g < b->gap_count; g++)
        if (lives_at(a, b->gaps[g].end) && lives_at(b, b->gaps[g].end))
            return true;
    return false;
}

struct edge {
    uint64_t time, offset, end;
    int is_start;
};

static int compare_edges(const void *left, const void *right)
{
    const struct edge *a = left, *b = right;

    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return a->is_start - b->is_start;
}

/* Sweeps over time with the live spans sorted by offset; tells the height or 0 when
 * two overlap. Without gaps. */
static uint64_t sweep_height(const acre_plan_buffer *buffers, size_t count,
                             const uint64_t *offsets)
{
    struct edge *edges = calloc(2 * count + 1, sizeof *edges), *live;
    size_t edge_count = 0, live_count = 0;
    uint64_t height = 0;
    bool is_good = true;

    live = calloc(count + 1, sizeof *live);
    for (size_t i = 0; i < count; i++) {
        uint64_t end = offsets[i] + buffers[i].size;
        if (buffers[i].size == 0 || buffers[i].start == buffers[i].end)
            continue;
        edges[edge_count++] = (struct edge){buffers[i].start, offsets[i], end, 1};
        edges[edge_count++] = (struct edge){buffers[i].end, offsets[i], end, 0};
        height = end > height ? end : height;
    }
    qsort(edges, edge_count, sizeof *edges, compare_edges);
    for (size_t e = 0; e < edge_count && is_good; e++) {
        size_t low = 0, high = live_count;
        while (low < high) {
            size_t middle = (low + high) / 2;
            if (live[middle].offset < edges[e].offset)
                low = middle + 1;
            else
                high = middle;
        }
        if (edges[e].is_start) {
            is_good = (low == 0 || live[low - 1].end <= edges[e].offset) &&
                      (low == live_count || live[low].offset >= edges[e].end);
            memmove(live + low + 1, live + low, (live_count++ - low) * sizeof *live);
            live[low] = edges[e];
        } else {
            memmove(live + low, live + low + 1, (--live_count - low) * sizeof *live);
        }
    }
    free(edges);
    free(live);
    return is_good ? height : 0;
}

/* ---- Brute force ---------------------------------------------------------------------- */

/* The lowest height of at most eight buffers: every order, each buffer as low as
 * those before it allow. Some order is that of the offsets of a best placement. */
static uint64_t brute(const acre_plan_buffer *buffers, size_t count, unsigned done,
                      uint64_t *offsets, uint64_t height, uint64_t best)
{
    if (height >= best)
        return best;
    if (done == (1u << count) - 1)
        return height;
    for (size_t i = 0; i < count; i++) {
        uint64_t floor = 0, step = buffers[i].alignment ? buffers[i].alignment : 1;
        if (done >> i & 1)
            continue;
        for (size_t k = 0; k < count; k++)
            if ((done >> k & 1) &&
                (meet(&buffers[i], &buffers[k]) || meet(&buffers[k], &buffers[i])))
                floor = offsets[k] + buffers[k].size > floor ? offsets[k] + buffers[k].size : floor;
        offsets[i] = (floor + step - 1) / step * step;
        uint64_t top = buffers[i].end > buffers[i].start && buffers[i].size
                           ? offsets[i] + buffers[i].size : 0;
        best = brute(buffers, count, done | 1u << i, offsets, top > height ? top : height, best);
    }
    return best;
}

static void draw(uint64_t *random, acre_plan_buffer *buffers, size_t count, acre_plan_gap *gaps,
                 bool is_rich)
{
    for (size_t i = 0; i < count; i++) {
        acre_plan_buffer *buffer = &buffers[i];
        *buffer = (acre_plan_buffer){.start = t_random(random) % 12, .size = t_random(random) % 9};
        buffer->end = buffer->start + t_random(random) % 8;
        if (!is_rich)
            continue;
        if (t_random(random) % 4 == 0)
            buffer->alignment = 1 + t_random(random) % 4;
        if (buffer->end - buffer->start >= 3 && t_random(random) % 2) {
            gaps[i].start = buffer->start + 1;
            gaps[i].end = buffer->start + 2;
            buffer->gaps = &gaps[i];
            buffer->gap_count = 1;
        }
    }
}

static void compare_with_brute(bool is_rich)
{
    uint64_t random = t_seed(), scratch[SMALL_MAX], offsets[SMALL_MAX];
    acre_plan_buffer buffers[SMALL_MAX];
    acre_plan_gap gaps[SMALL_MAX];

    for (uint64_t n = 0; n < t_count(300, 5000); n++) {
        size_t count = 1 + t_random(&random) % (is_rich ? 6 : SMALL_MAX);
        acre_plan_result result = {.struct_size = sizeof result};
        draw(&random, buffers, count, gaps, is_rich);
        uint64_t best = brute(buffers, count, 0, scratch, 0, UINT64_MAX);
        REQUIRE_OK(acre_plan_place(buffers, count, NULL, offsets, &result));
        EXPECT_EQ(result.height, best);
        EXPECT_EQ(result.is_optimal, 1);
        EXPECT_LE(result.lower_bound, best);
        REQUIRE_OK(acre_plan_verify(buffers, count, offsets, best));
        for (size_t i = 0; i < count; i++)
            for (size_t k = 0; k < i; k++)
                if (meet(&buffers[i], &buffers[k]) || meet(&buffers[k], &buffers[i]))
                    EXPECT_EQ(offsets[i] < offsets[k] + buffers[k].size &&
                                  offsets[k] < offsets[i] + buffers[i].size, 0);
        if (best > 1) { /* and one byte less is refused, as proved */
            acre_plan_config config = {.struct_size = sizeof config, .capacity = best - 1};
            EXPECT_EQ(acre_plan_place(buffers, count, &config, offsets, NULL), ACRE_ERR_LIMIT);
        }
    }
}

TEST(plain_buffers_agree_with_brute_force)
{
    compare_with_brute(false);
}

TEST(gaps_and_alignments_agree_with_brute_force)
{
    compare_with_brute(true);
}

/* ---- Properties ----------------------------------------------------------------------- */

static acre_plan_buffer *draw_many(uint64_t *random, size_t count)
{
    acre_plan_buffer *buffers = calloc(count, sizeof *buffers);

    for (size_t i = 0; i < count; i++) {
        buffers[i].start = t_random(random) % (count * 4);
        buffers[i].end = buffers[i].start + 1 + t_random(random) % (i % 10 ? 60 : count);
        buffers[i].size = 512 * (1 + t_random(random) % (i % 7 ? 16 : 512));
    }
    return buffers;
}

TEST(order_of_rows_does_not_change_the_height)
{
    uint64_t random = t_seed(), offsets[24];

    for (uint64_t n = 0; n < t_count(4, 100); n++) {
        acre_plan_buffer *buffers = draw_many(&random, 24);
        acre_plan_result first = {.struct_size = sizeof first}, second = first;
        REQUIRE_OK(acre_plan_place(buffers, 24, NULL, offsets, &first));
        for (size_t i = 23; i > 0; i--) {
            size_t k = t_random(&random) % (i + 1);
            acre_plan_buffer buffer = buffers[i];
            buffers[i] = buffers[k];
            buffers[k] = buffer;
        }
        REQUIRE_OK(acre_plan_place(buffers, 24, NULL, offsets, &second));
        EXPECT_EQ(first.height, second.height);
        EXPECT_EQ(sweep_height(buffers, 24, offsets), second.height);
        free(buffers);
    }
}

TEST(a_gap_never_raises_the_bound)
{
    uint64_t random = t_seed(), offsets[20];
    acre_plan_config config = {.struct_size = sizeof config, .seconds = 0.05};
    acre_plan_gap gap;

    for (uint64_t n = 0; n < t_count(20, 200); n++) {
        acre_plan_buffer *buffers = draw_many(&random, 20);
        acre_plan_result without = {.struct_size = sizeof without}, with = without;
        REQUIRE_OK(acre_plan_place(buffers, 20, &config, offsets, &without));
        acre_plan_buffer *longest = buffers;
        for (size_t i = 1; i < 20; i++)
            if (buffers[i].end - buffers[i].start > longest->end - longest->start)
                longest = &buffers[i];
        gap = (acre_plan_gap){longest->start + 1, longest->end - 1};
        if (gap.start < gap.end) {
            longest->gaps = &gap;
            longest->gap_count = 1;
        }
        REQUIRE_OK(acre_plan_place(buffers, 20, &config, offsets, &with));
        EXPECT_LE(with.lower_bound, without.lower_bound);
        REQUIRE_OK(acre_plan_verify(buffers, 20, offsets, with.height));
        free(buffers);
    }
}

TEST(the_same_seed_gives_the_same_offsets)
{
    uint64_t random = t_seed(), first[24], second[24];
    acre_plan_buffer *buffers = draw_many(&random, 24);
    acre_plan_config config = {.struct_size = sizeof config, .seed = 7};

    REQUIRE_OK(acre_plan_place(buffers, 24, &config, first, NULL));
    config.threads = 1;
    REQUIRE_OK(acre_plan_place(buffers, 24, &config, second, NULL));
    EXPECT_EQ(memcmp(first, second, sizeof first), 0);
    EXPECT_NE(sweep_height(buffers, 24, first), 0);
    free(buffers);
}

/* Not of random buffers: some reach their bound before placing looks at the clock. */
TEST(placing_is_given_up_at_its_limit)
{
    enum { COUNT = 3000 };
    uint64_t random = 3, kept[2] = {77, 77};
    acre_plan_buffer *buffers = draw_many(&random, COUNT);
    uint64_t *offsets = heap_array(COUNT, sizeof *offsets);
    acre_plan_config config = {.struct_size = sizeof config, .limit = 1e-9};

    offsets[0] = offsets[COUNT - 1] = kept[0];
    EXPECT_EQ(acre_plan_place(buffers, COUNT, &config, offsets, NULL), ACRE_ERR_TIMEOUT);
    EXPECT_HAS(acre_last_error(), "3000 buffers takes longer than 1e-09 seconds");
    EXPECT(offsets[0] == kept[0] && offsets[COUNT - 1] == kept[1]);
    config.seconds = 100;
    EXPECT_EQ(acre_plan_place(buffers, COUNT, &config, offsets, NULL), ACRE_ERR_TIMEOUT);
    config.limit = -1;
    EXPECT_EQ(acre_plan_place(buffers, COUNT, &config, offsets, NULL), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "limit is negative");
    heap_free(buffers);
    heap_free(offsets);
}

static void expect_close(uint64_t seed, size_t count, uint64_t part)
{
    acre_plan_buffer *buffers = draw_many(&seed, count);
    uint64_t *offsets = calloc(count, sizeof *offsets);
    acre_plan_result result = {.struct_size = sizeof result};

    REQUIRE_OK(acre_plan_place(buffers, count, NULL, offsets, &result));
    EXPECT_EQ(sweep_height(buffers, count, offsets), result.height);
    EXPECT_LE(result.height, result.lower_bound + result.lower_bound / part);
    free(buffers);
    free(offsets);
}

/* One draw, as others are harder (docs/BENCHMARKS.md): it keeps what is reached. */
#define MANY_SEED 1000003u

TEST(many_buffers_come_close_to_the_bound)
{
    expect_close(MANY_SEED, t_count(8000, 100000), 25);
}

TEST(a_hundred_thousand_buffers_reach_half_a_percent)
{
    if (!t_count(0, 1))
        T_SKIP("100,000 buffers are placed with ACRE_TEST_LONG=1");
    expect_close(MANY_SEED, 100000, 200);
}

/* ---- Edges ---------------------------------------------------------------------------- */

TEST(nothing_and_nothing_that_lives)
{
    acre_plan_buffer buffers[3] = {{.start = 5, .end = 5, .size = 100}, {.start = 1, .end = 9}};
    uint64_t offsets[3] = {9, 9, 9};
    acre_plan_result result = {.struct_size = sizeof result};

    REQUIRE_OK(acre_plan_place(NULL, 0, NULL, NULL, &result));
    EXPECT_EQ(result.height, 0);
    REQUIRE_OK(acre_plan_place(buffers, 3, NULL, offsets, &result));
    EXPECT_EQ(result.height, 0);
    EXPECT_EQ(result.is_optimal, 1);
    EXPECT_EQ(offsets[0] + offsets[1] + offsets[2], 0);
}

TEST(identical_rows_stack)
{
    acre_plan_buffer buffers[300];
    uint64_t offsets[300];
    acre_plan_result result = {.struct_size = sizeof result};

    for (int i = 0; i < 300; i++)
        buffers[i] = (acre_plan_buffer){.start = 3, .end = 4, .size = 7};
    REQUIRE_OK(acre_plan_place(buffers, 300, NULL, offsets, &result));
    EXPECT_EQ(result.height, 2100);
    EXPECT_EQ(sweep_height(buffers, 300, offsets), 2100);
}

TEST(sizes_near_2_to_60)
{
    acre_plan_buffer buffers[3] = {{.start = 0, .end = 2, .size = (uint64_t)1 << 58},
                                   {.start = 1, .end = 3, .size = ((uint64_t)1 << 58) - 1},
                                   {.start = 2, .end = 4, .size = (uint64_t)1 << 58}};
    uint64_t offsets[3];
    acre_plan_result result = {.struct_size = sizeof result};

    REQUIRE_OK(acre_plan_place(buffers, 3, NULL, offsets, &result));
    EXPECT_EQ(result.height, ((uint64_t)1 << 59) - 1);
    for (int i = 0; i < 3; i++)
        buffers[i].size = (uint64_t)1 << 60;
    EXPECT_EQ(acre_plan_place(buffers, 3, NULL, offsets, &result), ACRE_ERR_INVALID);
    buffers[0].size++;
    EXPECT_EQ(acre_plan_place(buffers, 3, NULL, offsets, &result), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "buffer 0");
}

TEST(a_capacity_below_the_bound_is_refused_with_the_moment)
{
    acre_plan_buffer buffers[2] = {{.start = 10, .end = 30, .size = 60},
                                   {.start = 20, .end = 40, .size = 50}};
    uint64_t offsets[2];
    acre_plan_config config = {.struct_size = sizeof config, .capacity = 109};
    acre_plan_result result = {.struct_size = sizeof result};

    EXPECT_EQ(acre_plan_place(buffers, 2, &config, offsets, &result), ACRE_ERR_LIMIT);
    EXPECT_HAS(acre_last_error(), "110 bytes are needed at time 20");
    EXPECT_EQ(result.lower_bound, 110);
    EXPECT_EQ(result.bound_time, 20);
    config.capacity = 110;
    REQUIRE_OK(acre_plan_place(buffers, 2, &config, offsets, &result));
    EXPECT_EQ(result.height, 110);
}

TEST(fixed_offsets_are_kept)
{
    acre_plan_buffer buffers[3] = {
        {.start = 0, .end = 9, .size = 10, .offset = 20, .flags = ACRE_PLAN_FIXED},
        {.start = 0, .end = 9, .size = 15},
        {.start = 4, .end = 9, .size = 5}};
    uint64_t offsets[3];
    acre_plan_result result = {.struct_size = sizeof result};

    REQUIRE_OK(acre_plan_place(buffers, 3, NULL, offsets, &result));
    EXPECT_EQ(offsets[0], 20);
    EXPECT_EQ(result.height, 30);
    EXPECT_EQ(sweep_height(buffers, 3, offsets), 30);
    buffers[1].flags = ACRE_PLAN_FIXED;
    buffers[1].offset = 6;
    EXPECT_EQ(acre_plan_place(buffers, 3, NULL, offsets, &result), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "fixed");
}

TEST(bad_arguments_are_refused)
{
    acre_plan_gap gap = {1, 9};
    acre_plan_buffer backwards = {.start = 2, .end = 1, .size = 1};
    acre_plan_buffer holed = {.start = 0, .end = 8, .size = 1, .gaps = &gap, .gap_count = 1};
    acre_plan_config config = {0};
    acre_plan_result result = {0};
    uint64_t offset;

    EXPECT_EQ(acre_plan_place(&backwards, 1, NULL, &offset, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_plan_place(&holed, 1, NULL, &offset, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_plan_place(NULL, 1, NULL, &offset, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_plan_place(&holed, 1, &config, &offset, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_plan_place(&holed, 1, NULL, &offset, &result), ACRE_ERR_INVALID);
    config.struct_size = sizeof config;
    config.seconds = -1;
    EXPECT_EQ(acre_plan_place(&holed, 1, &config, &offset, NULL), ACRE_ERR_INVALID);
}

TEST(every_host_allocation_may_fail)
{
    uint64_t random = t_seed(), offsets[16], live = heap_live_count();
    acre_plan_buffer *buffers = draw_many(&random, 16);
    acre_plan_config config = {.struct_size = sizeof config, .threads = 1};

    for (uint64_t nth = 1;; nth++) {
        heap_fail_nth(nth);
        acre_status status = acre_plan_place(buffers, 16, &config, offsets, NULL);
        if (!heap_fail_disarm()) {
            EXPECT_EQ(status, ACRE_OK);
            break;
        }
        EXPECT_EQ(status, ACRE_ERR_HOST_MEMORY);
        EXPECT_EQ(heap_live_count(), live);
    }
    free(buffers);
}

/* ---- Known instances ------------------------------------------------------------------- */

/* Places within a capacity or, without one, at the height known, 0 for the bound. */
static void solve_shared(const char *name, uint64_t capacity, uint64_t known, uint64_t seed)
{
    const char *path = t_shared(name);
    acre_plan_config config = {.struct_size = sizeof config, .capacity = capacity, .seed = seed};
    acre_plan_result result = {.struct_size = sizeof result};
    acre_plan_table *table;
    size_t count;

    if (!path)
        T_SKIP("%s is not at hand", name);
    REQUIRE_OK(acre_plan_read(path, &table));
    const acre_plan_buffer *buffers = acre_plan_buffers(table, &count);
    uint64_t *offsets = calloc(count, sizeof *offsets);
    REQUIRE_OK(acre_plan_place(buffers, count, &config, offsets, &result));
    EXPECT_EQ(sweep_height(buffers, count, offsets), result.height);
    EXPECT_LE(result.height, capacity ? capacity : known ? known : result.lower_bound);
    free(offsets);
    acre_plan_close(table);
}

TEST(challenging_instances_fit_their_capacity)
{
    char name[64];

    for (const char *letter = t_slowness() > 1 ? "ADGH" : "ABCDEFGHIJK"; *letter; letter++)
        for (uint64_t seed = 0; seed < t_count(1, 20); seed++) {
            snprintf(name, sizeof name, "plan/minimalloc/%c.1048576.csv", *letter);
            solve_shared(name, 1048576, 0, seed);
        }
}

TEST(other_instances_reach_the_bound)
{
    static const char *const names[] = {
        "plan/minimalloc/input.12.csv", "plan/synthetic/cnn_1.cap4374.csv",
        "plan/synthetic/cnn_3.cap43664.csv", "plan/synthetic/cnn_5.cap79043.csv",
        "plan/synthetic/rand_1.cap294.csv", "plan/synthetic/rand_3.cap886.csv",
        "plan/synthetic/rand_5.cap1416.csv", "plan/synthetic/rand_7.cap2431.csv",
        "plan/synthetic/rand_9.cap2988.csv", "plan/synthetic/rand_11.cap3474.csv",
        "plan/synthetic/stress_1.cap578.csv", "plan/synthetic/stress_3.cap2144.csv",
        "plan/synthetic/stress_5.cap3837.csv", "plan/synthetic/stress_7.cap4978.csv",
        "plan/synthetic/stress_9.cap7062.csv", "plan/synthetic/stress_11.cap7328.csv",
        "plan/idealloc/G_1.csv", "plan/idealloc/resnet50.csv", "plan/idealloc/pangu_2.6B.csv",
    };

    size_t count = sizeof names / sizeof *names - (t_slowness() > 1); /* the last is large */

    for (size_t n = 0; n < count; n++)
        solve_shared(names[n], 0, 0, 0);
}

/* Of D and J the lowest is not known, so all of the work is done each time: seconds. */
TEST(lowest_heights_known_are_reached_with_any_seed)
{
    bool is_long = t_count(0, 1);
    char name[64];

    for (uint64_t seed = 0; seed < t_count(1, 21); seed++)
        for (const char *letter = is_long ? "ABCDEFGHIJK" : "BCH"; *letter; letter++) {
            snprintf(name, sizeof name, "plan/minimalloc/%c.1048576.csv", *letter);
            solve_shared(name, 0, *letter == 'D' ? 1013760 : *letter == 'J' ? 1009664 : 0, seed);
        }
}

T_MAIN()
