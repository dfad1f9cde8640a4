/* SPDX-License-Identifier: MIT */
/* Cleared blocks, and blocks that change their size.
 *
 * A large block that moves takes its pages along (hang.h), and both places stay what the cache
 * believes them to be: private anonymous memory. Each move may split a mapping of the kernel,
 * of which a process has some 65,000; after HEAP_REMAP_MAX moves, blocks are copied. */
#include "hostmem/hang.h"
#include "hostmem/heap.h"
#include "hostmem/inside.h"
#include "hostmem/pages.h"

#include "base/status.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Clears whole pages of the heap. What is dropped is read as zeroes, and comes back page by page
 * when it is touched. False: nothing was dropped. */
static bool range_drop(char *base, size_t bytes)
{
    struct pages inside = pages_inside(base, bytes);
    char *end = inside.base + inside.bytes;

    if (!inside.bytes || madvise(inside.base, inside.bytes, MADV_DONTNEED) != 0)
        return false;
    memset(base, 0, (size_t)(inside.base - base));
    memset(end, 0, (size_t)(base + bytes - end));
    return true;
}

acre_status acre_hostmem_calloc(acre_hostmem *heap, size_t count, size_t bytes, void **out)
{
    size_t all;
    void *pointer = NULL;
    acre_status status;

    if (__builtin_mul_overflow(count, bytes, &all))
        return status_fail(ACRE_ERR_DEVICE_MEMORY,
                           "%zu times %zu bytes are more than a size "
                           "can tell; ask for less",
                           count, bytes);
    status = heap_take(heap, all, all < HEAP_LAZY_MIN, &pointer);
    if (status != ACRE_OK)
        return status;
    if (all < HEAP_LAZY_MIN || !range_drop(pointer, round_up(all, HEAP_PAGE)))
        if (pointer)
            memset(pointer, 0, all);
    *out = pointer;
    return ACRE_OK;
}

/* Moves the pages that hold the first bytes; false: nothing has moved. */
static bool pages_move(acre_hostmem *heap, void *from, void *to, size_t bytes)
{
    size_t whole = round_up(bytes, HEAP_PAGE);

    if (bytes < HEAP_REMAP_MIN || sysconf(_SC_PAGESIZE) != HEAP_PAGE ||
        ((uintptr_t)from | (uintptr_t)to) % HEAP_PAGE != 0 || !hang_has_room())
        return false;
    if (atomic_fetch_add(&heap->remap_count, 1) >= HEAP_REMAP_MAX || !pages_hang(from, to, whole)) {
        atomic_fetch_sub(&heap->remap_count, 1);
        return false;
    }
    return true;
}

/* Whether a block of that size serves a request without wasting much. */
static bool block_suits(size_t block_bytes, size_t bytes)
{
    return bytes <= block_bytes && (block_bytes <= 1024 || bytes >= block_bytes / 2);
}

acre_status acre_hostmem_realloc(acre_hostmem *heap, void *pointer, size_t bytes, void **out)
{
    size_t old_bytes, kept;
    void *moved = NULL;
    acre_status status;

    if (!pointer)
        return acre_hostmem_alloc(heap, bytes, out);
    old_bytes = acre_hostmem_usable_bytes(heap, pointer);
    if (!old_bytes || !bytes) {
        status = acre_hostmem_free(heap, pointer);
        if (status == ACRE_OK)
            *out = NULL;
        return status;
    }
    if (block_suits(old_bytes, bytes)) {
        *out = pointer;
        return ACRE_OK;
    }
    status = heap_take(heap, bytes, false, &moved);
    if (status != ACRE_OK)
        return status;
    kept = old_bytes < bytes ? old_bytes : bytes;
    if (!pages_move(heap, pointer, moved, kept))
        memcpy(moved, pointer, kept);
    acre_hostmem_free(heap, pointer);
    *out = moved;
    return ACRE_OK;
}
