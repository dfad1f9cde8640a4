/* SPDX-License-Identifier: MIT */
/* See fresh_pages.h. */
#include "host/fresh_pages.h"

#include "base/bits.h"

#include <linux/mempolicy.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define HUGE_BYTES ((size_t)2 << 20)

static _Atomic bool is_interleaved;

static void *range_map(size_t bytes)
{
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

/* Maps more than asked for and unmaps what lies around the aligned range. Where the limit
 * of the process has no room for that, the range is as the kernel gives it. */
static void *range_map_aligned(size_t bytes)
{
    char *whole = bytes + HUGE_BYTES > bytes ? range_map(bytes + HUGE_BYTES) : MAP_FAILED, *base;

    if (whole == MAP_FAILED)
        return range_map(bytes);
    base = (char *)round_up((uintptr_t)whole, HUGE_BYTES);
    if (base > whole)
        munmap(whole, (size_t)(base - whole));
    bytes = round_up(bytes, (size_t)sysconf(_SC_PAGESIZE));
    if (base < whole + HUGE_BYTES)
        munmap(base + bytes, (size_t)(whole + HUGE_BYTES - base));
    return base;
}

/* Every node of the system may hold the pages. A system with one node, or without the call,
 * keeps its own policy. */
static void range_interleave(void *base, size_t bytes)
{
    unsigned long nodes[16] = {0}; /* 1024 nodes, the most that Linux knows */

    if (syscall(SYS_get_mempolicy, NULL, nodes, sizeof nodes * 8, NULL, MPOL_F_MEMS_ALLOWED) == 0)
        syscall(SYS_mbind, base, bytes, MPOL_INTERLEAVE, nodes, sizeof nodes * 8, 0);
}

void *fresh_pages_map(size_t bytes)
{
    void *base = bytes < HUGE_BYTES ? range_map(bytes) : range_map_aligned(bytes);

    if (base == MAP_FAILED || bytes < HUGE_BYTES)
        return base;
    if (atomic_load_explicit(&is_interleaved, memory_order_relaxed))
        range_interleave(base, bytes);
    return base;
}

void fresh_pages_spread(bool wants_interleave)
{
    atomic_store(&is_interleaved, wants_interleave);
}
