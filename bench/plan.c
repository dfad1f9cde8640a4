/* SPDX-License-Identifier: MIT */
/* Places random buffers of five kinds: how far above the lower bound, and how long. */
#include "bench/bench.h"

#include <acre/plan.h>

#include <stdlib.h>
#include <time.h>

#define KINDS 5

static uint64_t count = 100000, draws = 3, seconds;
static bool as_json;

static const char *const kinds[KINDS] = {
    "short and some long lives, few large", "lives up to a tenth, even sizes",
    "lives and sizes over magnitudes", "any two moments, even sizes",
    "a thousand moments, even sizes"};

/* A number whose magnitude is drawn: 2^(least + k) and up to twice that, k < magnitudes. */
static uint64_t draw_magnitude(uint64_t *state, unsigned least, unsigned magnitudes)
{
    uint64_t base = UINT64_C(1) << (least + measure_random(state) % magnitudes);

    return base + measure_random(state) % base;
}

static acre_plan_buffer draw_buffer(uint64_t *state, unsigned kind, uint64_t i)
{
    uint64_t start = 0, life = 1, size = 1;

    if (kind == 0) {
        start = measure_random(state) % (4 * count);
        life = 1 + measure_random(state) % (i % 10 ? 60 : count);
        size = 512 * (1 + measure_random(state) % (i % 7 ? 16 : 512));
    } else if (kind == 1) {
        start = measure_random(state) % count;
        life = 1 + measure_random(state) % (count / 10 + 1);
        size = 1 + measure_random(state) % 1000000;
    } else if (kind == 2) {
        start = measure_random(state) % (2 * count);
        life = draw_magnitude(state, 0, 16);
        size = (draw_magnitude(state, 9, 16) + 511) / 512 * 512;
    } else if (kind == 3) {
        uint64_t one = measure_random(state) % count, other = measure_random(state) % count;
        start = one < other ? one : other;
        life = 1 + (one < other ? other - one : one - other);
        size = 1 + measure_random(state) % 1000;
    } else {
        start = measure_random(state) % 1000;
        life = 1 + measure_random(state) % 100;
        size = 1 + measure_random(state) % 1000000;
    }
    return (acre_plan_buffer){.start = start, .end = start + life, .size = size};
}

static void run(unsigned kind, uint64_t seed, acre_plan_buffer *buffers, uint64_t *offsets)
{
    acre_plan_config config = {.struct_size = sizeof config, .seconds = (double)seconds};
    acre_plan_result result = {.struct_size = sizeof result};
    uint64_t state = seed * 7919;

    for (uint64_t i = 0; i < count; i++)
        buffers[i] = draw_buffer(&state, kind, i);
    double begin = measure_seconds();
    clock_t worked = clock();
    bench_require(acre_plan_place(buffers, count, &config, offsets, &result), "placing");
    double took = measure_seconds() - begin;
    worked = clock() - worked;
    bench_require(acre_plan_verify(buffers, count, offsets, result.height), "checking");
    double above = 100 * ((double)result.height / (double)result.lower_bound - 1);
    printf(as_json ? "{\"kind\": \"%s\", \"seed\": %llu, \"above_percent\": %.4f, "
                     "\"seconds\": %.3f, \"processor_seconds\": %.3f}\n"
                   : "%-38s %4llu %9.3f %% %8.2f s %8.2f s\n",
           kinds[kind], (unsigned long long)seed, above, took,
           (double)worked / CLOCKS_PER_SEC);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const struct bench_option options[] = {
        {.name = "count", .help = "buffers (100000)", .number = &count},
        {.name = "draws", .help = "instances of each kind (3)", .number = &draws},
        {.name = "time", .help = "seconds for each (0: as much as it takes)", .number = &seconds},
        {.name = "json", .help = "a JSON object for each", .flag = &as_json},
        {0}};

    bench_options(argc, argv, "Places random buffers of five kinds.", options);
    acre_plan_buffer *buffers = calloc(count + 1, sizeof *buffers);
    uint64_t *offsets = calloc(count + 1, sizeof *offsets);
    if (!buffers || !offsets || count == 0)
        bench_require(ACRE_ERR_INVALID, "a count");
    if (!as_json)
        printf("%-38s %4s %11s %10s %10s\n", "kind", "seed", "above bound", "time", "processor");
    for (unsigned kind = 0; kind < KINDS; kind++)
        for (uint64_t seed = 1; seed <= draws; seed++)
            run(kind, seed, buffers, offsets);
    free(buffers);
    free(offsets);
    return 0;
}
