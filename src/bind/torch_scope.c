/* SPDX-License-Identifier: MIT */
/* An allocation may be asking a filter while another thread ends the scope. So
 * filters live in slots that stay, each with a lock that is held while the filter
 * is asked; a slot whose scope has ended says no. */
#include "bind/torch_scope.h"

#include "alloc/cxx_filter.h"

#include <pthread.h>

enum { SLOT_COUNT = 64 };

struct scope_slot {
    bool is_used;
    int device;
    acre_pool_id id;
    struct cxx_filter filter; /* a copy, while used */
};

static struct scope_slot slots[SLOT_COUNT];
static pthread_mutex_t slots_lock = PTHREAD_MUTEX_INITIALIZER; /* of all of them */

static bool torch_scope_ask(void *arg, void *stream)
{
    const struct scope_slot *slot = arg;

    pthread_mutex_lock(&slots_lock);
    bool passes = slot->is_used && cxx_filter_passes(&slot->filter, stream);
    pthread_mutex_unlock(&slots_lock);
    return passes;
}

static struct scope_slot *slot_take(int device, acre_pool_id id, const struct cxx_filter *filter)
{
    struct scope_slot *slot = NULL;

    pthread_mutex_lock(&slots_lock);
    for (int i = 0; i < SLOT_COUNT && !slot; i++)
        if (!slots[i].is_used)
            slot = &slots[i];
    if (slot) {
        *slot = (struct scope_slot){.is_used = true, .device = device, .id = id};
        if (filter)
            cxx_filter_copy(&slot->filter, filter);
    }
    pthread_mutex_unlock(&slots_lock);
    return slot;
}

static void slot_drop(struct scope_slot *slot)
{
    pthread_mutex_lock(&slots_lock);
    slot->is_used = false;
    struct cxx_filter filter = slot->filter;
    memset(&slot->filter, 0, sizeof slot->filter);
    pthread_mutex_unlock(&slots_lock);
    cxx_filter_drop(&filter);
}

static struct scope_slot *slot_find(int device, acre_pool_id id)
{
    struct scope_slot *slot = NULL;

    pthread_mutex_lock(&slots_lock);
    for (int i = 0; i < SLOT_COUNT && !slot; i++)
        if (slots[i].is_used && slots[i].device == device && slots[i].id.graph == id.graph &&
            slots[i].id.user == id.user)
            slot = &slots[i];
    pthread_mutex_unlock(&slots_lock);
    return slot;
}

/* ---- Uses that were never added -------------------------------------------------------- */

enum { MISS_COUNT = 256 };

/* Begins of one pool that failed before they added a use. PyTorch releases the pool for each of
 * them all the same, and those releases must not drop the uses of other graphs. The table is
 * fixed, because it is needed when host memory is short. */
struct scope_miss {
    uint64_t count; /* 0: the place is free */
    int device;
    acre_pool_id id;
};

static struct scope_miss misses[MISS_COUNT]; /* under slots_lock                         */
static bool is_miss_lost;                    /* one had no place: no pool ends any more  */

/* The place of a pool, or NULL. */
static struct scope_miss *miss_find(int device, acre_pool_id id)
{
    for (int i = 0; i < MISS_COUNT; i++)
        if (misses[i].count && misses[i].device == device && misses[i].id.graph == id.graph &&
            misses[i].id.user == id.user)
            return &misses[i];
    return NULL;
}

void torch_scope_miss(int device, acre_pool_id id)
{
    pthread_mutex_lock(&slots_lock);
    struct scope_miss *miss = miss_find(device, id);
    for (int i = 0; i < MISS_COUNT && !miss; i++)
        if (!misses[i].count)
            miss = &misses[i];
    if (miss)
        *miss = (struct scope_miss){miss->count + 1, device, id};
    else
        is_miss_lost = true;
    pthread_mutex_unlock(&slots_lock);
}

bool torch_scope_forgive(int device, acre_pool_id id)
{
    pthread_mutex_lock(&slots_lock);
    struct scope_miss *miss = miss_find(device, id);
    bool is_forgiven = miss || is_miss_lost;
    if (miss)
        miss->count--;
    pthread_mutex_unlock(&slots_lock);
    return is_forgiven;
}

/* ---- Scopes ------------------------------------------------------------------------------ */

acre_status torch_scope_begin(acre_cache *cache, int device, acre_pool_id id, const void *filter)
{
    acre_status status = acre_pool_create(cache, id, NULL); /* or one use more */

    if (status != ACRE_OK) {
        torch_scope_miss(device, id);
        return status;
    }
    struct scope_slot *slot = slot_take(device, id, filter);
    acre_pool_filter through = {.kind = ACRE_POOL_CALLBACK, .fn = torch_scope_ask, .arg = slot};
    status = slot ? acre_pool_begin(cache, id, &through) : ACRE_ERR_LIMIT;
    if (status != ACRE_OK && slot)
        slot_drop(slot);
    return status; /* the use stays: PyTorch is not told of a failure, and drops it later */
}

acre_status torch_scope_end(acre_cache *cache, int device, acre_pool_id id)
{
    struct scope_slot *slot = slot_find(device, id);
    acre_status status = acre_pool_end(cache, id);

    if (status == ACRE_OK && slot)
        slot_drop(slot);
    return status;
}

void torch_scope_fork(bool is_before)
{
    if (is_before)
        pthread_mutex_lock(&slots_lock);
    else
        pthread_mutex_unlock(&slots_lock);
}
