/* SPDX-License-Identifier: MIT */
/* Memory nodes of the machine, as the kernel shows them below /sys, and placing pages
 * there with its own calls; no library is needed. */
#ifndef SRC_HOST_NUMA_H
#define SRC_HOST_NUMA_H

#include <acre/base.h>

#include <stdbool.h>

enum { NUMA_NODES_MAX = 64, NUMA_CPUS_MAX = 4096 };

/* Where the kernel describes nodes. */
#define NUMA_ROOT "/sys/devices/system/node"

/* Values of option pinned_numa_node that are no node. */
#define NUMA_LOCAL UINT32_MAX       /* that of the calling thread      */
#define NUMA_OFF (UINT32_MAX - 1)   /* wherever the kernel likes       */

struct numa {
    uint64_t online;                 /* bit per node                    */
    uint32_t count;                  /* nodes online; 1 when not known  */
    uint8_t node_of_cpu[NUMA_CPUS_MAX];
};

/* Reads the tree below root; without one, or with one that makes no sense, there is a
 * single node 0. */
void numa_load(struct numa *numa, const char *root);

/* Numbers of a list like "0-3,8,10-11" as a map of bits; false: it is none, or a number
 * is not below bits. */
bool numa_list_read(const char *text, uint64_t *words, unsigned bits);

/* The node that a wish means for the calling thread, -1: no preference. With one node
 * there is none. */
int numa_choose(const struct numa *numa, uint32_t wish);
/* As numa_choose, for a thread that runs on processor cpu. */
int numa_choose_on(const struct numa *numa, uint32_t wish, unsigned cpu);

/* Lets pages that do not exist yet come from a node where possible; -1 does nothing.
 * Whether the kernel agreed. */
bool numa_bind(void *base, size_t bytes, int node);

/* Lets what the calling thread makes the kernel allocate come from a node; numa_leave
 * restores what was before. A node of -1 does nothing. */
struct numa_policy {
    int mode;
    unsigned long mask[16]; /* as many nodes as any kernel has */
    bool is_set;
};
void numa_enter(struct numa_policy *before, int node);
void numa_leave(const struct numa_policy *before);

#endif
