/* SPDX-License-Identifier: MIT */
/* See pressure.h. */
#include "hostmem/pressure.h"

#include <stdio.h>
#include <string.h>

enum { PRESSURE_SHARE = 16 };

#define UNLIMITED ((uint64_t)1 << 60) /* a group of version 1 says a number like this */

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

/* The number behind a name in a file of names and numbers; 0 when it is not there. */
static uint64_t named_read(const char *path, const char *name)
{
    unsigned long long number = 0;
    char line[128], format[64];
    FILE *file = fopen(path, "re");

    snprintf(format, sizeof format, "%s %%llu", name);
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, format, &number) == 1)
            break;
    if (file)
        fclose(file);
    return number;
}

/* The names that a version of control groups has. */
struct group_names {
    const char *folder, *limit, *used, *file_name;
};

static const struct group_names version_1 = {"/memory", "memory.limit_in_bytes",
                                             "memory.usage_in_bytes", "total_inactive_file"};
static const struct group_names version_2 = {"", "memory.max", "memory.current", "inactive_file"};

/* Use and limit of one group. Pages of files that nobody used lately go when memory is short, so
 * they do not count. */
static void group_read(const char *root, const struct group_names *names, const char *group,
                       uint64_t *out_used, uint64_t *out_limit)
{
    char path[1024];

    snprintf(path, sizeof path, "%s%s%s/%s", root, names->folder, group, names->limit);
    *out_limit = number_read(path);
    if (*out_limit >= UNLIMITED)
        *out_limit = 0;
    snprintf(path, sizeof path, "%s%s%s/%s", root, names->folder, group, names->used);
    *out_used = number_read(path);
    snprintf(path, sizeof path, "%s%s%s/memory.stat", root, names->folder, group);
    uint64_t idle = named_read(path, names->file_name);
    *out_used -= idle < *out_used ? idle : *out_used;
}

/* The path in a line of /proc/self/cgroup, and the version it speaks of; NULL: another line. */
static const struct group_names *line_read(char *line, char **out_group)
{
    char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;

    if (!path)
        return NULL;
    line[strcspn(line, "\n")] = 0;
    *path++ = 0;
    *out_group = strcmp(path, "/") == 0 ? path + 1 : path;
    if (strcmp(list + 1, "memory") == 0)
        return &version_1;
    return strncmp(line, "0:", 2) == 0 && list[1] == 0 ? &version_2 : NULL;
}

void pressure_group(const char *root, const char *membership, uint64_t *out_used,
                    uint64_t *out_limit)
{
    char line[512], *group;
    FILE *file = fopen(membership, "re");

    *out_used = *out_limit = 0;
    while (file && fgets(line, sizeof line, file)) {
        const struct group_names *names = line_read(line, &group);
        uint64_t used = 0, limit = 0;
        if (names)
            group_read(root, names, group, &used, &limit);
        if (names && !limit && !used) /* a container sees its own group as the root */
            group_read(root, names, "", &used, &limit);
        if (limit && (!*out_limit || limit < *out_limit)) {
            *out_used = used;
            *out_limit = limit;
        }
    }
    if (file)
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
