/* SPDX-License-Identifier: MIT */
/* Figures of the reference device beside the plain calls it stands on.
 *
 *     build/bench/sim            a table
 *     build/bench/sim --json     the same for programs
 *
 * Ours and the plain calls alternate in one run; each figure is the median of its
 * rounds. Memory is touched before it is timed, unless the figure says otherwise.
 */
#include <acre/acre.h>
#include <acre/sim.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define MAP_BYTES ((size_t)1 << 30)
#define ROUNDS_MAX 4096

/* ---- Measuring ------------------------------------------------------------------ */

static bool is_json;
static int figure_count;
static double ours_ns[ROUNDS_MAX], plain_ns[ROUNDS_MAX];

static double now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void require(acre_status status, const char *what)
{
    if (status == ACRE_OK)
        return;
    fprintf(stderr, "sim: %s: %s\n", what, acre_last_error());
    exit(1);
}

static void require_call(bool is_good, const char *what)
{
    if (is_good)
        return;
    perror(what);
    exit(1);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, compare);
    return values[count / 2];
}

/* Prints a figure; plain and aim 0: there is none. */
static void report(const char *name, const char *unit, double ours, double plain, double aim)
{
    double ratio = plain > 0 ? ours / plain : 0;

    if (is_json) {
        printf("%s\n  {\"name\": \"%s\", \"unit\": \"%s\", \"value\": %.6g",
               figure_count ? "," : "", name, unit, ours);
        if (plain > 0)
            printf(", \"plain\": %.6g, \"ratio\": %.4g", plain, ratio);
        if (aim > 0)
            printf(", \"aim\": %.4g", aim);
        printf("}");
    } else if (plain > 0) {
        printf("%-44s %12.1f %12.1f %-5s %7.2fx", name, ours, plain, unit, ratio);
        printf(aim > 0 ? "  (aim: within %.1fx)\n" : "\n", aim);
    } else {
        printf("%-44s %12.1f %12s %s\n", name, ours, "", unit);
    }
    figure_count++;
    fflush(stdout);
}

/* ---- Mapping ----------------------------------------------------------------------- */

/* One gibibyte with its addresses, ours and plain. */
struct mapping {
    acre_device *device;
    void *base, *handle; /* ours               */
    char *plain;         /* reserved addresses */
    char *views;         /* where they lie     */
    int fd;              /* memfd              */
};

#define RESERVED (MAP_PRIVATE | MAP_ANONYMOUS)

/* Addresses for the plain calls, which lie as ours do: behind a public view that
 * the kernel keeps apart, on a boundary of 1 GiB. What a mapping call costs
 * depends on its neighbours. */
static void plain_reserve(struct mapping *mapping)
{
    const size_t page = MAP_BYTES;
    char *base = mmap(NULL, 2 * MAP_BYTES + page, PROT_NONE, RESERVED | MAP_NORESERVE, -1, 0);

    require_call(base != MAP_FAILED, "mmap");
    char *aligned = (char *)(((uintptr_t)base + page - 1) & ~(page - 1));
    if (aligned > base)
        munmap(base, (size_t)(aligned - base));
    munmap(aligned + 2 * MAP_BYTES, (size_t)(base + page - aligned));
    mapping->views = aligned;
    mapping->plain = aligned + MAP_BYTES;
    require_call(mmap(mapping->plain, MAP_BYTES, PROT_NONE, RESERVED | MAP_FIXED, -1, 0) !=
                 MAP_FAILED, "mmap");
}

static void mapping_open(struct mapping *mapping, acre_device *device)
{
    mapping->device = device;
    require(acre_virtual_reserve(device, MAP_BYTES, &mapping->base), "reserve");
    require(acre_virtual_create(device, MAP_BYTES, ACRE_HANDLE_NONE, &mapping->handle), "create");
    plain_reserve(mapping);
    mapping->fd = memfd_create("bench", MFD_CLOEXEC);
    require_call(mapping->fd >= 0, "memfd_create");
    require_call(ftruncate(mapping->fd, (off_t)MAP_BYTES) == 0, "ftruncate");
}

static void mapping_close(struct mapping *mapping)
{
    require(acre_virtual_release(mapping->device, mapping->handle), "release");
    require(acre_virtual_unreserve(mapping->device, mapping->base, MAP_BYTES), "unreserve");
    munmap(mapping->views, 2 * MAP_BYTES);
    close(mapping->fd);
}

static void touch_ours(struct mapping *mapping, void *stream)
{
    require(acre_virtual_set_access(mapping->device, mapping->base, MAP_BYTES, 0,
                                    ACRE_ACCESS_READ_WRITE), "set_access");
    require(acre_fill_async(mapping->device, mapping->base, 1, MAP_BYTES, stream), "fill");
    require(acre_stream_native_synchronize(mapping->device, stream), "synchronize");
}

/* Maps and unmaps once each way; only those calls are timed. */
static double map_ours(struct mapping *mapping, void *stream)
{
    double begin = now_ns(), spent;

    require(acre_virtual_map(mapping->device, mapping->base, MAP_BYTES, 0, mapping->handle),
            "map");
    spent = now_ns() - begin;
    if (stream)
        touch_ours(mapping, stream);
    begin = now_ns();
    require(acre_virtual_unmap(mapping->device, mapping->base, MAP_BYTES), "unmap");
    return spent + now_ns() - begin;
}

static double map_plain(struct mapping *mapping, bool is_touched)
{
    double begin = now_ns(), spent;

    require_call(mmap(mapping->plain, MAP_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                      mapping->fd, 0) != MAP_FAILED, "mmap");
    spent = now_ns() - begin;
    if (is_touched)
        memset(mapping->plain, 1, MAP_BYTES);
    begin = now_ns();
    require_call(mmap(mapping->plain, MAP_BYTES, PROT_NONE, RESERVED | MAP_FIXED, -1, 0) !=
                 MAP_FAILED, "mmap");
    return spent + now_ns() - begin;
}

static void bench_map(acre_device *device)
{
    struct mapping mapping;
    void *stream;
    int rounds = 1001;

    require(acre_stream_native_create(device, 0, 0, &stream), "stream");
    mapping_open(&mapping, device);
    for (int i = 0; i < rounds; i++) {
        ours_ns[i] = map_ours(&mapping, NULL);
        plain_ns[i] = map_plain(&mapping, false);
    }
    report("map + unmap of 1 GiB, untouched", "us", median(ours_ns, rounds) / 1e3,
           median(plain_ns, rounds) / 1e3, 1.5);
    rounds = 5;
    map_ours(&mapping, stream); /* commits the pages */
    map_plain(&mapping, true);
    for (int i = 0; i < rounds; i++) {
        ours_ns[i] = map_ours(&mapping, stream);
        plain_ns[i] = map_plain(&mapping, true);
    }
    report("map + unmap of 1 GiB, touched", "us", median(ours_ns, rounds) / 1e3,
           median(plain_ns, rounds) / 1e3, 1.5);
    mapping_close(&mapping);
    require(acre_stream_native_destroy(device, stream), "stream");
}

/* ---- Copies -------------------------------------------------------------------------- */

/* Pages as device memory has them, so that both copies touch the same kind. */
static char *pages(size_t bytes, int value)
{
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    require_call(memory != MAP_FAILED, "mmap");
    memset(memory, value, bytes);
    return memory;
}

static void bench_copy(acre_device *device, const char *name, size_t bytes, int rounds,
                       double aim)
{
    char *from = pages(bytes, 1), *to = pages(bytes, 2);
    void *memory;

    require(acre_device_alloc(device, bytes, &memory), "alloc");
    for (int i = -1; i < rounds; i++) { /* the first round only warms up */
        int at = i < 0 ? 0 : i;
        double begin = now_ns();

        require(acre_copy(device, memory, from, bytes, ACRE_COPY_HOST_TO_DEVICE), "copy");
        ours_ns[at] = now_ns() - begin;
        begin = now_ns();
        memcpy(to, from, bytes);
        plain_ns[at] = now_ns() - begin;
    }
    report(name, "us", median(ours_ns, rounds) / 1e3, median(plain_ns, rounds) / 1e3, aim);
    require(acre_device_free(device, memory), "free");
    munmap(from, bytes);
    munmap(to, bytes);
}

/* ---- Tasks ---------------------------------------------------------------------------- */

#define STREAMS 64

static void empty_task(void *arg)
{
    (void)arg;
}

static void bench_latency(acre_device *device)
{
    int rounds = 4001;
    void *stream;

    require(acre_stream_native_create(device, 0, 0, &stream), "stream");
    for (int i = 0; i < rounds; i++) {
        double begin = now_ns();

        require(acre_launch_host(device, stream, empty_task, NULL), "launch");
        require(acre_stream_native_synchronize(device, stream), "synchronize");
        ours_ns[i] = now_ns() - begin;
    }
    report("empty task, submit to complete", "us", median(ours_ns, rounds) / 1e3, 0, 0);
    require(acre_stream_native_destroy(device, stream), "stream");
}

/* Empty tasks given to so many streams in turn, by one thread. */
static void bench_rate(acre_device *device, const char *name, int stream_count)
{
    void *streams[STREAMS];
    int rounds = 7, tasks = 200000;

    for (int i = 0; i < stream_count; i++)
        require(acre_stream_native_create(device, 0, 0, &streams[i]), "stream");
    for (int round = 0; round < rounds; round++) {
        double begin = now_ns();

        for (int i = 0; i < tasks; i++)
            require(acre_launch_host(device, streams[i % stream_count], empty_task, NULL),
                    "launch");
        require(acre_device_synchronize(device), "synchronize");
        ours_ns[round] = (now_ns() - begin) / tasks;
    }
    report(name, "k/s", 1e6 / median(ours_ns, rounds), 0, 0);
    for (int i = 0; i < stream_count; i++)
        require(acre_stream_native_destroy(device, streams[i]), "stream");
}

/* ---- All of it ------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
    acre_sim_config config = {.struct_size = sizeof config};
    acre_backend *backend;
    acre_device *device;

    if (argc == 2 && strcmp(argv[1], "--json") == 0) {
        is_json = true;
    } else if (argc > 1) {
        fprintf(stderr, "usage: sim [--json]\nFigures of the reference device.\n");
        return strcmp(argv[1], "--help") == 0 ? 0 : 2;
    }
    require(acre_sim_create(&config, &backend), "reference device");
    require(acre_backend_device(backend, 0, &device), "device");
    printf(is_json ? "[" : "%-44s %12s %12s\n", "", "acre", "plain");
    bench_latency(device);
    bench_rate(device, "empty tasks on 1 stream", 1);
    bench_rate(device, "empty tasks on 64 streams", STREAMS);
    bench_map(device);
    bench_copy(device, "copy of 4 KiB beside memcpy", 4096, 4001, 0);
    bench_copy(device, "copy of 64 MiB beside memcpy", (size_t)64 << 20, 25, 1.1);
    if (is_json)
        printf("\n]\n");
    acre_backend_unregister(backend);
    return 0;
}
