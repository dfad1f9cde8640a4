/* SPDX-License-Identifier: MIT */
/* Which stacks hold the memory of a heap: live blocks summed by the stack that allocated them, or
 * by size where no stack is known. */
#include "base/bits.h"
#include "base/heap.h"
#include "base/status.h"
#include "base/text.h"
#include "hostmem/heap.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is written, as snprintf counts. */
struct page {
    char *buffer;
    size_t bytes;
    size_t length;
};

static void page_write(struct page *page, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void page_write(struct page *page, const char *format, ...)
{
    size_t at = page->length < page->bytes ? page->length : page->bytes;
    va_list args;

    va_start(args, format);
    int length =
        vsnprintf(page->bytes > at ? page->buffer + at : NULL, page->bytes - at, format, args);
    va_end(args);
    page->length += length > 0 ? (size_t)length : 0;
}

static double as_mib(uint64_t bytes)
{
    return (double)bytes / (double)MIB;
}

static int block_compare(const void *a, const void *b)
{
    const acre_block_info *x = a, *y = b;

    if (x->stack != y->stack)
        return x->stack < y->stack ? -1 : 1;
    if (!x->stack && x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return 0;
}

/* Blocks of one place or of one size. */
struct holder {
    uint32_t stack;
    uint64_t bytes, count, block_bytes;
};

static int holder_compare(const void *a, const void *b)
{
    const struct holder *x = a, *y = b;

    return x->bytes == y->bytes ? 0 : x->bytes > y->bytes ? -1 : 1;
}

/* Sums live blocks up, into as many holders as there are blocks at most; how many. */
static size_t holders_sum(acre_cache_layout *layout, struct holder *holders)
{
    size_t count = 0;
    const acre_block_info *last = NULL;

    qsort(layout->blocks, layout->block_count, sizeof *layout->blocks, block_compare);
    for (uint64_t i = 0; i < layout->block_count; i++) {
        const acre_block_info *block = &layout->blocks[i];
        if (block->state != ACRE_BLOCK_LIVE)
            continue;
        if (!last || block_compare(last, block) != 0)
            holders[count++] = (struct holder){.stack = block->stack};
        holders[count - 1].bytes += block->bytes;
        holders[count - 1].block_bytes = block->bytes;
        holders[count - 1].count++;
        last = block;
    }
    qsort(holders, count, sizeof *holders, holder_compare);
    return count;
}

static void place_write(struct page *page, const acre_history *history, uint32_t index)
{
    const acre_stack *stack = &history->stacks[index];

    for (uint64_t i = 0; i < stack->frame_count && i < 3; i++) {
        acre_frame frame = {.line = 0};
        history->source.resolve(history->source.arg, stack->frames[i], &frame);
        page_write(page, "%s%s:%d %s", i ? " < " : "", frame.file, frame.line, frame.name);
    }
}

static void holder_write(struct page *page, const struct holder *holder,
                         const acre_history *history)
{
    page_write(page, "  %10.1f MiB in %llu block%s", as_mib(holder->bytes),
               (unsigned long long)holder->count, text_plural(holder->count));
    if (holder->stack && history && holder->stack < history->stack_count &&
        history->stacks[holder->stack].frame_count) {
        page_write(page, " from ");
        place_write(page, history, holder->stack);
    } else if (holder->stack == 0) {
        page_write(page, " of %.1f KiB", (double)holder->block_bytes / (double)KIB);
    }
    page_write(page, "\n");
}

static void summary_write(struct page *page, acre_hostmem *heap)
{
    acre_hostmem_stats stats = {.struct_size = sizeof stats};
    uint64_t limit = acre_cache_limit_get(heap->cache);

    acre_hostmem_stats_get(heap, &stats);
    page_write(page,
               "Host memory of Acre: %.1f MiB in %lld live block%s, %.1f MiB held from the "
               "system",
               as_mib((uint64_t)stats.cache.allocated_bytes.all.current),
               (long long)stats.cache.allocation.all.current,
               text_plural((uint64_t)stats.cache.allocation.all.current),
               as_mib((uint64_t)stats.cache.reserved_bytes.all.current));
    if (limit != ACRE_CACHE_NO_LIMIT)
        page_write(page, ", limit %.1f MiB", as_mib(limit));
    page_write(page, ".\n");
    if (stats.small_count)
        page_write(page, "  %10.1f MiB in slabs, which hold %lld small block%s of %.1f MiB\n",
                   as_mib((uint64_t)stats.slab_bytes), (long long)stats.small_count,
                   text_plural((uint64_t)stats.small_count), as_mib((uint64_t)stats.small_bytes));
}

int acre_hostmem_report(acre_hostmem *heap, unsigned count, char *buffer, size_t bytes)
{
    struct page page = {buffer, bytes, 0};
    acre_cache_layout *layout = NULL;
    acre_history *history = NULL;
    struct holder *holders = NULL;
    struct status_saved before;
    bool has_stacks = false;
    size_t found = 0;

    status_save(&before);
    summary_write(&page, heap);
    if (acre_cache_layout_create(heap->cache, &layout) == ACRE_OK)
        holders = heap_array(layout->block_count + 1, sizeof *holders);
    if (holders)
        found = holders_sum(layout, holders);
    for (size_t i = 0; i < found; i++)
        has_stacks |= holders[i].stack != 0;
    if (has_stacks && acre_cache_history_create(heap->cache, &history) != ACRE_OK)
        history = NULL;
    for (size_t i = 0; i < found && i < count; i++)
        holder_write(&page, &holders[i], history);
    if (found > count)
        page_write(&page, "  and %zu more\n", found - count);
    if (found && !has_stacks)
        page_write(&page, "  Record a history with stacks to see which lines hold them.\n");
    acre_history_destroy(history);
    acre_cache_layout_destroy(layout);
    heap_free(holders);
    status_restore(&before);
    return (int)page.length;
}
