/* SPDX-License-Identifier: MIT */
/* Times allocate + free through a cache on an OpenCL device against clSVMAlloc +
 * clSVMFree of the same context, with none, 100 and 1000 other blocks alive, of the
 * same size up to 1 MiB. Both take turns in one run; each figure is the median of
 * the rounds. */
#include "bench/bench.h"

#include <acre/acre.h>

#include <dlfcn.h>
#include <stdlib.h>

#define LIVE_MAX 1000
#define ROUNDS_MAX 99
#define READ_WRITE 1 /* CL_MEM_READ_WRITE */

static uint64_t pairs = 2000, rounds = 9;
static bool as_json;

static void *(*svm_alloc)(void *context, uint64_t flags, size_t bytes, unsigned alignment);
static void (*svm_free)(void *context, void *memory);

static acre_device *device;
static acre_cache *cache;
static void *stream, *context;

/* 77 with the reason where there is no OpenCL. */
static void open_all(void)
{
    void *library = dlopen("libOpenCL.so.1", RTLD_NOW);
    acre_opencl_native native;
    acre_backend *backend;

    if (acre_backend_find("opencl", &backend) != ACRE_OK || !library) {
        fprintf(stderr, "opencl: %s\n", library ? acre_last_error() : dlerror());
        exit(77);
    }
    *(void **)&svm_alloc = dlsym(library, "clSVMAlloc");
    *(void **)&svm_free = dlsym(library, "clSVMFree");
    bench_require(acre_backend_device(backend, 0, &device), "device");
    bench_require(acre_opencl_native_get(device, &native), "context");
    context = native.context;
    bench_require(acre_stream_native_create(device, 0, 0, &stream), "stream");
    bench_require(acre_cache_create(device, NULL, &cache), "cache");
}

static void *plain_alloc(size_t bytes)
{
    void *memory = svm_alloc(context, READ_WRITE, bytes, 0);

    bench_require(memory ? ACRE_OK : ACRE_ERR_DEVICE_MEMORY, "clSVMAlloc");
    return memory;
}

/* Nanoseconds of a pair. */
static double time_ours(size_t bytes)
{
    double begin = measure_seconds();

    measure_pairs(cache, stream, bytes, pairs);
    return (measure_seconds() - begin) * 1e9 / (double)pairs;
}

static double time_plain(size_t bytes)
{
    double begin = measure_seconds();

    for (uint64_t i = 0; i < pairs; i++)
        svm_free(context, plain_alloc(bytes));
    return (measure_seconds() - begin) * 1e9 / (double)pairs;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values)
{
    qsort(values, rounds, sizeof *values, compare);
    return values[rounds / 2];
}

static void show(size_t bytes, int live, double *ours_ns, double *plain_ns, bool is_first)
{
    double ours = median(ours_ns), plain = median(plain_ns);

    if (as_json)
        printf("%s\n  {\"bytes\": %zu, \"live\": %d, \"cache_ns\": %.1f, \"svm_ns\": %.1f, "
               "\"ratio\": %.1f}", is_first ? "" : ",", bytes, live, ours, plain, plain / ours);
    else
        printf("%10zu %6d %12.1f %12.1f %9.1fx\n", bytes, live, ours, plain, plain / ours);
}

/* Both with so many blocks alive on either side. */
static void compare_with(size_t bytes, int live, bool is_first)
{
    static void *plain[LIVE_MAX], *cached[LIVE_MAX];
    double ours_ns[ROUNDS_MAX], plain_ns[ROUNDS_MAX];
    size_t live_bytes = bytes < 1 << 20 ? bytes : 1 << 20;

    for (int i = 0; i < live; i++) {
        plain[i] = plain_alloc(live_bytes);
        bench_require(acre_cache_alloc(cache, live_bytes, stream, &cached[i]), "block");
    }
    time_ours(bytes); /* the cache gets its memory */
    for (uint64_t round = 0; round < rounds; round++) {
        ours_ns[round] = time_ours(bytes);
        plain_ns[round] = time_plain(bytes);
    }
    show(bytes, live, ours_ns, plain_ns, is_first);
    for (int i = 0; i < live; i++) {
        svm_free(context, plain[i]);
        bench_require(acre_cache_free(cache, cached[i]), "block");
    }
}

int main(int argc, char **argv)
{
    static const struct bench_option options[] = {
        {.name = "pairs", .help = "pairs in a round, 2000", .number = &pairs},
        {.name = "rounds", .help = "rounds, at most 99; 9", .number = &rounds},
        {.name = "json", .help = "for programs", .flag = &as_json},
        {.name = NULL},
    };
    static const size_t sizes[] = {512, 65536, 2 << 20};
    static const int lives[] = {0, 100, 1000};

    bench_options(argc, argv, "Allocate + free: a cache against clSVMAlloc + clSVMFree.", options);
    rounds = rounds < 1 ? 1 : rounds > ROUNDS_MAX ? ROUNDS_MAX : rounds;
    open_all();
    if (as_json)
        printf("{\"pairs\": [");
    else
        printf("%10s %6s %12s %12s %10s\n", "bytes", "live", "cache ns", "svm ns", "ratio");
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t j = 0; j < sizeof lives / sizeof lives[0]; j++)
            compare_with(sizes[i], lives[j], i + j == 0);
    if (as_json)
        printf("\n]}\n");
    return 0;
}
