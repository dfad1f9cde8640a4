/* SPDX-License-Identifier: MIT */
/* The contents of a store: keys with values, and queues, both sorted by name.
 *
 * Every kind of store that holds contents has one and hands it requests. Not thread-safe:
 * the owner's lock is held around every call.
 */
#ifndef SRC_SYMM_TABLE_H
#define SRC_SYMM_TABLE_H

#include "base/rbtree.h"
#include "symm/store/message.h"

struct table {
    struct rbtree keys;   /* of struct store_entry                        */
    struct rbtree queues; /* of struct store_entry, values in their lists */
    uint64_t key_count;
};

void table_init(struct table *table);
void table_fini(struct table *table);

/* Does what a decoded or checked request asks and fills in the answer, which is empty
 * before. ACRE_ERR_NOT_READY: it has to wait, nothing was changed, and no failure is
 * recorded. Other errors leave the table as it was. */
acre_status table_apply(struct table *table, const struct message *request,
                        struct reply *reply);
/* The first key of a waiting request that is not there, or NULL. */
const struct bytes *table_missing(struct table *table, const struct message *request);

#endif
