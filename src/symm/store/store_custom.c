/* SPDX-License-Identifier: MIT */
/* A store that somebody else keeps: requests become calls of the user's functions.
 *
 * The user's functions know one key at a time. Requests with several keys call them once per
 * key; requests that need more than the functions offer are refused by name.
 */
#include "base/heap.h"
#include "base/status.h"
#include "base/struct_size.h"
#include "symm/deadline.h"
#include "symm/store/store.h"

#include <string.h>

struct custom {
    acre_store store;
    acre_store_functions functions;
};

/* What is left until the deadline; 0 means for ever, so at least 1. */
static uint64_t left_ms(int64_t deadline)
{
    if (deadline == DEADLINE_NEVER)
        return 0;
    return (uint64_t)(deadline_left_ns(deadline) + NS_PER_MS) / NS_PER_MS;
}

/* Whether a key is there, or its value; waits where the verb does. */
static acre_status key_ask(const struct custom *custom, enum verb verb, const char *key,
                           int64_t deadline, struct reply *reply)
{
    const acre_store_functions *functions = &custom->functions;
    acre_blob blob = {NULL, 0};
    bool is_there = false;
    acre_status status;

    if (verb == VERB_CHECK || verb == VERB_DELETE) {
        status = verb == VERB_CHECK ? functions->check(functions->self, key, &is_there)
                                    : functions->remove(functions->self, key, &is_there);
        if (status == ACRE_OK)
            reply->number = verb == VERB_CHECK ? (reply->number && is_there) : is_there;
        return status;
    }
    status = functions->get(functions->self, key, left_ms(deadline), &blob);
    if (status == ACRE_OK && !blob.data)
        status = ACRE_ERR_FORMAT;
    if (status == ACRE_OK && verb == VERB_GET)
        status = reply_add(reply, (struct bytes){blob.data, blob.bytes});
    acre_blob_free(&blob);
    return status;
}

/* One key of a request, and the value behind it where there is one. */
static acre_status key_run(const struct custom *custom, const struct message *request, uint32_t at,
                           int64_t deadline, struct reply *reply)
{
    const acre_store_functions *functions = &custom->functions;
    const struct bytes *item = &request->items[at];
    char *key = heap_alloc(item->size + 1);

    if (!key)
        return ACRE_ERR_HOST_MEMORY;
    memcpy(key, item->data, item->size);
    key[item->size] = 0;
    acre_status status = request->verb == VERB_SET
                             ? functions->set(functions->self, key, item[1].data, item[1].size)
                             : key_ask(custom, request->verb, key, deadline, reply);
    if (status == ACRE_ERR_TIMEOUT)
        status = store_fail_timeout(item);
    else if (status != ACRE_OK)
        status = status_fail(status,
                             "store: the functions of the user's store failed for key "
                             "\"%.200s\"",
                             key);
    heap_free(key);
    return status;
}

static acre_status custom_call(acre_store *self, const struct message *request, int64_t deadline,
                               struct reply *reply)
{
    const struct custom *custom = (const struct custom *)self;
    uint32_t step = request->verb == VERB_SET ? 2 : 1;
    acre_status status = ACRE_OK;

    if (request->verb == VERB_PING) {
        reply->number = request->number;
        return ACRE_OK;
    }
    if (request->verb != VERB_SET && request->verb != VERB_GET && request->verb != VERB_CHECK &&
        request->verb != VERB_WAIT && request->verb != VERB_DELETE)
        return status_fail(ACRE_ERR_UNSUPPORTED,
                           "store: the functions of the user's store offer "
                           "set, get, wait, check and delete, not request %d",
                           (int)request->verb);
    reply->number = request->verb == VERB_CHECK;
    for (uint32_t i = 0; status == ACRE_OK && i < request->count; i += step)
        status = key_run(custom, request, i, deadline, reply);
    if (status != ACRE_OK)
        reply_fini(reply);
    return status;
}

static void custom_destroy(acre_store *self)
{
    struct custom *custom = (struct custom *)self;

    if (custom->functions.destroy)
        custom->functions.destroy(custom->functions.self);
    heap_free(custom);
}

static const struct store_ops custom_ops = {custom_call, custom_destroy};

ACRE_API acre_status acre_store_create_custom(const acre_store_functions *functions,
                                              acre_store **out)
{
    acre_store_functions own;
    acre_status status =
        STRUCT_CUT("acre_store_create_custom", acre_store_functions, functions, &own);

    if (status != ACRE_OK)
        return status;
    if (!out)
        return status_fail(ACRE_ERR_INVALID, "acre_store_create_custom: out is NULL");
    if (!own.set || !own.get || !own.check || !own.remove)
        return status_fail(ACRE_ERR_INVALID, "acre_store_create_custom: set, get, check and "
                                             "remove are required");
    struct custom *custom = heap_zalloc(sizeof *custom);
    if (!custom)
        return ACRE_ERR_HOST_MEMORY;
    store_init(&custom->store, &custom_ops);
    custom->functions = own;
    *out = &custom->store;
    return ACRE_OK;
}

ACRE_API acre_status acre_blob_set(acre_blob *blob, const void *data, size_t bytes)
{
    acre_blob copy;

    if (!blob || (!data && bytes))
        return status_fail(ACRE_ERR_INVALID, "acre_blob_set: an argument is NULL");
    acre_status status = blob_copy(&copy, data ? data : "", bytes);
    if (status != ACRE_OK)
        return status;
    acre_blob_free(blob);
    *blob = copy;
    return ACRE_OK;
}
