/* SPDX-License-Identifier: MIT */
/* An allocation may be asking a filter while another thread ends the scope. So
 * filters live in slots that stay, with a lock that is held while a filter is asked;
 * a slot whose scope has ended says no. PyTorch's filters throw when the driver gives
 * no answer. The exception passes through here on its way to PyTorch, so this file is
 * compiled for exceptions: what SLOTS_HELD locks is unlocked then, too. */
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

static void slots_drop(pthread_mutex_t *const *lock)
{
    pthread_mutex_unlock(*lock);
}

static pthread_mutex_t *slots_take(void)
{
    pthread_mutex_lock(&slots_lock);
    return &slots_lock;
}

/* Holds the lock until the end of the block, however that is left. */
#define SLOTS_HELD()                                                                               \
    __attribute__((cleanup(slots_drop), unused)) pthread_mutex_t *const held = slots_take()

static bool torch_scope_ask(void *arg, void *stream)
{
    const struct scope_slot *slot = arg;

    SLOTS_HELD();
    return slot->is_used && cxx_filter_passes(&slot->filter, stream);
}

static struct scope_slot *slot_take(int device, acre_pool_id id, const struct cxx_filter *filter)
{
    struct scope_slot *slot = NULL;

    SLOTS_HELD();
    for (int i = 0; i < SLOT_COUNT && !slot; i++)
        if (!slots[i].is_used)
            slot = &slots[i];
    if (slot) {
        *slot = (struct scope_slot){.device = device, .id = id};
        if (filter)
            cxx_filter_copy(&slot->filter, filter);
        slot->is_used = true;
    }
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

/* ---- Begins that failed ------------------------------------------------------------------ */

enum { MISS_COUNT = 256 };

/* Begins of one pool that failed on one thread. Who was not told ends and releases each of them
 * all the same, and that must neither end the scopes of others nor drop the uses of other graphs.
 * The table is fixed, because it is needed when host memory is short. */
struct scope_miss {
    uint64_t end_count; /* ends to come that end nothing         */
    uint64_t use_count; /* releases to come that drop nothing    */
    int device;
    acre_pool_id id;
    pthread_t thread; /* that begins and ends; any may release */
};

static struct scope_miss misses[MISS_COUNT]; /* under slots_lock                         */
static bool is_miss_lost;                    /* one had no place: no pool ends any more  */

static bool miss_is_free(const struct scope_miss *miss)
{
    return !miss->end_count && !miss->use_count;
}

static bool miss_is_of(const struct scope_miss *miss, int device, acre_pool_id id)
{
    return miss->device == device && miss->id.graph == id.graph && miss->id.user == id.user;
}

/* The place of a pool and the calling thread, or NULL. */
static struct scope_miss *miss_find_own(int device, acre_pool_id id)
{
    for (int i = 0; i < MISS_COUNT; i++)
        if (!miss_is_free(&misses[i]) && miss_is_of(&misses[i], device, id) &&
            pthread_equal(misses[i].thread, pthread_self()))
            return &misses[i];
    return NULL;
}

void torch_scope_miss(int device, acre_pool_id id, bool has_use)
{
    pthread_mutex_lock(&slots_lock);
    struct scope_miss *miss = miss_find_own(device, id);
    for (int i = 0; i < MISS_COUNT && !miss; i++)
        if (miss_is_free(&misses[i]))
            miss = &misses[i];
    if (miss)
        *miss = (struct scope_miss){miss->end_count + 1, miss->use_count + !has_use, device, id,
                                    pthread_self()};
    else
        is_miss_lost |= !has_use;
    pthread_mutex_unlock(&slots_lock);
}

bool torch_scope_forgive(int device, acre_pool_id id)
{
    pthread_mutex_lock(&slots_lock);
    bool is_forgiven = is_miss_lost, is_found = false;
    for (int i = 0; i < MISS_COUNT && !is_found; i++) {
        is_found = misses[i].use_count && miss_is_of(&misses[i], device, id);
        misses[i].use_count -= is_found;
    }
    is_forgiven |= is_found;
    pthread_mutex_unlock(&slots_lock);
    return is_forgiven;
}

/* Takes so many of the ends to come that end nothing; how many there were. */
static uint64_t miss_take_ends(int device, acre_pool_id id, uint64_t most)
{
    pthread_mutex_lock(&slots_lock);
    struct scope_miss *miss = miss_find_own(device, id);
    uint64_t count = miss ? miss->end_count : 0;
    if (miss)
        miss->end_count -= count < most ? count : most;
    pthread_mutex_unlock(&slots_lock);
    return count;
}

/* ---- Scopes ------------------------------------------------------------------------------ */

acre_status torch_scope_begin(acre_cache *cache, int device, acre_pool_id id, const void *filter,
                              bool *out_has_use)
{
    acre_status status = acre_pool_create(cache, id, NULL); /* or one use more */

    *out_has_use = status == ACRE_OK;
    if (status != ACRE_OK)
        return status;
    struct scope_slot *slot = slot_take(device, id, filter);
    acre_pool_filter through = {.kind = ACRE_POOL_CALLBACK, .fn = torch_scope_ask, .arg = slot};
    status = slot ? acre_pool_begin(cache, id, &through)
                  : acre_error_set(ACRE_ERR_LIMIT, 0, "64 pools have open scopes; end some first");
    if (status == ACRE_OK)
        miss_take_ends(device, id, UINT64_MAX); /* of captures that never began */
    else if (slot)
        slot_drop(slot);
    return status;
}

acre_status torch_scope_end(acre_cache *cache, int device, acre_pool_id id)
{
    if (miss_take_ends(device, id, 1))
        return ACRE_OK;
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
