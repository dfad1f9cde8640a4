/* SPDX-License-Identifier: MIT */
/* Host memory of the library: counted, and able to fail on demand.
 *
 * Every failure is recorded as ACRE_ERR_HOST_MEMORY in the last error, so a
 * caller only returns that code.
 */
#ifndef SRC_BASE_HEAP_H
#define SRC_BASE_HEAP_H

#include <stddef.h>
#include <stdint.h>

void *heap_alloc(size_t bytes) __attribute__((malloc));   /* not cleared      */
void *heap_zalloc(size_t bytes) __attribute__((malloc));  /* cleared          */
void *heap_array(size_t count, size_t bytes);             /* cleared, checked */
void *heap_aligned(size_t alignment, size_t bytes);       /* cleared          */
void *heap_realloc(void *old, size_t bytes);              /* old stays on failure */
char *heap_strdup(const char *text);
void heap_free(void *memory);                             /* NULL is fine     */

/* Cleared memory that takes physical pages only where it is touched, for large
 * sparse tables; given back with the same size. */
void *heap_map(size_t bytes);
void heap_unmap(void *memory, size_t bytes);              /* NULL is fine     */

/* Pieces not yet freed. */
uint64_t heap_live_count(void);

/* Makes the n-th allocation of the process from now fail, 1 being the next.
 * Returns to normal afterwards. */
void heap_fail_nth(uint64_t nth);
/* Switches that off; tells whether an allocation was failed since. */
int heap_fail_disarm(void);

#endif
