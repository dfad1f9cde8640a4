/* SPDX-License-Identifier: MIT */
#include "host/numa.h"

#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* linux/mempolicy.h is not installed everywhere; these numbers never change. */
enum { MPOL_PREFERRED_MODE = 1 };

bool numa_list_read(const char *text, uint64_t *words, unsigned bits)
{
    memset(words, 0, (bits + 63) / 64 * sizeof *words);
    while (*text && *text != '\n') {
        char *end;
        if (*text < '0' || *text > '9')
            return false;
        unsigned long first = strtoul(text, &end, 10), last = first;
        if (*end == '-') {
            if (end[1] < '0' || end[1] > '9')
                return false;
            last = strtoul(end + 1, &end, 10);
        }
        if (last < first || last >= bits)
            return false;
        for (unsigned long i = first; i <= last; i++)
            words[i / 64] |= (uint64_t)1 << i % 64;
        if (*end == ',')
            end++;
        else if (*end && *end != '\n')
            return false;
        text = end;
    }
    return true;
}

/* The first line of a file below root; false: there is none. */
static bool read_line(const char *root, const char *name, char *line, int bytes)
{
    char path[512];

    if (snprintf(path, sizeof path, "%s/%s", root, name) >= (int)sizeof path)
        return false;
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool is_read = fgets(line, bytes, file) != NULL;
    fclose(file);
    return is_read;
}

static void read_node(struct numa *numa, const char *root, unsigned node)
{
    uint64_t cpus[NUMA_CPUS_MAX / 64];
    char name[64], line[4096];

    snprintf(name, sizeof name, "node%u/cpulist", node);
    if (!read_line(root, name, line, sizeof line) || !numa_list_read(line, cpus, NUMA_CPUS_MAX))
        return;
    for (unsigned cpu = 0; cpu < NUMA_CPUS_MAX; cpu++)
        if (cpus[cpu / 64] >> cpu % 64 & 1)
            numa->node_of_cpu[cpu] = (uint8_t)node;
}

void numa_load(struct numa *numa, const char *root)
{
    char line[4096];

    memset(numa, 0, sizeof *numa);
    if (!read_line(root, "online", line, sizeof line) ||
        !numa_list_read(line, &numa->online, NUMA_NODES_MAX) || !numa->online)
        numa->online = 1;
    numa->count = (uint32_t)__builtin_popcountll(numa->online);
    for (unsigned node = 0; node < NUMA_NODES_MAX && numa->count > 1; node++)
        if (numa->online >> node & 1)
            read_node(numa, root, node);
}

int numa_choose_on(const struct numa *numa, uint32_t wish, unsigned cpu)
{
    if (numa->count <= 1 || wish == NUMA_OFF)
        return -1;
    if (wish == NUMA_LOCAL)
        return cpu < NUMA_CPUS_MAX ? numa->node_of_cpu[cpu] : -1;
    return wish < NUMA_NODES_MAX && numa->online >> wish & 1 ? (int)wish : -1;
}

int numa_choose(const struct numa *numa, uint32_t wish)
{
    unsigned cpu = 0;

    if (numa->count <= 1 || syscall(SYS_getcpu, &cpu, NULL, NULL) != 0)
        return -1;
    return numa_choose_on(numa, wish, cpu);
}

bool numa_bind(void *base, size_t bytes, int node)
{
    unsigned long mask[2] = {node >= 0 ? 1ul << node : 0, 0};

    return node < 0 || syscall(SYS_mbind, base, bytes, MPOL_PREFERRED_MODE, mask,
                               (unsigned long)NUMA_NODES_MAX + 1, 0ul) == 0;
}

void numa_enter(struct numa_policy *before, int node)
{
    unsigned long mask[2] = {node >= 0 ? 1ul << node : 0, 0};

    before->is_set = node >= 0 &&
                     syscall(SYS_get_mempolicy, &before->mode, before->mask,
                             sizeof before->mask * 8, NULL, 0ul) == 0 &&
                     syscall(SYS_set_mempolicy, MPOL_PREFERRED_MODE, mask,
                             (unsigned long)NUMA_NODES_MAX + 1) == 0;
}

void numa_leave(const struct numa_policy *before)
{
    if (before->is_set)
        syscall(SYS_set_mempolicy, before->mode, before->mask, sizeof before->mask * 8);
}
