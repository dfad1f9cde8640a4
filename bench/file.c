/* SPDX-License-Identifier: MIT */
/* Saving and loading device memory beside dd with the same blocks and O_DIRECT.
 *
 *     build/bench/file --bytes 256M --block 1M --rounds 9 --folder /var/tmp
 *
 * Ours and dd take turns in one run; figures are medians. "through buffers" is memory
 * that the host does not reach, "in place" memory that was registered.
 */
#include "bench/bench.h"

#include <acre/acre.h>
#include <acre/sim.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS_MAX = 101 };
enum figure { DD_SAVE, SAVE, SAVE_HERE, DD_LOAD, LOAD, LOAD_HERE, FIGURE_COUNT };

static uint64_t bytes = 256u << 20, block = 1u << 20, rounds = 9, depth = 4;
static const char *folder = ".";
static bool is_plain;
static char path[4096];
static double seconds[FIGURE_COUNT][ROUNDS_MAX];

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void run_dd(const char *from, const char *to, const char *flag)
{
    char in[4200], out[4200], bs[64], count[64];
    int state;

    snprintf(in, sizeof in, "if=%s", from);
    snprintf(out, sizeof out, "of=%s", to);
    snprintf(bs, sizeof bs, "bs=%llu", (unsigned long long)block);
    snprintf(count, sizeof count, "count=%llu", (unsigned long long)(bytes / block));
    pid_t pid = fork();
    if (pid == 0) {
        execlp("dd", "dd", in, out, bs, count, flag, "status=none", (char *)NULL);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &state, 0) != pid || state != 0) {
        fprintf(stderr, "file: dd failed\n");
        unlink(path);
        exit(1);
    }
}

/* One transfer of ours, opening and closing included as they are for dd. */
static void run_ours(acre_device *device, void *memory, bool is_save)
{
    const acre_file_config config = {.struct_size = sizeof config, .block_bytes = block,
                                     .depth = (uint32_t)depth,
                                     .engine = is_plain ? ACRE_FILE_PLAIN : ACRE_FILE_AUTO};
    acre_file *file;

    bench_require(acre_file_open(path, is_save ? O_WRONLY | O_CREAT | O_TRUNC : O_RDONLY, &config,
                                 &file), "open");
    bench_require(is_save ? acre_file_save(file, device, memory, bytes, 0)
                          : acre_file_load(file, device, memory, bytes, 0), "transfer");
    acre_file_close(file);
}

static void run_figure(enum figure figure, acre_device *device, void *const memory[2])
{
    bool is_here = figure == SAVE_HERE || figure == LOAD_HERE;

    if (figure == DD_SAVE || figure == SAVE || figure == SAVE_HERE)
        unlink(path);
    double before = now_s();
    if (figure == DD_SAVE)
        run_dd("/dev/zero", path, "oflag=direct");
    else if (figure == DD_LOAD)
        run_dd(path, "/dev/null", "iflag=direct");
    else
        run_ours(device, memory[is_here], figure == SAVE || figure == SAVE_HERE);
    seconds[figure][0] = now_s() - before;
}

/* Memory with pages behind it: what is timed touches none for the first time. */
static void *memory_new(acre_device *device)
{
    void *memory, *stream;

    bench_require(acre_device_alloc(device, bytes, &memory), "memory");
    bench_require(acre_stream_native_create(device, 0, 0, &stream), "stream");
    bench_require(acre_fill_async(device, memory, 1, bytes, stream), "fill");
    bench_require(acre_stream_native_destroy(device, stream), "stream");
    return memory;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void show(const char *name, enum figure figure, enum figure beside)
{
    double ours = seconds[figure][rounds / 2 + 1], other = seconds[beside][rounds / 2 + 1];

    printf("%-24s %8.0f MB/s   %.2f times the time of dd\n", name, (double)bytes / ours / 1e6,
           ours / other);
}

int main(int argc, char **argv)
{
    const struct bench_option options[] = {
        {"bytes", "how much is saved and loaded", &bytes, NULL, NULL},
        {"block", "of one read or write", &block, NULL, NULL},
        {"rounds", "an odd number", &rounds, NULL, NULL},
        {"depth", "reads or writes under way at a time", &depth, NULL, NULL},
        {"folder", "where the file goes", NULL, &folder, NULL},
        {"plain", "pread and pwrite instead of io_uring", NULL, NULL, &is_plain},
        {NULL, NULL, NULL, NULL, NULL}};
    acre_sim_config config = {.struct_size = sizeof config};
    acre_backend *backend;
    acre_device *device;
    void *memory[2]; /* the second is registered */

    bench_options(argc, argv, "Device memory to files and back, beside dd.", options);
    if (rounds < 1 || rounds >= ROUNDS_MAX || !block || bytes % block) {
        fprintf(stderr, "file: 1 to %d rounds, and bytes in whole blocks\n", ROUNDS_MAX - 1);
        return 2;
    }
    snprintf(path, sizeof path, "%s/acre-bench-%d", folder, (int)getpid());
    bench_require(acre_sim_create(&config, &backend), "device");
    bench_require(acre_backend_device(backend, 0, &device), "device");
    for (int i = 0; i < 2; i++)
        memory[i] = memory_new(device);
    bench_require(acre_file_buffer_register(device, memory[1], bytes), "register");
    for (uint64_t round = 1; round <= rounds; round++)
        for (int i = 0; i < FIGURE_COUNT; i++) {
            int figure = i / 3 * 3 + (i + (int)round) % 3; /* each comes first in turn */

            run_figure((enum figure)figure, device, memory);
            seconds[figure][round] = seconds[figure][0];
        }
    unlink(path);
    bench_require(acre_file_buffer_deregister(device, memory[1]), "deregister");
    for (int figure = 0; figure < FIGURE_COUNT; figure++)
        qsort(&seconds[figure][1], rounds, sizeof(double), compare);
    printf("%llu MiB in blocks of %llu KiB, %llu under way, %s\n",
           (unsigned long long)(bytes >> 20), (unsigned long long)(block >> 10),
           (unsigned long long)depth, is_plain ? "pread and pwrite" : "io_uring where allowed");
    show("dd, to the file", DD_SAVE, DD_SAVE);
    show("save through buffers", SAVE, DD_SAVE);
    show("save in place", SAVE_HERE, DD_SAVE);
    show("dd, from the file", DD_LOAD, DD_LOAD);
    show("load through buffers", LOAD, DD_LOAD);
    show("load in place", LOAD_HERE, DD_LOAD);
    acre_backend_unregister(backend);
    return 0;
}
