/* SPDX-License-Identifier: MIT */
#include "bench/bench.h"

#include <stdlib.h>
#include <string.h>

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

void bench_require(acre_status status, const char *what)
{
    if (status == ACRE_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", what, acre_status_name(status), acre_last_error());
    exit(1);
}

acre_policy bench_policy(const char *name)
{
    if (!name)
        return ACRE_POLICY_DEFAULT;
    if (strcmp(name, "torch") == 0)
        return ACRE_POLICY_TORCH;
    if (strcmp(name, "acre") == 0)
        return ACRE_POLICY_ACRE;
    fprintf(stderr, "there are the policies acre and torch, not \"%s\"\n", name);
    exit(2);
}

acre_cache *bench_cache(const char *policy)
{
    acre_backend *backend;
    acre_cache *cache;

    bench_require(measure_cache(bench_policy(policy), &backend, &cache), "cache");
    return cache;
}

void *bench_stream(acre_cache *cache)
{
    void *stream;

    bench_require(acre_stream_native_create(acre_cache_device(cache), 0, 0, &stream), "stream");
    return stream;
}
