/* SPDX-License-Identifier: MIT */
#include "bind/openreg_table.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

enum { BUCKETS = 256 };

struct table_entry {
    struct table_entry *next; /* in its bucket */
    const void *handle;
    enum table_kind kind;
    int device;
};

/* Each bucket has its own lock: threads meet seldom. */
static struct bucket {
    pthread_mutex_t mutex; /* guards the list and its entries */
    struct table_entry *first;
} buckets[BUCKETS] = {[0 ... BUCKETS - 1] = {PTHREAD_MUTEX_INITIALIZER, NULL}};

static struct bucket *bucket_lock(const void *handle)
{
    uint64_t mixed = (uint64_t)(uintptr_t)handle * UINT64_C(0x9E3779B97F4A7C15);
    struct bucket *bucket = &buckets[mixed >> 56];

    pthread_mutex_lock(&bucket->mutex);
    return bucket;
}

struct table_entry *table_prepare(void)
{
    return calloc(1, sizeof(struct table_entry));
}

void table_cancel(struct table_entry *entry)
{
    free(entry);
}

void table_put(struct table_entry *entry, const void *handle, enum table_kind kind, int device)
{
    struct bucket *bucket = bucket_lock(handle);

    entry->handle = handle;
    entry->kind = kind;
    entry->device = device;
    entry->next = bucket->first;
    bucket->first = entry;
    pthread_mutex_unlock(&bucket->mutex);
}

int table_find(const void *handle, enum table_kind kind)
{
    struct bucket *bucket;
    int device = -1;

    if (!handle)
        return -1;
    bucket = bucket_lock(handle);
    for (struct table_entry *entry = bucket->first; entry; entry = entry->next)
        if (entry->handle == handle && entry->kind == kind)
            device = entry->device;
    pthread_mutex_unlock(&bucket->mutex);
    return device;
}

void table_remove(const void *handle)
{
    struct bucket *bucket = bucket_lock(handle);
    struct table_entry **link = &bucket->first, *gone;

    while (*link && (*link)->handle != handle)
        link = &(*link)->next;
    gone = *link;
    if (gone)
        *link = gone->next;
    pthread_mutex_unlock(&bucket->mutex);
    free(gone);
}
