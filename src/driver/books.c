/* SPDX-License-Identifier: MIT */
#include "driver/books.h"

#include "base/heap.h"
#include "base/status.h"

static inline bool range_less(const struct book_range *a, const struct book_range *b)
{
    return a->base < b->base;
}

/* Ranges that end at or before the key come before it. */
static inline bool range_before(const struct book_range *range, const uintptr_t *key)
{
    return range->base + (range->bytes - 1) < *key;
}

RBTREE_DEFINE(range_set, struct book_range, node, uintptr_t, range_less, range_before);

static const char *const origin_words[] = {
    [RANGE_ALLOC] = "a device allocation",
    [RANGE_HOST] = "a page-locked allocation",
    [RANGE_REGISTERED] = "a registered range",
    [RANGE_RESERVED] = "a reserved range",
    [RANGE_OPENED] = "opened memory of another process",
    [RANGE_POOLED] = "an allocation of a pool",
};

static const char *const object_words[] = {
    [OBJECT_MEMORY] = "a handle of physical memory",
    [OBJECT_MULTICAST] = "a multicast handle",
    [OBJECT_GRAPH] = "a graph",
    [OBJECT_GREEN] = "a green context",
};

void books_init(struct books *books)
{
    lock_init(&books->lock, RANK_LEAF, "books of a driver");
    rbtree_init(&books->ranges);
    ptrmap_init(&books->objects);
    books->taken_count = 0;
}

void books_fini(struct books *books)
{
    struct ptrmap_entry *entry;
    size_t at = 0;

    while (!rbtree_empty(&books->ranges)) {
        struct book_range *range = range_set_first(&books->ranges);

        range_set_remove(&books->ranges, range);
        heap_free(range);
    }
    while ((entry = ptrmap_next(&books->objects, &at))) {
        struct object *object = entry->value;

        if (object->fini)
            object->fini(object);
        heap_free(object);
    }
    ptrmap_fini(&books->objects);
    lock_fini(&books->lock);
}

/* The range that holds an address, or NULL. */
static struct book_range *find_locked(const struct books *books, const void *pointer)
{
    uintptr_t key = (uintptr_t)pointer;
    struct book_range *range = range_set_lower_bound(&books->ranges, &key);

    return range && range->base <= key ? range : NULL;
}

/* The first range that shares a byte with [base, base + bytes), or NULL. */
static struct book_range *overlap_locked(const struct books *books, uintptr_t base, size_t bytes)
{
    struct book_range *range = range_set_lower_bound(&books->ranges, &base);

    return range && range->base <= base + (bytes - 1) ? range : NULL;
}

acre_status books_put(struct books *books, const struct book_range *given)
{
    struct book_range *range = heap_zalloc(sizeof *range), *there;
    acre_status status = ACRE_OK;

    if (!range)
        return ACRE_ERR_HOST_MEMORY;
    *range = *given;
    range->open_count = 1;
    lock_take(&books->lock);
    there = overlap_locked(books, range->base, range->bytes);
    if (!there) {
        range_set_insert(&books->ranges, range);
        range = NULL;
    } else if (there->origin == RANGE_OPENED && range->origin == RANGE_OPENED &&
               there->base == range->base && there->bytes == range->bytes) {
        there->open_count++;
    } else {
        status = status_fail(ACRE_ERR_EXISTS, "%zu bytes at %p overlap %s of %zu bytes at %p",
                             range->bytes, (void *)range->base, origin_words[there->origin],
                             there->bytes, (void *)there->base);
    }
    lock_drop(&books->lock);
    heap_free(range);
    return status;
}

acre_status books_take(struct books *books, enum range_origin origin, int device, const void *base,
                       struct book_range *out)
{
    struct book_range *range;
    acre_status status = ACRE_OK;

    lock_take(&books->lock);
    range = find_locked(books, base);
    if (!range || range->base != (uintptr_t)base || range->origin != origin ||
        (range->device >= 0 && range->device != device)) {
        status = status_fail(ACRE_ERR_INVALID, "%p is not the base of %s of device %d", base,
                             origin_words[origin], device);
    } else {
        range->open_count--;
        *out = *range;
        out->entry = NULL;
        if (range->open_count == 0) {
            range_set_remove(&books->ranges, range);
            out->entry = range;
        }
    }
    lock_drop(&books->lock);
    return status;
}

acre_status books_range_settle(struct books *books, const struct book_range *taken,
                               acre_status status)
{
    struct book_range *range = taken->entry;
    struct status_saved why;

    if (status == ACRE_OK) {
        heap_free(range);
        return ACRE_OK;
    }
    if (!range) { /* it is open elsewhere, or was until now */
        status_save(&why);
        books_put(books, taken);
        status_restore(&why);
        return status;
    }
    lock_take(&books->lock);
    if (!overlap_locked(books, range->base, range->bytes)) {
        range->open_count = 1;
        range_set_insert(&books->ranges, range);
        range = NULL;
    }
    lock_drop(&books->lock);
    heap_free(range); /* somebody has entered it anew */
    return status;
}

bool books_find(struct books *books, const void *pointer, struct book_range *out)
{
    struct book_range *range;

    lock_take(&books->lock);
    range = find_locked(books, pointer);
    if (range)
        *out = *range;
    lock_drop(&books->lock);
    return range != NULL;
}

bool books_any(struct books *books, struct book_range *out)
{
    struct book_range *range;

    lock_take(&books->lock);
    range = range_set_first(&books->ranges);
    if (range)
        *out = *range;
    lock_drop(&books->lock);
    return range != NULL;
}

acre_status books_object_put(struct books *books, struct object *object)
{
    acre_status status;

    lock_take(&books->lock);
    status = ptrmap_reserve(&books->objects, books->taken_count + 1);
    if (status == ACRE_OK)
        status = ptrmap_put(&books->objects, object, object);
    lock_drop(&books->lock);
    return status;
}

static acre_status object_find_locked(struct books *books, enum object_kind kind,
                                      const void *pointer)
{
    const struct object *object = ptrmap_get(&books->objects, pointer);

    if (object && object->kind == kind)
        return ACRE_OK;
    return status_fail(ACRE_ERR_INVALID, "%p is not %s: unknown, or given back already", pointer,
                       object_words[kind]);
}

acre_status books_object_check(struct books *books, enum object_kind kind, const void *object)
{
    acre_status status;

    lock_take(&books->lock);
    status = object_find_locked(books, kind, object);
    lock_drop(&books->lock);
    return status;
}

acre_status books_object_take(struct books *books, enum object_kind kind, const void *object)
{
    acre_status status;

    lock_take(&books->lock);
    status = object_find_locked(books, kind, object);
    if (status == ACRE_OK && ptrmap_take(&books->objects, object))
        books->taken_count++;
    lock_drop(&books->lock);
    return status;
}

acre_status books_object_settle(struct books *books, struct object *object, acre_status status)
{
    lock_take(&books->lock);
    books->taken_count--;
    if (status != ACRE_OK)
        ptrmap_put(&books->objects, object, object); /* cannot fail: its room was kept */
    lock_drop(&books->lock);
    if (status == ACRE_OK)
        heap_free(object);
    return status;
}

void books_count(struct books *books, uint64_t *out_ranges, uint64_t *out_objects)
{
    lock_take(&books->lock);
    *out_ranges = 0;
    for (struct book_range *range = range_set_first(&books->ranges); range;
         range = range_set_next(range))
        ++*out_ranges;
    *out_objects = books->objects.count;
    lock_drop(&books->lock);
}
