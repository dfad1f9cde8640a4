/* SPDX-License-Identifier: MIT */
#include "cli/demo/tour.h"

#include "cli/text/print.h"

#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB (1024u * 1024u)

bool tour_failed(const char *file, int line, const char *what, acre_status status)
{
    const char *slash = strrchr(file, '/');

    if (slash)
        file = slash + 1;
    fflush(stdout);
    if (status == ACRE_OK)
        fprintf(stderr, "acre demo: %s:%d: this should hold: %s\n", file, line, what);
    else
        fprintf(stderr, "acre demo: %s:%d: %s: %s: %s\n", file, line, what,
                acre_status_name(status), acre_last_error());
    return false;
}

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* ---- Devices ------------------------------------------------------------- */

bool tour_devices(struct tour *tour)
{
    report_say(tour->report,
               "A backend says what a kind of device can do. The reference device is made of "
               "host memory and behaves like an accelerator, so that everything above it can "
               "be written, tested and shown without one. Its memory counts as used only "
               "where it is touched.");
    for (int i = 0; i < 2; i++) {
        acre_device_info info = {.struct_size = sizeof info};
        uint64_t bytes_free, bytes_total;
        char name[32];

        TRY(acre_device_info_get(tour->device[i], &info));
        TRY(acre_device_memory(tour->device[i], &bytes_free, &bytes_total));
        uint64_t limit = tour->limit_bytes;
        EXPECT(bytes_free == (limit && limit < bytes_total ? limit : bytes_total));
        snprintf(name, sizeof name, "device %d", i);
        report_fact(tour->report, name, "%s, %s, pages of %s, %s", info.name,
                    print_bytes(bytes_total), print_bytes(info.page_bytes),
                    print_count((uint64_t)__builtin_popcount(info.capabilities), "optional group"));
    }
    return true;
}

/* ---- Protection ------------------------------------------------------------ */

/* Whether a read of pointer ends a child process by a memory fault. */
static bool read_faults(const volatile char *pointer)
{
    int status = 0;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        _exit(*pointer == 0 ? 0 : 1);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        ;
    return WIFSIGNALED(status) && (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS);
}

bool tour_protection(struct tour *tour)
{
    acre_device *device = tour->device[0];
    void *memory;

    report_say(tour->report,
               "On a real accelerator the host cannot follow a device pointer. Here neither: a "
               "read faults, so a forgotten copy is found at once. Tests may look inside "
               "through an access window.");
    TRY(acre_device_alloc(device, MIB, &memory));
    bool before = read_faults(memory);
    TRY(acre_access_open(device, memory));
    memset(memory, 42, MIB);
    int inside = *(const volatile char *)memory;
    TRY(acre_access_close(device, memory));
    bool after = read_faults(memory);
    TRY(acre_device_free(device, memory));
    acre_status again = acre_device_free(device, memory);

    report_fact(tour->report, "a child process reads it", "%s",
                before ? "killed by a memory fault" : "not stopped");
    report_fact(tour->report, "the same inside a window", "reads %d", inside);
    report_fact(tour->report, "and after the window", "%s",
                after ? "killed by a memory fault" : "not stopped");
    report_fact(tour->report, "freed twice", "%s", acre_last_error());
    EXPECT(before && after && inside == 42 && again == ACRE_ERR_INVALID);
    return true;
}

/* ---- Streams and events ------------------------------------------------------ */

struct add_args {
    uint32_t *values;
    size_t count;
    uint32_t amount;
};

/* Adds an amount to every value; runs on the device. */
static void add_kernel(acre_kernel_context *context, void *args)
{
    struct add_args *add = args;
    uint32_t *values = acre_kernel_pointer(context, add->values, add->count * sizeof *add->values);

    for (size_t i = 0; values && i < add->count; i++)
        values[i] += add->amount;
}

static void wait_for_post(void *arg)
{
    while (sem_wait(arg) != 0)
        ;
}

/* Queues on first: a gate, a fill, a kernel, an event. On second: a wait for the
 * event, a copy to the host. */
static bool queue_two_streams(acre_device *device, void *const streams[2], void *event, sem_t *gate,
                              struct add_args *add, uint32_t *host)
{
    size_t bytes = add->count * sizeof *add->values;

    TRY(acre_launch_host(device, streams[0], wait_for_post, gate));
    TRY(acre_fill_async(device, add->values, 1, bytes, streams[0]));
    TRY(acre_launch_kernel(device, streams[0], add_kernel, add, sizeof *add));
    TRY(acre_event_native_record(device, event, streams[0]));
    TRY(acre_stream_native_wait(device, streams[1], event));
    TRY(acre_copy_async(device, host, add->values, bytes, ACRE_COPY_DEVICE_TO_HOST, streams[1]));
    return true;
}

bool tour_streams(struct tour *tour)
{
    acre_device *device = tour->device[0];
    struct add_args add = {.count = MIB, .amount = 41};
    void *streams[2], *event, *memory;
    /* Work may still wait at the gate, or write to the host, after a failed call
     * has ended the tour; both stay until the process ends. */
    static sem_t gate;
    static uint32_t *host;

    report_say(tour->report,
               "Work on one stream runs in order; streams run beside one another. An event "
               "marks a point of one stream that another waits for. The first stream is held "
               "at a gate here, so nothing of what follows may have happened yet.");
    host = calloc(add.count, sizeof *host);
    EXPECT(host && sem_init(&gate, 0, 0) == 0);
    TRY(acre_device_alloc(device, add.count * sizeof *host, &memory));
    add.values = memory;
    for (int i = 0; i < 2; i++)
        TRY(acre_stream_native_create(device, ACRE_STREAM_NON_BLOCKING, 0, &streams[i]));
    TRY(acre_event_native_create(device, 0, &event));
    if (!queue_two_streams(device, streams, event, &gate, &add, host))
        return false;

    acre_status held = acre_event_native_query(device, event);
    uint32_t early = host[0];
    double began = now_ms();
    sem_post(&gate);
    TRY(acre_stream_native_synchronize(device, streams[1]));
    double took = now_ms() - began;
    acre_status done = acre_event_native_query(device, event);
    bool is_right = true;
    for (size_t i = 0; i < add.count; i++)
        is_right = is_right && host[i] == 0x01010101u + 41;

    report_fact(tour->report, "event while the gate is shut", "%s", acre_status_name(held));
    report_fact(tour->report, "event afterwards", "%s", acre_status_name(done));
    report_fact(tour->report, "fill, kernel, event, wait, copy",
                "%zu values, all right: %s, %.2f ms", add.count, is_right ? "yes" : "no", took);
    for (int i = 0; i < 2; i++)
        TRY(acre_stream_native_destroy(device, streams[i]));
    TRY(acre_event_native_destroy(device, event));
    TRY(acre_device_free(device, memory));
    EXPECT(held == ACRE_ERR_NOT_READY && early == 0 && done == ACRE_OK && is_right);
    sem_destroy(&gate);
    free(host);
    return true;
}

/* ---- Copies -------------------------------------------------------------------- */

bool tour_copies(struct tour *tour)
{
    size_t bytes = 64 * (size_t)MIB;
    static unsigned char *source, *target; /* kept when a failed call ends the tour */
    void *first, *second;
    bool reaches;

    report_say(tour->report,
               "To the first device, across to the second, and back. A copy knows which sides "
               "are device memory and refuses a direction that does not fit. Timed the second "
               "time: the first makes the pages.");
    source = malloc(bytes);
    target = calloc(1, bytes);
    EXPECT(source && target);
    for (size_t i = 0; i < bytes; i++)
        source[i] = (unsigned char)(i * 31 + (i >> 12));
    TRY(acre_device_can_access_peer(tour->device[0], tour->device[1], &reaches));
    TRY(acre_device_alloc(tour->device[0], bytes, &first));
    TRY(acre_device_alloc(tour->device[1], bytes, &second));
    TRY(acre_copy(tour->device[0], first, source, bytes, ACRE_COPY_HOST_TO_DEVICE));
    TRY(acre_copy(tour->device[0], second, first, bytes, ACRE_COPY_DEVICE_TO_DEVICE));
    double began = now_ms();
    TRY(acre_copy(tour->device[0], first, source, bytes, ACRE_COPY_HOST_TO_DEVICE));
    double in = now_ms();
    TRY(acre_copy(tour->device[0], second, first, bytes, ACRE_COPY_DEVICE_TO_DEVICE));
    double across = now_ms();
    TRY(acre_copy(tour->device[1], target, second, bytes, ACRE_COPY_DEVICE_TO_HOST));
    double out = now_ms();
    bool is_same = memcmp(source, target, bytes) == 0;
    acre_status wrong = acre_copy(tour->device[0], first, source, bytes, ACRE_COPY_DEVICE_TO_HOST);

    report_fact(tour->report, "64 MiB to the device", "%.1f ms", in - began);
    report_fact(tour->report, "to the other device", "%.1f ms, peers: %s", across - in,
                reaches ? "yes" : "no");
    report_fact(tour->report, "and back", "%.1f ms, same bytes: %s", out - across,
                is_same ? "yes" : "no");
    report_fact(tour->report, "a wrong direction", "%s", acre_last_error());
    TRY(acre_device_free(tour->device[0], first));
    TRY(acre_device_free(tour->device[1], second));
    EXPECT(is_same && wrong == ACRE_ERR_INVALID);
    free(source);
    free(target);
    return true;
}

/* ---- Virtual ranges --------------------------------------------------------------- */

bool tour_ranges(struct tour *tour)
{
    acre_device *device = tour->device[0];
    acre_device_info info = {.struct_size = sizeof info};
    void *range, *handle;
    uint64_t free_before, free_now, total;
    uint32_t written = 1234567, read = 0;

    report_say(tour->report,
               "Addresses and memory are obtained apart. One physical page is mapped at two "
               "addresses of a reserved range: what is written at one is read at the other, "
               "and only one page of the device is used.");
    TRY(acre_device_info_get(device, &info));
    TRY(acre_device_memory(device, &free_before, &total));
    size_t page = info.page_bytes;
    TRY(acre_virtual_reserve(device, 4 * page, &range));
    TRY(acre_virtual_create(device, page, ACRE_HANDLE_NONE, &handle));
    char *low = range, *high = low + 2 * page;
    TRY(acre_virtual_map(device, low, page, 0, handle));
    TRY(acre_virtual_map(device, high, page, 0, handle));
    TRY(acre_virtual_set_access(device, low, page, 0, ACRE_ACCESS_READ_WRITE));
    TRY(acre_virtual_set_access(device, high, page, 0, ACRE_ACCESS_READ_WRITE));
    TRY(acre_copy(device, low + 64, &written, sizeof written, ACRE_COPY_HOST_TO_DEVICE));
    TRY(acre_copy(device, &read, high + 64, sizeof read, ACRE_COPY_DEVICE_TO_HOST));
    TRY(acre_device_memory(device, &free_now, &total));
    acre_status part = acre_virtual_map(device, low + page, page / 2, 0, handle);

    report_fact(tour->report, "addresses reserved", "%s at %p", print_bytes(4 * page), range);
    report_fact(tour->report, "written at the first address", "%u", written);
    report_fact(tour->report, "read at the second", "%u", read);
    report_fact(tour->report, "device memory in use", "%s", print_bytes(free_before - free_now));
    report_fact(tour->report, "half a page", "%s", acre_last_error());
    TRY(acre_virtual_unmap(device, low, page));
    TRY(acre_virtual_unmap(device, high, page));
    TRY(acre_virtual_release(device, handle));
    TRY(acre_virtual_unreserve(device, range, 4 * page));
    EXPECT(read == written && free_before - free_now == page && part == ACRE_ERR_INVALID);
    return true;
}

/* ---- Graphs ------------------------------------------------------------------------- */

bool tour_graphs(struct tour *tour)
{
    acre_device *device = tour->device[0];
    struct add_args add = {.count = 1024, .amount = 3};
    uint32_t before = 0, after = 0;
    void *stream, *graph, *memory;

    report_say(tour->report,
               "A stream in capture records its work instead of doing it. The graph that comes "
               "out can be launched as often as wanted.");
    TRY(acre_device_alloc(device, add.count * sizeof *add.values, &memory));
    add.values = memory;
    TRY(acre_stream_native_create(device, 0, 0, &stream));
    TRY(acre_fill_async(device, memory, 0, add.count * sizeof *add.values, stream));
    TRY(acre_stream_native_synchronize(device, stream));
    TRY(acre_capture_begin(device, stream));
    TRY(acre_launch_kernel(device, stream, add_kernel, &add, sizeof add));
    TRY(acre_capture_end(device, stream, &graph));
    TRY(acre_copy(device, &before, memory, sizeof before, ACRE_COPY_DEVICE_TO_HOST));
    double began = now_ms();
    for (int i = 0; i < 100; i++)
        TRY(acre_graph_launch(device, graph, stream));
    TRY(acre_stream_native_synchronize(device, stream));
    double took = now_ms() - began;
    TRY(acre_copy(device, &after, memory, sizeof after, ACRE_COPY_DEVICE_TO_HOST));

    report_fact(tour->report, "a value after the capture", "%u", before);
    report_fact(tour->report, "after 100 launches of \"add 3\"", "%u, %.2f ms", after, took);
    TRY(acre_graph_destroy(device, graph));
    TRY(acre_stream_native_destroy(device, stream));
    TRY(acre_device_free(device, memory));
    EXPECT(before == 0 && after == 300);
    return true;
}

/* ---- The caching allocator ----------------------------------------------------------- */

#define PAIRS 100000

bool tour_cache(struct tour *tour)
{
    acre_device *device = tour->device[0];
    acre_cache_config config = {.struct_size = sizeof config, .flags = ACRE_CACHE_NO_ENVIRONMENT};
    acre_cache_stats stats = {.struct_size = sizeof stats};
    acre_cache *cache;
    void *memory, *first;

    report_say(tour->report,
               "Asking a driver for memory is slow. A cache asks for large segments, cuts them "
               "into blocks and keeps what is freed, so that the next allocation on the same "
               "stream never reaches the device.");
    double began = now_ms();
    for (int i = 0; i < 100; i++) {
        TRY(acre_device_alloc(device, MIB, &memory));
        TRY(acre_device_free(device, memory));
    }
    double straight_ns = (now_ms() - began) * 1e6 / 100;
    TRY(acre_cache_create(device, &config, &cache));
    TRY(acre_cache_alloc(cache, MIB, NULL, &first));
    TRY(acre_cache_free(cache, first));
    began = now_ms();
    for (int i = 0; i < PAIRS; i++) {
        TRY(acre_cache_alloc(cache, MIB, NULL, &memory));
        TRY(acre_cache_free(cache, memory));
    }
    double cached_ns = (now_ms() - began) * 1e6 / PAIRS;
    TRY(acre_cache_stats_get(cache, &stats));
    acre_status again = acre_cache_free(cache, memory);
    acre_cache_destroy(cache);

    report_fact(tour->report, "1 MiB straight from the device", "%.0f ns a pair", straight_ns);
    report_fact(tour->report, "the same from the cache", "%.0f ns a pair", cached_ns);
    report_fact(tour->report, "pairs, and calls to the device", "%lld, %lld",
                (long long)stats.allocation.all.allocated, (long long)stats.num_device_alloc);
    report_fact(tour->report, "a block freed twice", "%s", acre_last_error());
    EXPECT(memory == first && stats.allocation.all.allocated == PAIRS + 1 &&
           stats.num_device_alloc == 1 && again == ACRE_ERR_INVALID);
    return true;
}

/* ---- Faults --------------------------------------------------------------------------- */

bool tour_faults(struct tour *tour)
{
    acre_device *device = tour->device[0];
    acre_sim_fault fault = {.struct_size = sizeof fault, .call = ACRE_SIM_ALLOC, .nth = 3};
    void *memory[4] = {NULL};
    int failed_at = 0;
    uint64_t total;
    uint64_t bytes_free;

    report_say(tour->report,
               "What happens when the driver fails? Arm the reference device to fail the third "
               "allocation from now and see. Every call either succeeds or leaves no trace.");
    acre_sim_fault_disarm(tour->backend);
    TRY(acre_sim_fault_arm(tour->backend, &fault));
    for (int i = 0; i < 4; i++) {
        if (acre_device_alloc(device, MIB, &memory[i]) == ACRE_OK)
            continue;
        failed_at = i + 1;
        report_fact(tour->report, "allocation 3 of 4", "%s", acre_last_error());
    }
    uint64_t count = acre_sim_fault_disarm(tour->backend);
    for (int i = 0; i < 4; i++)
        TRY(acre_device_free(device, memory[i]));
    TRY(acre_device_memory(device, &bytes_free, &total));
    acre_status full = acre_device_alloc(device, total + MIB, &memory[0]);
    report_fact(tour->report, "more than the device has", "%s", acre_last_error());
    EXPECT(failed_at == 3 && count == 1 && full == ACRE_ERR_DEVICE_MEMORY);
    return true;
}

/* ---- The end ---------------------------------------------------------------------------- */

bool tour_ending(struct tour *tour)
{
    acre_sim_usage usage = {.struct_size = sizeof usage};

    report_say(tour->report, "The reference device counts what it holds; leaks are found by "
                             "asking it.");
    TRY(acre_sim_usage_get(tour->backend, &usage));
    report_fact(tour->report, "allocations, mappings, streams", "%llu, %llu, %llu",
                (unsigned long long)usage.alloc_count, (unsigned long long)usage.map_count,
                (unsigned long long)usage.stream_count);
    report_fact(tour->report, "bytes of device memory", "%llu",
                (unsigned long long)usage.bytes_used);
    EXPECT(usage.alloc_count == 0 && usage.map_count == 0 && usage.stream_count == 0 &&
           usage.handle_count == 0 && usage.bytes_used == 0);
    return true;
}
