/* SPDX-License-Identifier: MIT */
#include "bench/bench.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void print_help(const char *program, const char *purpose,
                       const struct bench_option *options)
{
    printf("usage: %s [option]...\n%s\n\n", program, purpose);
    for (; options->name; options++)
        printf("  --%-10s %s\n", options->name, options->help);
}

static bool read_number(const char *text, uint64_t *out)
{
    char *end;
    unsigned shift = 0;

    *out = strtoull(text, &end, 0);
    if (end == text)
        return false;
    if (*end == 'K')
        shift = 10;
    if (*end == 'M')
        shift = 20;
    if (*end == 'G')
        shift = 30;
    *out <<= shift;
    return end[shift ? 1 : 0] == '\0';
}

void bench_options(int argc, char **argv, const char *purpose,
                   const struct bench_option *options)
{
    for (int i = 1; i < argc; i++) {
        const struct bench_option *option = options;
        bool is_read = false;

        if (strcmp(argv[i], "--help") == 0) {
            print_help(argv[0], purpose, options);
            exit(0);
        }
        while (option->name && (strncmp(argv[i], "--", 2) != 0 ||
                                strcmp(argv[i] + 2, option->name) != 0))
            option++;
        if (option->name && option->flag) {
            *option->flag = is_read = true;
        } else if (option->name && i + 1 < argc) {
            i++;
            is_read = true;
            if (option->word)
                *option->word = argv[i];
            else
                is_read = read_number(argv[i], option->number);
        }
        if (!is_read) {
            fprintf(stderr, "%s: what is \"%s\"? see --help\n", argv[0], argv[i]);
            exit(2);
        }
    }
}

double bench_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

uint64_t bench_random(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9E3779B97F4A7C15);

    x = (x ^ x >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    x = (x ^ x >> 27) * UINT64_C(0x94D049BB133111EB);
    return x ^ x >> 31;
}

void bench_require(acre_status status, const char *what)
{
    if (status == ACRE_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, acre_status_name(status), acre_last_error());
    exit(1);
}

acre_cache *bench_cache(const char *policy)
{
    acre_sim_config sim = {.struct_size = sizeof sim, .devices = 1, .dry = 1,
                           .memory_bytes = (uint64_t)80 << 30, .name = "bench"};
    acre_cache_config config = {.struct_size = sizeof config};
    acre_backend *backend;
    acre_device *device;
    acre_cache *cache;

    if (policy && strcmp(policy, "torch") == 0)
        config.policy = ACRE_POLICY_TORCH;
    else if (policy && strcmp(policy, "acre") == 0)
        config.policy = ACRE_POLICY_ACRE;
    else if (policy) {
        fprintf(stderr, "there are the policies acre and torch, not \"%s\"\n", policy);
        exit(2);
    }
    bench_require(acre_sim_create(&sim, &backend), "device");
    bench_require(acre_backend_device(backend, 0, &device), "device");
    bench_require(acre_cache_create(device, &config, &cache), "cache");
    return cache;
}

void *bench_stream(acre_cache *cache)
{
    void *stream;

    bench_require(acre_stream_native_create(acre_cache_device(cache), 0, 0, &stream), "stream");
    return stream;
}

const struct bench_peer bench_peers[3] = {
    {"glibc", NULL},
    {"mimalloc", "libmimalloc.so.2"},
    {"jemalloc", "libjemalloc.so.2"},
};

/* The child: this program with the peer in place of malloc. */
static void run_child(const struct bench_peer *peer, int argc, char **argv)
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

double bench_peer_run(const struct bench_peer *peer, int argc, char **argv)
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
