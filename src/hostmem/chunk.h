/* SPDX-License-Identifier: MIT */
/* Which 2 MiB chunks of the address space hold pages, and moving pages between chunks.
 *
 * Free blocks between live ones hold pages that fit no request. A fresh block elsewhere would
 * be touched page by page: that costs a page fault for each, and memory. Instead the pages of
 * a free chunk move: mremap hangs its page table in at the new place, and the old addresses
 * stay mapped without pages. So the resident memory of a heap follows what is live, not where
 * it lies, and a chunk moves in the time of two or three page faults.
 *
 *   free block   ····[ A: pages ][ B: pages ]····          bits of A, B: 1 ─► 0
 *   new block    [ C: none ][ D: none ]                    bits of C, D: 0 ─► 1
 *
 * A bit tells that a block which overlaps the chunk was handed out since its pages went away.
 * A bit that is wrong costs page faults or memory, nothing else: contents of free memory do
 * not matter. Only whole chunks inside a free block give pages, under the lock of the cache;
 * only whole chunks inside a new block, which nobody has touched yet, take them.
 *
 * Each move may split a mapping of the kernel. There are at most as many pieces as chunks; a
 * process may have some 65,000 mappings, and moving ends at CHUNK_HELD_MAX.
 */
#ifndef SRC_HOSTMEM_CHUNK_H
#define SRC_HOSTMEM_CHUNK_H

#include <acre/hostmem.h>

#include <stdbool.h>

#define CHUNK_BYTES    ((size_t)2 << 20)
#define CHUNK_HELD_MAX ((uint64_t)32 << 30) /* heaps that hold more do not move pages */

/* Makes the table of bits; once per process. Errors: ACRE_ERR_HOST_MEMORY. */
acre_status chunks_start(void);

/* A block of whole pages was handed out: its chunks will be touched. With may_move those
 * without pages get pages of free chunks first. */
void chunks_admit(acre_hostmem *heap, char *base, size_t bytes, bool may_move);

/* Pages of [base, base + bytes) were discarded. */
void chunks_forget(char *base, size_t bytes);

/* How many of the whole chunks in a range have their bit set; for tests. */
size_t chunks_count(char *base, size_t bytes);

#endif
