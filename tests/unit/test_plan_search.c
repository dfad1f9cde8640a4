/* SPDX-License-Identifier: MIT */
/* The exact search by its decisions: what is found, what is excluded, after how many. */
#include "plan/search.h"

#include "tests/support/t.h"

#define CAPACITY 1048576
#define DECISIONS_MAX 200000u /* for all eleven instances, with any seed */

/* Runs both styles by turns with growing limits, as two threads would; gives the decisions
 * of the style that was first. */
static uint64_t race(struct search *search, int64_t capacity, uint64_t seed,
                     enum search_result wanted, int64_t *offsets)
{
    for (uint64_t most = 1000; most <= DECISIONS_MAX; most *= 2)
        for (uint32_t style = 0; style <= SEARCH_BY_FLOOR; style++) {
            _Atomic uint64_t limit = most;
            uint64_t nodes;
            enum search_result result = search_run(search, style, capacity,
                                                   2 * seed + style, &limit, offsets, &nodes);
            if (result != SEARCH_LIMIT) {
                EXPECT_EQ(result, wanted);
                return nodes;
            }
        }
    return DECISIONS_MAX + 1;
}

static uint64_t solve(const char *path, uint64_t seed)
{
    struct sections *sections;
    struct search *search;
    acre_plan_table *table;
    size_t count;

    REQUIRE_OK(acre_plan_read(path, &table));
    const acre_plan_buffer *buffers = acre_plan_buffers(table, &count);
    int64_t *offsets = calloc(count, sizeof *offsets);
    REQUIRE_OK(sections_create(buffers, count, &sections));
    REQUIRE_OK(search_create(sections, &search));
    uint64_t nodes = race(search, CAPACITY, seed, SEARCH_FOUND, offsets);
    REQUIRE_OK(acre_plan_verify(buffers, count, (const uint64_t *)offsets, CAPACITY));
    search_destroy(search);
    sections_destroy(sections);
    free(offsets);
    acre_plan_close(table);
    return nodes;
}

TEST(eleven_challenging_instances_take_few_decisions)
{
    bool is_slow = t_slowness() > 1;
    uint64_t most = 0;
    char name[64];

    for (uint64_t seed = 0; seed < (is_slow ? 1 : t_count(2, 40)); seed++) {
        uint64_t sum = 0;
        for (const char *letter = is_slow ? "AFH" : "ABCDEFGHIJK"; *letter; letter++) {
            snprintf(name, sizeof name, "plan/minimalloc/%c.1048576.csv", *letter);
            const char *path = t_shared(name);
            if (!path)
                T_SKIP("%s is not at hand", name);
            sum += solve(path, seed);
        }
        EXPECT_LE(sum, DECISIONS_MAX);
        most = sum > most ? sum : most;
    }
    if (getenv("ACRE_FIGURES"))
        printf("most decisions for all eleven: %llu\n", (unsigned long long)most);
}

/* A buffer in the middle of two halves that only fit on either side of it, twice. */
TEST(what_does_not_fit_is_excluded_by_both_styles)
{
    acre_plan_buffer buffers[8];
    int64_t offsets[8];
    struct sections *sections;
    struct search *search;

    for (uint64_t k = 0; k < 2; k++) {
        buffers[4 * k] = (acre_plan_buffer){.start = 10 * k, .end = 10 * k + 2, .size = 3};
        buffers[4 * k + 1] = (acre_plan_buffer){.start = 10 * k, .end = 10 * k + 4, .size = 4};
        buffers[4 * k + 2] = (acre_plan_buffer){.start = 10 * k + 3, .end = 10 * k + 6, .size = 3};
        buffers[4 * k + 3] = (acre_plan_buffer){.start = 10 * k + 1, .end = 10 * k + 5, .size = 2};
    }
    REQUIRE_OK(sections_create(buffers, 8, &sections));
    REQUIRE_OK(search_create(sections, &search));
    EXPECT_EQ(sections->lower_bound, 9);
    EXPECT_LE(race(search, 9, 1, SEARCH_FOUND, offsets), 100);
    EXPECT_LE(race(search, 8, 1, SEARCH_NONE, offsets), 100);
    search_destroy(search);
    sections_destroy(sections);
}

T_MAIN()
