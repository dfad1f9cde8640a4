/* SPDX-License-Identifier: MIT */
/* See pressure.h. */
#include "hostmem/pressure.h"

#include <stdio.h>
#include <string.h>

enum { PRESSURE_SHARE = 16 };

/* A number in a file of the kernel; 0 when it holds none ("max"). */
static uint64_t number_read(const char *path)
{
    unsigned long long number = 0;
    FILE *file = fopen(path, "re");

    if (!file)
        return 0;
    if (fscanf(file, "%llu", &number) != 1)
        number = 0;
    fclose(file);
    return number;
}

void pressure_group(const char *root, const char *membership, uint64_t *out_used,
                    uint64_t *out_limit)
{
    char line[512], path[1024];
    FILE *file = fopen(membership, "re");

    *out_used = *out_limit = 0;
    if (!file)
        return;
    while (fgets(line, sizeof line, file)) {
        if (strncmp(line, "0::/", 4) != 0)
            continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(path, sizeof path, "%s%s/memory.max", root, line + 3);
        *out_limit = number_read(path);
        snprintf(path, sizeof path, "%s%s/memory.current", root, line + 3);
        *out_used = number_read(path);
    }
    fclose(file);
}

bool pressure_of(uint64_t available, uint64_t total, uint64_t used, uint64_t limit)
{
    if (available && available < total / PRESSURE_SHARE)
        return true;
    return limit && used > limit - limit / PRESSURE_SHARE;
}

bool pressure_is_high(void)
{
    unsigned long long total = 0, available = 0;
    uint64_t used, limit;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "re");

    while (file && fgets(line, sizeof line, file)) {
        sscanf(line, "MemTotal: %llu kB", &total);
        if (sscanf(line, "MemAvailable: %llu kB", &available) == 1)
            break;
    }
    if (file)
        fclose(file);
    pressure_group("/sys/fs/cgroup", "/proc/self/cgroup", &used, &limit);
    return pressure_of(available, total, used, limit);
}
