/* SPDX-License-Identifier: MIT */
#include "base/heap.h"

#include "base/host_limit.h"
#include "base/status.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HEAP_OVERHEAD 16 /* bytes that an allocator keeps beside a piece */

static _Atomic uint64_t live_count;
static _Atomic uint64_t fail_in; /* allocations until one fails; 0: disarmed */
static _Atomic int has_failed;

static int must_fail(void)
{
    uint64_t left = atomic_load_explicit(&fail_in, memory_order_relaxed);

    while (left) {
        if (atomic_compare_exchange_weak(&fail_in, &left, left - 1)) {
            if (left > 1)
                return 0;
            atomic_store(&has_failed, 1);
            return 1;
        }
    }
    return 0;
}

/* Adds or takes the bytes of a piece, with what the allocator needs for itself. */
static void bytes_add(void *memory, int sign)
{
    if (memory && host_limit_is_set())
        host_limit_count(sign * (int64_t)(malloc_usable_size(memory) + HEAP_OVERHEAD));
}

/* ---- Pieces ------------------------------------------------------------------------------- */

static void *heap_counted(void *memory, size_t bytes)
{
    if (memory) {
        atomic_fetch_add_explicit(&live_count, 1, memory_order_relaxed);
        return memory;
    }
    if (!host_limit_refuses(bytes))
        status_fail(ACRE_ERR_HOST_MEMORY, "%zu bytes of host memory could not be had", bytes);
    return memory;
}

/* More than any object may have is refused here: allocators differ in what they make of
 * it, and those of sanitizers end the process. */
static int heap_refuses(size_t bytes)
{
    return must_fail() || bytes > PTRDIFF_MAX || host_limit_refuses(bytes);
}

void *heap_alloc(size_t bytes)
{
    void *memory = heap_refuses(bytes) ? NULL : malloc(bytes ? bytes : 1);

    bytes_add(memory, 1);
    return heap_counted(memory, bytes);
}

void *heap_zalloc(size_t bytes)
{
    void *memory = heap_refuses(bytes) ? NULL : calloc(1, bytes ? bytes : 1);

    bytes_add(memory, 1);
    return heap_counted(memory, bytes);
}

void *heap_array(size_t count, size_t bytes)
{
    size_t total;

    if (__builtin_mul_overflow(count, bytes, &total))
        return heap_counted(NULL, SIZE_MAX);
    return heap_zalloc(total);
}

void *heap_aligned(size_t alignment, size_t bytes)
{
    void *memory = NULL;

    if (heap_refuses(bytes) || posix_memalign(&memory, alignment, bytes ? bytes : 1) != 0)
        return heap_counted(NULL, bytes);
    memset(memory, 0, bytes);
    bytes_add(memory, 1);
    return heap_counted(memory, bytes);
}

void *heap_realloc(void *old, size_t bytes)
{
    if (!old)
        return heap_alloc(bytes);
    if (heap_refuses(bytes)) /* the old piece may live beside the new one for a moment */
        return heap_counted(NULL, bytes);
    bytes_add(old, -1);
    void *memory = realloc(old, bytes ? bytes : 1);
    bytes_add(memory ? memory : old, 1);
    return memory ? memory : heap_counted(NULL, bytes);
}

char *heap_strdup(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = heap_alloc(bytes);

    if (copy)
        memcpy(copy, text, bytes);
    return copy;
}

void heap_free(void *memory)
{
    if (!memory)
        return;
    atomic_fetch_sub_explicit(&live_count, 1, memory_order_relaxed);
    bytes_add(memory, -1);
    free(memory);
}

void *heap_map(size_t bytes)
{
    void *memory = MAP_FAILED;

    if (!must_fail())
        memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return heap_counted(memory == MAP_FAILED ? NULL : memory, bytes);
}

void heap_unmap(void *memory, size_t bytes)
{
    if (!memory)
        return;
    atomic_fetch_sub_explicit(&live_count, 1, memory_order_relaxed);
    munmap(memory, bytes);
}

uint64_t heap_live_count(void)
{
    return atomic_load(&live_count);
}

void heap_fail_nth(uint64_t nth)
{
    atomic_store(&has_failed, 0);
    atomic_store(&fail_in, nth);
}

int heap_fail_disarm(void)
{
    atomic_store(&fail_in, 0);
    return atomic_exchange(&has_failed, 0);
}
