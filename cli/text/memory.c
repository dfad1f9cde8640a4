/* SPDX-License-Identifier: MIT */
#include "cli/text/memory.h"

#include "cli/text/options.h"

#include <acre/base.h>
#include <acre/output.h>

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MEMORY_LEAST ((uint64_t)256 << 20)
#define MEMORY_RATIO 500

/* Half of the machine, or of the container. */
static uint64_t machine_share(void)
{
    uint64_t bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    unsigned long long group = 0;
    FILE *file = fopen("/sys/fs/cgroup/memory.max", "re");

    if (file && fscanf(file, "%llu", &group) == 1 && group > 0 && group < bytes)
        bytes = group;
    if (file)
        fclose(file);
    return bytes / 2;
}

/* Whether an argument is a file that is written, or no file. */
static bool is_other(const char *before)
{
    static const char *const names[] = {"-o", "--svg", "--to", "--device", NULL};
    int i = 0;

    while (names[i] && strcmp(names[i], before) != 0)
        i++;
    return names[i];
}

/* What the sizes of the files allow. */
static uint64_t files_share(int argc, char **argv)
{
    bool is_convert = strcmp(argv[0], "convert") == 0;
    uint64_t bytes = MEMORY_LEAST;
    struct stat facts;

    for (int i = 1; i < argc; i++) {
        if (is_other(argv[i - 1]) || stat(argv[i], &facts) != 0)
            continue;
        if (!S_ISREG(facts.st_mode)) /* a pipe says nothing about its length */
            return UINT64_MAX;
        if ((uint64_t)facts.st_size > (UINT64_MAX - bytes) / MEMORY_RATIO)
            return UINT64_MAX;
        bytes += (uint64_t)facts.st_size * MEMORY_RATIO;
        if (is_convert) /* what follows is written */
            break;
    }
    return bytes;
}

bool memory_limit(int *argc, char **argv)
{
    static const char *const readers[] = {"replay", "view",    "advise", "why",
                                          "diff",   "convert", "plan",   NULL};
    struct options options = {.argc = *argc, .argv = argv, .command = argv[0]};
    uint64_t limit = 0, output = 0, share, files;
    int kept = 1;
    int known = 0;

    while (readers[known] && strcmp(readers[known], argv[0]) != 0)
        known++;
    if (!readers[known])
        return true;
    for (options.at = 1; options.at < *argc && !options.is_bad; options.at++) {
        options.is_operands |= strcmp(argv[options.at], "--") == 0;
        if (!options_size(&options, "--memory", &limit) &&
            !options_size(&options, "--output-limit", &output))
            argv[kept++] = argv[options.at];
    }
    if (options.is_bad)
        return false;
    if (kept < *argc)
        argv[kept] = NULL;
    *argc = kept;
    share = machine_share();
    files = files_share(*argc, argv);
    acre_host_limit_set(limit ? limit : files < share ? files : share);
    acre_output_limit_set(output ? output : files);
    return true;
}
