/* SPDX-License-Identifier: MIT */
/* A heap of host memory: slabs with thread magazines for small blocks, a cache over the
 * device "host" for the others, and what returns idle pages.
 *
 *   acre_hostmem_alloc ─ up to 4 KiB ─ the thread's magazine ─ (miss) slabs, under the lock
 *                      └ larger ────── acre_cache_alloc, without a lock in most cases
 *   acre_hostmem_free  ─ granule_find: a slab ─ the thread's magazine
 *                                    └ none ─── acre_cache_free
 *
 * Large blocks (64 KiB and more, LARGE_MIN) are whole pages: their sizes are multiples of
 * HEAP_PAGE, and so are the addresses of the pool that holds them. Their pages can then be
 * remapped and discarded.
 */
#ifndef SRC_HOSTMEM_HEAP_H
#define SRC_HOSTMEM_HEAP_H

#include "base/bits.h"
#include "base/process/fork.h"
#include "base/check.h"
#include "base/lock.h"
#include "host/numa.h"
#include "hostmem/idle.h"
#include "hostmem/magazine.h"
#include "hostmem/slab.h"

enum {
    HEAP_PAGE = 4096,        /* unit of large blocks; every page size divides or equals it
                               on the machines that the remapping is used on         */
    HEAP_LARGE_MIN = 65536,  /* the cache keeps blocks from here on in a pool of their own */
    HEAP_LAZY_MIN = 262144,  /* from here on the kernel clears memory                 */
    HEAP_HUGE_MIN = 4194304, /* from here on huge pages are asked for, as NumPy does  */
    HEAP_REMAP_MIN = 131072, /* from here on remapping is cheaper than copying       */
    HEAP_REMAP_MAX = 8192,   /* remaps kept at a time: each leaves mappings split     */
};

struct acre_hostmem {
    acre_cache *cache;            /* constant                                          */
    unsigned index;               /* constant: in magazines_own                        */
    uint32_t flags;               /* constant: acre_hostmem_flag                       */
    _Atomic size_t small_max;     /* blocks up to this come from slabs; 0 while recording */
    const struct numa *numa;      /* constant: the memory nodes of the machine         */
    struct lock lock;             /* guards slabs, threads and retired                 */
    struct fork_guard fork_guard; /* of the lock                                    */
    struct slabs slabs;
    struct list threads;         /* magazines of all threads                          */
    struct small_counts retired; /* of threads that ended                            */
    struct idle idle;
    _Atomic int64_t remap_count;
    _Atomic int64_t large_bytes; /* of live blocks of whole pages                    */
    void *numpy;                 /* handler for NumPy, or NULL; guarded by the lock   */
};

/* heap.c: all heaps of the process, by index. Taken before the lock of a heap. */
extern struct lock heaps_lock;
extern acre_hostmem *heaps[ACRE_HOSTMEM_HEAPS_MAX];

/* heap.c: as acre_hostmem_alloc; without may_move fresh chunks get no pages of free ones. */
acre_status heap_take(acre_hostmem *heap, size_t bytes, bool may_move, void **out);

#endif
