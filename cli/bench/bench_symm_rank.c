/* SPDX-License-Identifier: MIT */
/* What a rank of "acre bench symm" does: every operation, timed by rank 0. Memory is touched
 * before; a sample is many rounds, the same number on all ranks; medians are printed. */
#include "cli/bench/bench_symm.h"
#include "cli/commands.h"

#include <acre/acre.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SAMPLES = 15, LARGEST = 64 << 20 };

static acre_symm *symm;
static acre_group *group;
static char *base, *out;
static int rank, count;

typedef acre_status operation_fn(size_t bytes);

static double now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int bench_symm_rank_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* ---- Operations --------------------------------------------------------------------- */

static acre_status do_barrier(size_t bytes)
{
    (void)bytes;
    return acre_symm_barrier(symm, 0, 0);
}

static acre_status do_all_reduce(size_t bytes)
{
    return acre_symm_all_reduce(symm, 0, bytes / 4, ACRE_DTYPE_F32, NULL, NULL);
}

static acre_status do_all_reduce_out(size_t bytes)
{
    return acre_symm_all_reduce(symm, 0, bytes / 4, ACRE_DTYPE_F32, out, NULL);
}

static acre_status do_forced(size_t bytes, acre_algorithm algorithm, void *to)
{
    acre_collective_options options = {.struct_size = sizeof options, .algorithm = algorithm};

    return acre_symm_all_reduce(symm, 0, bytes / 4, ACRE_DTYPE_F32, to, &options);
}

static acre_status do_one_shot(size_t bytes)
{
    return do_forced(bytes, ACRE_ALGORITHM_ONE_SHOT, out);
}

static acre_status do_two_shot(size_t bytes)
{
    return do_forced(bytes, ACRE_ALGORITHM_TWO_SHOT, NULL);
}

static acre_status do_multicast(size_t bytes)
{
    return do_forced(bytes, ACRE_ALGORITHM_MULTICAST, NULL);
}

static acre_status do_reduce_scatter(size_t bytes)
{
    return acre_symm_reduce_scatter(symm, 0, NULL, 1, bytes / 4, ACRE_DTYPE_F32, out, NULL);
}

static acre_status do_all_gather(size_t bytes)
{
    return acre_symm_all_gather(symm, 0, out, bytes / (size_t)count, NULL);
}

static acre_status do_all_to_all(size_t bytes)
{
    return acre_symm_all_to_all(symm, 0, bytes / (size_t)count, out, NULL);
}

static acre_status do_broadcast(size_t bytes)
{
    return acre_symm_broadcast(symm, 0, bytes, 0, NULL);
}

static acre_status do_put(size_t bytes)
{
    return acre_symm_put(symm, (rank + 1) % count, 0, out, bytes, NULL);
}

static acre_status do_get(size_t bytes)
{
    return acre_symm_get(symm, (rank + 1) % count, 0, out, bytes, NULL);
}

static acre_status do_memcpy(size_t bytes)
{
    memcpy(out, base + LARGEST, bytes);
    return ACRE_OK;
}

/* There and back: 8 bytes with a signal. Ranks above 1 only wait for the end. */
static acre_status do_put_signal(size_t bytes)
{
    static uint64_t round;
    acre_status status = ACRE_OK;

    round++;
    if (rank > 1 || count < 2)
        return ACRE_OK;
    if (rank == 0)
        status = acre_symm_put_with_signal(symm, 1, 0, out, bytes, 8, round, NULL);
    if (status == ACRE_OK)
        status = acre_symm_wait_for_signal(symm, 1 - rank, 8, round, ACRE_WAIT_GEQ, NULL);
    if (status == ACRE_OK && rank == 1)
        status = acre_symm_put_with_signal(symm, 0, 0, out, bytes, 8, round, NULL);
    return status;
}

/* A barrier made of nothing but two flags and 8 bytes, to compare with. */
static acre_status do_flag(size_t bytes)
{
    static uint64_t round;
    void *other;
    acre_status status = acre_symm_buffer(symm, (rank + 1) % count, 4096, 128, &other);
    _Atomic uint64_t *theirs = other, *mine = (_Atomic uint64_t *)(void *)(base + 4096);

    round++;
    if (rank > 1 || count < 2 || status != ACRE_OK)
        return status;
    if (rank == 0) {
        memcpy((char *)other + 64, out, bytes);
        atomic_store_explicit(theirs, round, memory_order_release);
    }
    while (atomic_load_explicit(mine, memory_order_acquire) < round)
        ;
    if (rank == 1) {
        memcpy((char *)other + 64, out, bytes);
        atomic_store_explicit(theirs, round, memory_order_release);
    }
    return ACRE_OK;
}

/* A hundred blocks are allocated and met. */
static acre_status do_rendezvous(size_t bytes)
{
    acre_symm *symms[100];
    void *blocks[100];
    acre_status status = ACRE_OK;

    for (int i = 0; i < 100 && status == ACRE_OK; i++) {
        status = acre_symm_alloc(NULL, bytes, &blocks[i]);
        if (status == ACRE_OK)
            status = acre_symm_rendezvous(blocks[i], "bench", &symms[i]);
    }
    for (int i = 0; i < 100 && status == ACRE_OK; i++) {
        acre_symm_release(symms[i]);
        acre_symm_free(blocks[i]);
    }
    return status;
}

struct operation {
    const char *name;
    operation_fn *run;
    size_t sizes[6]; /* ends with 0, except for the first */
};

#define ALL_SIZES                                                                                  \
    {                                                                                              \
        1024, 65536, 1048576, 16777216, 67108864, 0                                                \
    }
#define TWO_SIZES                                                                                  \
    {                                                                                              \
        65536, 1048576, 0                                                                          \
    }
static const struct operation operations[] = {
    {"barrier", do_barrier, {0}},
    {"all_reduce", do_all_reduce, ALL_SIZES},
    {"all_reduce_out", do_all_reduce_out, ALL_SIZES},
    {"all_reduce_one_shot", do_one_shot, TWO_SIZES},
    {"all_reduce_two_shot", do_two_shot, TWO_SIZES},
    {"all_reduce_multicast", do_multicast, TWO_SIZES},
    {"reduce_scatter", do_reduce_scatter, TWO_SIZES},
    {"all_gather", do_all_gather, TWO_SIZES},
    {"all_to_all", do_all_to_all, TWO_SIZES},
    {"broadcast", do_broadcast, TWO_SIZES},
    {"put", do_put, TWO_SIZES},
    {"get", do_get, TWO_SIZES},
    {"put_signal", do_put_signal, {8, 0}},
    {"flag", do_flag, {8, 0}},
    {"rendezvous_100", do_rendezvous, {4096, 0}},
    {"memcpy", do_memcpy, ALL_SIZES},
};

/* ---- Timing -------------------------------------------------------------------------- */

static int rounds_for(const struct operation *operation, size_t bytes)
{
    if (operation->run == do_rendezvous)
        return 1;
    return bytes <= 4096 ? 1000 : bytes <= 65536 ? 100 : bytes <= 1048576 ? 10 : 1;
}

static acre_status bench_symm_rank_measure(const struct operation *operation, size_t bytes)
{
    double samples[SAMPLES];
    int rounds = rounds_for(operation, bytes);
    int used = bytes > 1048576 || operation->run == do_rendezvous ? 5 : SAMPLES;
    acre_status status = operation->run(bytes);

    for (int s = 0; s < used && status == ACRE_OK; s++) {
        status = acre_symm_barrier(symm, 1, 0);
        double begin = now_ns();
        for (int i = 0; i < rounds && status == ACRE_OK; i++)
            status = operation->run(bytes);
        samples[s] = (now_ns() - begin) / rounds;
    }
    qsort(samples, (size_t)used, sizeof *samples, bench_symm_rank_compare);
    if (rank == 0 && status == ACRE_OK) {
        printf("%s %zu %.1f\n", operation->name, bytes, samples[used / 2]);
        fflush(stdout);
    }
    return status == ACRE_OK ? acre_symm_barrier(symm, 1, 0) : status;
}

int bench_symm_rank(void)
{
    acre_status status = acre_group_create_env("bench", &group);

    if (status == ACRE_OK)
        status = acre_symm_alloc(NULL, 2 * (size_t)LARGEST, (void **)&base);
    if (status == ACRE_OK)
        status = acre_symm_rendezvous(base, "bench", &symm);
    out = malloc(LARGEST);
    if (status == ACRE_OK && out) {
        rank = acre_group_rank(group);
        count = acre_group_world_size(group);
        memset(base, 0, 2 * (size_t)LARGEST);
        memset(out, 0, LARGEST);
        for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
            for (const size_t *bytes = operations[i].sizes;
                 status == ACRE_OK && (*bytes || bytes == operations[i].sizes); bytes++)
                status = bench_symm_rank_measure(&operations[i], *bytes);
    }
    if (status != ACRE_OK)
        fprintf(stderr, "acre bench symm: %s\n", acre_last_error());
    free(out);
    acre_symm_release(symm);
    acre_symm_free(base);
    acre_group_destroy(group);
    return status == ACRE_OK ? CLI_DONE : CLI_BAD;
}
