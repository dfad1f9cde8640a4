/* SPDX-License-Identifier: MIT */
/* What every kind of store has: one call that takes a request and gives the answer.
 *
 * The public calls of store.c check their arguments, make a request of them and hand it
 * over. A kind embeds struct acre_store as its first member.
 */
#ifndef SRC_SYMM_STORE_H
#define SRC_SYMM_STORE_H

#include "base/process/fork.h"
#include "symm/store/message.h"

#include <stdatomic.h>

struct store_ops {
    /* Answers a request that is in order. A waiting one ends at the deadline with
     * ACRE_ERR_TIMEOUT and a recorded sentence. reply is empty and stays so on failure. */
    acre_status (*call)(acre_store *self, const struct message *request, int64_t deadline,
                        struct reply *reply);
    void (*destroy)(acre_store *self);
};

struct acre_store {
    const struct store_ops *ops;
    unsigned generation;         /* fork_generation() of the process that opened it */
    _Atomic uint64_t timeout_ms; /* of waiting calls; 0: for ever                   */
};

#define STORE_TIMEOUT_MS 300000u

static inline void store_init(acre_store *store, const struct store_ops *ops)
{
    store->ops = ops;
    store->generation = fork_generation();
    atomic_init(&store->timeout_ms, STORE_TIMEOUT_MS);
}

/* Asks the store, unless this is a child of the process that opened it: the two would share a
 * connection, or the lock of a file. Errors: those of the kind; ACRE_ERR_FORKED. */
acre_status store_call(acre_store *store, const struct message *request, int64_t deadline,
                       struct reply *reply);
/* The public calls with a deadline of the caller's instead of the store's timeout. Each tries
 * at least once, also when the deadline has passed. Keys and values must be in order. */
acre_status store_get_until(acre_store *store, const char *key, int64_t deadline,
                            acre_blob *out);
acre_status store_set_until(acre_store *store, const char *key, const void *value, size_t bytes,
                            int64_t deadline);
acre_status store_add_until(acre_store *store, const char *key, int64_t amount, int64_t deadline,
                            int64_t *out_sum);
acre_status store_check_until(acre_store *store, const char *key, int64_t deadline, bool *out);
acre_status store_delete_until(acre_store *store, const char *key, int64_t deadline);
/* Records that a waiting request ran out of time, naming the key. */
acre_status store_fail_timeout(const struct bytes *key);

#endif
