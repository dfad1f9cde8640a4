/* SPDX-License-Identifier: MIT */
/* A store inside one process: a table, a lock, and a condition for those who wait. */
#include "base/heap.h"
#include "base/lock.h"
#include "base/status.h"
#include "symm/deadline.h"
#include "symm/store/store.h"
#include "symm/store/table.h"

struct local {
    acre_store store;
    struct lock lock;       /* guards the rest         */
    pthread_cond_t changed; /* signalled to all        */
    struct table table;
};

static acre_status local_call(acre_store *self, const struct message *request, int64_t deadline,
                              struct reply *reply)
{
    struct local *local = (struct local *)self;
    acre_status status;
    int late = 0;

    lock_take(&local->lock);
    while ((status = table_apply(&local->table, request, reply)) == ACRE_ERR_NOT_READY && !late)
        if (deadline == DEADLINE_NEVER)
            lock_wait(&local->lock, &local->changed);
        else
            late = lock_wait_ns(&local->lock, &local->changed, deadline_left_ns(deadline));
    if (status == ACRE_ERR_NOT_READY)
        status = store_fail_timeout(table_missing(&local->table, request));
    else if (status == ACRE_OK && verb_is_change(request->verb))
        pthread_cond_broadcast(&local->changed);
    lock_drop(&local->lock);
    if (status != ACRE_OK)
        reply_fini(reply);
    return status;
}

static void local_destroy(acre_store *self)
{
    struct local *local = (struct local *)self;

    table_fini(&local->table);
    pthread_cond_destroy(&local->changed);
    lock_fini(&local->lock);
    heap_free(local);
}

static const struct store_ops local_ops = {local_call, local_destroy};

ACRE_API acre_status acre_store_create_local(acre_store **out)
{
    if (!out)
        return status_fail(ACRE_ERR_INVALID, "acre_store_create_local: out is NULL");
    struct local *local = heap_zalloc(sizeof *local);
    if (!local)
        return ACRE_ERR_HOST_MEMORY;
    store_init(&local->store, &local_ops);
    lock_init(&local->lock, RANK_LEAF, "store");
    lock_condition_init(&local->changed);
    table_init(&local->table);
    *out = &local->store;
    return ACRE_OK;
}
