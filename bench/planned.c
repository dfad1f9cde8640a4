/* SPDX-License-Identifier: MIT */
/* Allocates and frees after a plan: what a look-up costs, calls into the shared
 * library included. */
#include "bench/bench.h"

#include <acre/planner.h>

#include <stdlib.h>

#define ROUND 1024 /* pairs */

static uint64_t count = 1000000;
static bool as_json;

static void run_round(acre_planner *planner)
{
    void *pointer;

    for (int i = 0; i < ROUND; i++) {
        acre_planner_alloc(planner, 4096, NULL, &pointer);
        acre_planner_free(planner, pointer);
    }
}

/* Makes a round the plan. */
static void learn_round(acre_planner *planner)
{
    acre_trace_event *events = calloc(2 * ROUND, sizeof *events);

    if (!events)
        exit(1);
    for (int i = 0; i < ROUND; i++) {
        events[2 * i] = (acre_trace_event){.kind = ACRE_TRACE_ALLOC, .bytes = 4096};
        events[2 * i + 1] = (acre_trace_event){.kind = ACRE_TRACE_FREE};
    }
    bench_require(acre_planner_learn(planner, events, 2 * ROUND, NULL, 0), "plan");
    free(events);
}

int main(int argc, char **argv)
{
    const struct bench_option options[] = {
        {.name = "count", .help = "pairs, in rounds of 1024 (1000000)", .number = &count},
        {.name = "json", .help = "one JSON object", .flag = &as_json},
        {0}};
    acre_planner_stats stats = {.struct_size = sizeof stats};
    acre_planner *planner;

    bench_options(argc, argv, "Times allocate and free pairs after a plan.", options);
    acre_cache *cache = bench_cache(NULL);
    bench_require(acre_planner_create(cache, NULL, &planner), "planner");
    learn_round(planner);
    uint64_t rounds = (count + ROUND - 1) / ROUND;
    double begin = measure_seconds();
    for (uint64_t round = 0; round < rounds; round++)
        run_round(planner);
    double seconds = measure_seconds() - begin, pairs = (double)rounds * ROUND;
    bench_require(acre_planner_stats_get(planner, &stats), "statistics");
    if (!stats.is_following || stats.departures)
        bench_require(ACRE_ERR_STATE, "following the plan");
    printf(as_json ? "{\"pairs\": %.0f, \"seconds\": %.6f, \"ns_per_pair\": %.3f}\n"
                   : "%.0f planned pairs in %.6f seconds: %.2f ns per pair\n",
           pairs, seconds, seconds / pairs * 1e9);
    acre_planner_destroy(planner);
    acre_cache_destroy(cache);
    return 0;
}
