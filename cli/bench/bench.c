/* SPDX-License-Identifier: MIT */
/* acre bench: what a cached allocation costs on this machine, beside the host
 * allocators that are installed.
 *
 * Every pattern is timed several times in turn with the others, so that a busy
 * moment of the machine hurts all alike; medians are shown.
 */
#include "cli/backend.h"
#include "cli/bench/bench_symm.h"
#include "cli/commands.h"
#include "cli/bench/measure.h"
#include "cli/text/options.h"
#include "cli/text/plot.h"
#include "cli/text/progress.h"
#include "cli/text/table.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is timed: pairs of one size, or the mix when bytes is 0. */
struct pattern {
    const char *name;
    const char *title;
    uint64_t bytes;
    uint64_t live;
};

static const struct pattern patterns[] = {
    {"pair_512", "pair of 512 B", 512, 0},
    {"pair_4k", "pair of 4 KiB", 4 << 10, 0},
    {"pair_1m", "pair of 1 MiB", 1 << 20, 0},
    {"pair_20m", "pair of 20 MiB", 20 << 20, 0},
    {"pair_512_live", "pair of 512 B, 1,000 live", 512, 1000},
    {"mix", "replacing one of 1,000", 0, 1000},
};

enum {
    PATTERNS = sizeof patterns / sizeof *patterns,
    OWN = 2, /* policies of this library */
    COLUMNS = OWN + MEASURE_PEERS,
    ROUNDS_MAX = 99,
    MIX_SHARE = 8,       /* pairs that cost as much as a replacement */
    COUNT_MAX = 1000000, /* pairs of a measurement, unless --count says otherwise */
};

#define SECONDS_MAX 0.1 /* of a measurement without --count; a mix takes longer to settle */

static const char *column_name(int column)
{
    return column == 0 ? "acre" : column == 1 ? "torch" : measure_peers[column - OWN].name;
}

/* Nanoseconds per pair or replacement; NULL cache: malloc and free. With count 0, as many pairs as
 * the time allows: some allocators give large memory back to the system each time. */
static double time_pattern(const struct pattern *pattern, acre_cache *cache, uint64_t count)
{
    double limit = count ? INFINITY : SECONDS_MAX;

    count = count ? count : COUNT_MAX;
    if (pattern->bytes == 0)
        return measure_mix(cache, count / MIX_SHARE + 1, pattern->live, 64 << 20, 1, 5 * limit);
    if (!measure_live(cache, NULL, pattern->bytes, pattern->live))
        return -1;
    measure_pairs(cache, NULL, pattern->bytes, 100);
    return measure_pair_ns(cache, pattern->bytes, count, limit);
}

/* Measures on a cache of its own; negative, with the reason printed, on failure. */
static double time_policy(const struct pattern *pattern, acre_policy policy, uint64_t count)
{
    acre_backend *backend;
    acre_cache *cache;
    void *pointer;

    if (measure_cache(policy, &backend, &cache) != ACRE_OK) {
        fprintf(stderr, "acre bench: %s\n", acre_last_error());
        return -1;
    }
    /* measure_pairs aborts on failure, so one pair is tried here. */
    double ns = -1;
    if (acre_cache_alloc(cache, pattern->bytes ? pattern->bytes : 512, NULL, &pointer) == ACRE_OK &&
        acre_cache_free(cache, pointer) == ACRE_OK)
        ns = time_pattern(pattern, cache, count);
    acre_cache_destroy(cache);
    acre_backend_unregister(backend);
    return ns;
}

static double time_peer(const struct measure_peer *peer, int pattern, uint64_t count)
{
    char number[16], pairs[32];
    char *arguments[] = {"acre", "bench", "--pattern", number, "--count", pairs, NULL};

    snprintf(number, sizeof number, "%d", pattern);
    snprintf(pairs, sizeof pairs, "%llu", (unsigned long long)count);
    return measure_peer_run(peer, count ? 6 : 4, arguments);
}

static double time_column(int pattern, int column, uint64_t count)
{
    if (column < OWN)
        return time_policy(&patterns[pattern], column ? ACRE_POLICY_TORCH : ACRE_POLICY_ACRE,
                           count);
    return time_peer(&measure_peers[column - OWN], pattern, count);
}

static int bench_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Fills in medians; what cannot be timed stays negative. */
static void bench_run(double medians[PATTERNS][COLUMNS], uint64_t count, int rounds)
{
    double all[COLUMNS][ROUNDS_MAX];
    struct progress progress;

    progress_begin(&progress);
    for (int pattern = 0; pattern < PATTERNS; pattern++) {
        for (int round = 0; round < rounds; round++) {
            for (int column = 0; column < COLUMNS; column++) {
                int done = (pattern * rounds + round) * COLUMNS + column + 1;
                all[column][round] = time_column(pattern, column, count);
                progress_tell(&progress, (double)done / (PATTERNS * rounds * COLUMNS));
            }
        }
        for (int column = 0; column < COLUMNS; column++) {
            qsort(all[column], (size_t)rounds, sizeof(double), bench_compare);
            medians[pattern][column] = all[column][0] < 0 ? -1 : all[column][rounds / 2];
        }
    }
    progress_end(&progress);
}

static void print_text(double medians[PATTERNS][COLUMNS])
{
    const char *columns[COLUMNS + 2] = {"<nanoseconds per"};
    struct text_table table;

    for (int column = 0; column < COLUMNS; column++)
        columns[column + 1] = column_name(column);
    table_begin(&table, columns);
    for (int pattern = 0; pattern < PATTERNS; pattern++) {
        table_cell(&table, "%s", patterns[pattern].title);
        for (int column = 0; column < COLUMNS; column++) {
            double ns = medians[pattern][column];
            if (ns < 0)
                table_cell(&table, "-");
            else
                table_cell(&table, "%.1f", ns);
        }
    }
    table_end(&table, stdout);
    acre_backend *loaded = backend_loaded();

    printf("\nA pair is an allocation and its free. acre and torch: policies of the caching\n"
           "allocator, statistics on, on %s%s. The others\n"
           "are malloc and free of host allocators on the same pattern; - is not installed%s.\n",
           loaded ? "a device of " : "a device that hands out addresses only",
           loaded ? acre_backend_name(loaded) : "", loaded ? ",\nor more than the device has" : "");
}

static void print_json(double medians[PATTERNS][COLUMNS])
{
    fputs("{\"results\": [", stdout);
    for (int pattern = 0; pattern < PATTERNS; pattern++) {
        printf("%s\n  {\"pattern\": \"%s\", \"bytes\": %llu, \"live\": %llu", pattern ? "," : "",
               patterns[pattern].name, (unsigned long long)patterns[pattern].bytes,
               (unsigned long long)patterns[pattern].live);
        for (int column = 0; column < COLUMNS; column++) {
            double ns = medians[pattern][column];
            if (ns < 0)
                printf(", \"%s_ns\": null", column_name(column));
            else
                printf(", \"%s_ns\": %.3f", column_name(column), ns);
        }
        putchar('}');
    }
    fputs("\n]}\n", stdout);
}

static int write_svg(const char *path, double medians[PATTERNS][COLUMNS])
{
    const char *groups[PATTERNS], *names[COLUMNS];

    for (int pattern = 0; pattern < PATTERNS; pattern++)
        groups[pattern] = patterns[pattern].title;
    for (int column = 0; column < COLUMNS; column++)
        names[column] = column_name(column);
    struct plot plot = {
        "nanoseconds, logarithmic", groups, PATTERNS, names, COLUMNS, &medians[0][0]};
    if (plot_bars(path, &plot))
        return CLI_DONE;
    fprintf(stderr, "acre bench: %s\n", acre_last_error());
    return CLI_BAD;
}

static void bench_help(void)
{
    fputs(
        "usage: acre bench [OPTION...]\n\n"
        "Times cached allocations on this machine, beside malloc and free of the host\n"
        "allocators that are installed (glibc, mimalloc, jemalloc), in one run.\n\n"
        "  --count N    pairs per measurement, however long they take; by default 1000000, or as\n"
        "               many as fit into a tenth of a second (half a second for the last row)\n"
        "  --rounds N   measurements of which the median is shown (5)\n"
        "  --json       {\"results\": [{\"pattern\", \"bytes\", \"live\", \"acre_ns\", ...}]}\n"
        "  --svg FILE   also draws the figures\n\n"
        "\"acre bench symm\" times symmetric memory; see \"acre bench symm --help\".\n\n"
        "Example: a quick look\n"
        "  acre bench --count 100000 --rounds 3\n",
        stdout);
}

int cmd_bench(int argc, char **argv)
{
    struct options options = {argc, argv, "bench", 0, false, false};
    uint64_t count = 0, rounds = 5, pattern = PATTERNS;
    double medians[PATTERNS][COLUMNS];
    const char *svg = NULL;
    bool as_json = false, as_peer = false;

    if (argc > 1 && strcmp(argv[1], "symm") == 0 && backend_loaded()) {
        fprintf(stderr, "acre bench symm: --backend is not for it: it runs on reference devices\n");
        return CLI_BAD;
    }
    if (argc > 1 && strcmp(argv[1], "symm") == 0)
        return bench_symm(argc - 1, argv + 1);
    while (options_next(&options)) {
        if (options_is(&options, "--help") || options_is(&options, "-h")) {
            bench_help();
            return CLI_DONE;
        }
        if (options_is(&options, "--json"))
            as_json = true;
        else if (options_is(&options, "--peer")) /* this program as a peer's child */
            as_peer = true;
        else if (!options_number(&options, "--count", 1, 1000000000, &count) &&
                 !options_number(&options, "--rounds", 1, ROUNDS_MAX, &rounds) &&
                 !options_number(&options, "--pattern", 0, PATTERNS - 1, &pattern) &&
                 !options_value(&options, "--svg", &svg))
            options_refuse(&options);
    }
    if (options.is_bad)
        return CLI_BAD;
    if (as_peer && pattern < PATTERNS) {
        printf("%.3f\n", time_pattern(&patterns[pattern], NULL, count));
        return CLI_DONE;
    }
    bench_run(medians, count, (int)rounds);
    if (as_json)
        print_json(medians);
    else
        print_text(medians);
    return svg ? write_svg(svg, medians) : CLI_DONE;
}
