/* SPDX-License-Identifier: MIT */
#include "cli/bench/measure.h"

#include "cli/backend.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

double measure_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

uint64_t measure_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9E3779B97F4A7C15);

    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

/* A cache on a device of its own, a dry one of 80 GiB. */
static acre_status cache_dry(const acre_cache_config *config, acre_backend **out_backend,
                             acre_cache **out)
{
    acre_sim_config sim = {
        .struct_size = sizeof sim, .devices = 1, .dry = 1, .memory_bytes = (uint64_t)80 << 30};
    static unsigned number; /* devices so far, for their names */
    acre_backend *backend;
    acre_device *device;
    acre_status status;
    char name[32];

    snprintf(name, sizeof name, "bench%u", number++);
    sim.name = name;
    status = acre_sim_create(&sim, &backend);
    if (status != ACRE_OK)
        return status;
    status = acre_backend_device(backend, 0, &device);
    if (status == ACRE_OK)
        status = acre_cache_create(device, config, out);
    if (status != ACRE_OK) {
        acre_backend_unregister(backend);
        return status;
    }
    *out_backend = backend;
    return ACRE_OK;
}

acre_status measure_cache(acre_policy policy, acre_backend **out_backend, acre_cache **out)
{
    acre_cache_config config = {.struct_size = sizeof config, .policy = policy};
    acre_backend *loaded = backend_loaded();
    acre_device *device;
    acre_status status;

    if (!loaded)
        return cache_dry(&config, out_backend, out);
    status = acre_backend_device(loaded, 0, &device);
    if (status == ACRE_OK)
        status = acre_cache_create(device, &config, out);
    if (status == ACRE_OK)
        *out_backend = NULL; /* it stays */
    return status;
}

/* ---- Pairs ------------------------------------------------------------------ */

static void pairs_cache(acre_cache *cache, void *stream, size_t bytes, uint64_t pairs)
{
    for (uint64_t i = 0; i < pairs; i++) {
        void *pointer;
        if (acre_cache_alloc(cache, bytes, stream, &pointer) != ACRE_OK)
            abort();
        if (acre_cache_free(cache, pointer) != ACRE_OK)
            abort();
    }
}

/* The pointer goes through a volatile variable so that the compiler cannot leave
 * the calls out. */
static void pairs_malloc(size_t bytes, uint64_t pairs)
{
    for (uint64_t i = 0; i < pairs; i++) {
        void *volatile pointer = malloc(bytes);
        if (!pointer)
            abort();
        free(pointer);
    }
}

void measure_pairs(acre_cache *cache, void *stream, size_t bytes, uint64_t pairs)
{
    if (cache)
        pairs_cache(cache, stream, bytes, pairs);
    else
        pairs_malloc(bytes, pairs);
}

double measure_pair_ns(acre_cache *cache, size_t bytes, uint64_t pairs, double limit)
{
    enum { CHUNK = 1 << 9 };
    double begin = measure_seconds(), seconds = 0;
    uint64_t done = 0;

    do {
        uint64_t count = pairs - done < CHUNK ? pairs - done : CHUNK;
        measure_pairs(cache, NULL, bytes, count);
        done += count;
        seconds = measure_seconds() - begin;
    } while (done < pairs && seconds < limit);
    return seconds / (double)done * 1e9;
}

bool measure_live(acre_cache *cache, void *stream, size_t bytes, uint64_t count)
{
    void *volatile pointer;
    void *given;

    bytes = bytes <= 1 << 20 ? bytes : 1 << 20;
    for (uint64_t i = 0; i < count; i++) {
        if (cache) {
            if (acre_cache_alloc(cache, bytes, stream, &given) != ACRE_OK)
                return false;
        } else if (!(pointer = malloc(bytes))) {
            return false;
        }
    }
    return true;
}

/* ---- The mix ---------------------------------------------------------------- */

/* What to do is drawn ahead, so that the clock sees allocators only. */
enum { STEPS = 1 << 16, MIX_CHUNK = 1 << 10 }; /* the clock is looked at once per chunk */
static struct step {
    uint32_t at; /* which block */
    uint32_t bytes;
} steps[STEPS];

static void draw_steps(uint64_t live, uint64_t largest, uint64_t seed)
{
    double span = log((double)largest / 512);

    for (int i = 0; i < STEPS; i++) {
        double u = (double)(measure_random(&seed) >> 11) / (double)(UINT64_C(1) << 53);
        steps[i].bytes = (uint32_t)(512 * exp(u * span));
        steps[i].at = (uint32_t)((measure_random(&seed) >> 32) * live >> 32);
    }
}

static bool measure_take(acre_cache *cache, size_t bytes, void **block)
{
    if (cache)
        return acre_cache_alloc(cache, bytes, NULL, block) == ACRE_OK;
    return (*block = malloc(bytes)) != NULL;
}

static bool mix_cache(acre_cache *cache, void **blocks, const struct step *step, uint64_t count)
{
    for (const struct step *end = step + count; step < end; step++) {
        void **block = &blocks[step->at];
        if (acre_cache_free(cache, *block) != ACRE_OK ||
            acre_cache_alloc(cache, step->bytes, NULL, block) != ACRE_OK)
            return false;
    }
    return true;
}

static bool mix_malloc(void **blocks, const struct step *step, uint64_t count)
{
    for (const struct step *end = step + count; step < end; step++) {
        void **block = &blocks[step->at];
        free(*block);
        *block = malloc(step->bytes);
        if (!*block)
            return false;
    }
    return true;
}

/* Does the steps again and again, ops of them or until the deadline. Returns how many were done;
 * 0 when one failed. */
static uint64_t measure_do_mix(acre_cache *cache, void **blocks, uint64_t ops, double deadline)
{
    uint64_t done = 0;

    while (done < ops && (done == 0 || measure_seconds() < deadline)) {
        const struct step *first = &steps[done % STEPS];
        uint64_t count = ops - done < MIX_CHUNK ? ops - done : MIX_CHUNK;
        if (!(cache ? mix_cache(cache, blocks, first, count) : mix_malloc(blocks, first, count)))
            return 0;
        done += count;
    }
    return done;
}

double measure_mix(acre_cache *cache, uint64_t ops, uint64_t live, uint64_t largest, uint64_t seed,
                   double limit)
{
    void **blocks = calloc(live, sizeof *blocks);
    bool is_done = blocks != NULL;

    draw_steps(live, largest, seed);
    for (uint64_t i = 0; is_done && i < live; i++)
        is_done = measure_take(cache, steps[i % STEPS].bytes, &blocks[i]);
    /* Once through all steps first: what an allocator touches for the first time
     * costs page faults. */
    is_done = is_done && measure_do_mix(cache, blocks, STEPS, measure_seconds() + 2 * limit) > 0;
    double begin = measure_seconds();
    uint64_t done = is_done ? measure_do_mix(cache, blocks, ops, begin + limit) : 0;
    double seconds = measure_seconds() - begin;
    if (done && cache)
        for (uint64_t i = 0; i < live; i++)
            acre_cache_free(cache, blocks[i]);
    free(blocks);
    return done ? seconds / (double)done * 1e9 : -1;
}

/* ---- Peers ------------------------------------------------------------------ */

const struct measure_peer measure_peers[MEASURE_PEERS] = {
    {"glibc", NULL},
    {"mimalloc", "libmimalloc.so.2"},
    {"jemalloc", "libjemalloc.so.2"},
};

/* The child: this program with the peer in place of malloc. */
static void run_child(const struct measure_peer *peer, int argc, char **argv)
{
    char **arguments = calloc((size_t)argc + 2, sizeof *arguments);

    if (!arguments)
        _exit(1);
    memcpy(arguments, argv, (size_t)argc * sizeof *argv);
    arguments[argc] = "--peer";
    if (peer->library)
        setenv("LD_PRELOAD", peer->library, 1);
    else
        unsetenv("LD_PRELOAD");
    execv("/proc/self/exe", arguments);
    _exit(1);
}

/* Whether the loader finds a library; looked at in a child, since some cannot be
 * loaded late. */
static bool is_installed(const char *library)
{
    char path[512];
    static const char *const folders[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib",
                                          "/usr/local/lib", "/usr/lib/aarch64-linux-gnu"};

    for (size_t i = 0; library && i < sizeof folders / sizeof *folders; i++) {
        snprintf(path, sizeof path, "%s/%s", folders[i], library);
        if (access(path, R_OK) == 0)
            return true;
    }
    return !library;
}

double measure_peer_run(const struct measure_peer *peer, int argc, char **argv)
{
    int ends[2], status;
    double number = -1;

    if (!is_installed(peer->library) || pipe(ends) != 0)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        run_child(peer, argc, argv);
    }
    close(ends[1]);
    FILE *file = fdopen(ends[0], "r");
    if (file) {
        if (fscanf(file, "%lf", &number) != 1)
            number = -1;
        fclose(file);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
        return -1;
    return number;
}
