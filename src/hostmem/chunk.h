/* SPDX-License-Identifier: MIT */
/* Which parts of the address space hold pages, and moving pages between them.
 *
 * Free blocks between live ones hold pages that fit no request. A fresh block elsewhere would
 * be touched page by page: that costs a page fault for each, and memory. Instead the pages of
 * free memory move: mremap hangs them in at the new place, and the old addresses stay mapped
 * without pages. So the resident memory of a heap follows what is live, not where it lies.
 *
 *   free block   ····[ A: pages ][ B: pages ]····          bits of A, B: 1 ─► 0
 *   new block    [ C: none ][ D: none ]                    bits of C, D: 0 ─► 1
 *
 * A chunk is 2 MiB: the kernel moves it as one page table, in the time of two or three page
 * faults. It consists of 32 grains, a bit for each. What is no whole chunk, as the end of most
 * blocks, moves in runs of grains.
 *
 * A bit tells that a block which overlaps the grain was handed out since its pages went away.
 * A bit that is wrong costs page faults or memory, nothing else: contents of free memory do
 * not matter. Blocks that take pages consist of whole grains, so that the pages at their ends
 * can move like the others, and none stay behind. Only whole grains inside a free block give
 * pages, under the lock of the cache; only whole grains inside a new block, which nobody has
 * touched yet, take them.
 *
 * On a machine with several memory nodes the table also knows the node of each chunk's pages:
 * that of the thread that first asked for a block there. A thread takes pages of its own node
 * only; where its block lies on pages of another node, these change places with free ones.
 *
 * Each move may split a mapping of the kernel. There are at most as many pieces as chunks, or
 * grains; a process may have some 65,000 mappings. So moving grains ends at GRAIN_HELD_MAX,
 * and moving chunks at CHUNK_HELD_MAX.
 */
#ifndef SRC_HOSTMEM_CHUNK_H
#define SRC_HOSTMEM_CHUNK_H

#include <acre/hostmem.h>

#include <stdbool.h>

#define CHUNK_BYTES    ((size_t)2 << 20)
#define GRAIN_BYTES    ((size_t)64 << 10)
#define CHUNK_TAKE_MIN ((size_t)2 << 20)     /* smaller blocks take no pages of others   */
#define CHUNK_HELD_MAX ((uint64_t)32 << 30)  /* heaps that hold more do not move pages   */
#define GRAIN_HELD_MAX ((uint64_t)512 << 20) /* heaps that hold more move whole chunks   */

/* A block of whole pages was handed out: its grains will be touched. With may_move those
 * without pages get pages of free ones first. */
void chunks_admit(acre_hostmem *heap, char *base, size_t bytes, bool may_move);

/* Pages of [base, base + bytes) were discarded. */
void chunks_forget(char *base, size_t bytes);

/* How many of the whole grains in a range have their bit set; for tests. */
size_t chunks_count(char *base, size_t bytes);

#endif
