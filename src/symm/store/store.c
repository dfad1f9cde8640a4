/* SPDX-License-Identifier: MIT */
/* The public calls of stores: arguments are checked and become requests. */
#include "symm/store/store.h"

#include "base/heap.h"
#include "base/status.h"
#include "base/text.h"
#include "symm/deadline.h"

#include <stdio.h>
#include <string.h>

acre_status store_fail_timeout(const struct bytes *key)
{
    return status_fail(ACRE_ERR_TIMEOUT,
                       "store: the deadline passed while waiting for key "
                       "\"%.*s\"; the rank that sets it is late or gone",
                       key->size > 200 ? 200 : (int)key->size, (const char *)key->data);
}

acre_status store_call(acre_store *store, const struct message *request, int64_t deadline,
                       struct reply *reply)
{
    if (store->generation == fork_generation())
        return store->ops->call(store, request, deadline, reply);
    return status_fail(ACRE_ERR_FORKED, "store: it was opened before fork and does not work in "
                                        "the child, which opens one of its own");
}

static acre_status key_check(const char *call, acre_store *store, const char *key)
{
    if (!store || !key)
        return status_fail(ACRE_ERR_INVALID, "%s: %s is NULL", call, store ? "key" : "store");
    size_t length = strnlen(key, KEY_BYTES_MAX + 1);
    if (length == 0 || length > KEY_BYTES_MAX)
        return status_fail(ACRE_ERR_INVALID, "%s: a key has 1 to %u bytes", call, KEY_BYTES_MAX);
    return ACRE_OK;
}

static acre_status value_check(const char *call, const void *value, size_t bytes)
{
    if (!value && bytes)
        return status_fail(ACRE_ERR_INVALID, "%s: value is NULL", call);
    if (bytes > VALUE_BYTES_MAX)
        return status_fail(ACRE_ERR_INVALID,
                           "%s: a value of %zu bytes is too long; at most %u "
                           "are kept",
                           call, bytes, VALUE_BYTES_MAX);
    return ACRE_OK;
}

static int64_t store_deadline(acre_store *store)
{
    return deadline_in_ms(atomic_load_explicit(&store->timeout_ms, memory_order_relaxed));
}

/* A request that gives one number; out may be NULL. */
static acre_status ask_until(acre_store *store, const struct message *request, int64_t deadline,
                             int64_t *out)
{
    struct reply reply = {0};
    acre_status status = store_call(store, request, deadline, &reply);

    if (status == ACRE_OK) {
        if (out)
            *out = reply.number;
        reply_fini(&reply);
    }
    return status;
}

static acre_status store_ask(acre_store *store, const struct message *request, int64_t *out)
{
    return ask_until(store, request, store_deadline(store), out);
}

/* A request that gives nothing but its status. */
static acre_status store_tell(acre_store *store, const struct message *request)
{
    return store_ask(store, request, NULL);
}

/* A request that gives count values, which pass to the caller. */
static acre_status store_fetch(acre_store *store, const struct message *request, int64_t deadline,
                               acre_blob *out, size_t count)
{
    struct reply reply = {0};
    acre_status status = store_call(store, request, deadline, &reply);

    if (status != ACRE_OK)
        return status;
    if (reply.count != count) {
        status = status_fail(ACRE_ERR_FORMAT, "store: an answer has %u value%s instead of %zu",
                             reply.count, text_plural(reply.count), count);
        reply_fini(&reply);
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        out[i] = reply.items[i];
        reply.items[i] = (acre_blob){NULL, 0};
    }
    reply_fini(&reply);
    return ACRE_OK;
}

static struct bytes text_bytes_of(const char *text)
{
    return (struct bytes){text, strlen(text)};
}

/* ---- Store objects ---------------------------------------------------------------- */

ACRE_API void acre_store_destroy(acre_store *store)
{
    /* In a child it is the parent's, and maybe in the middle of a change. */
    if (store && store->generation == fork_generation())
        store->ops->destroy(store);
}

ACRE_API acre_status acre_store_set_timeout(acre_store *store, uint64_t timeout_ms)
{
    if (!store)
        return status_fail(ACRE_ERR_INVALID, "acre_store_set_timeout: store is NULL");
    atomic_store_explicit(&store->timeout_ms, timeout_ms, memory_order_relaxed);
    return ACRE_OK;
}

static acre_status open_tcp(const char *address, acre_store **out)
{
    const char *colon = strrchr(address, ':');
    char host[256];
    uint64_t port;

    if (!colon || colon == address || (size_t)(colon - address) >= sizeof host ||
        !text_parse_unsigned(colon + 1, strlen(colon + 1), &port) || port == 0 || port > 65535)
        return status_fail(ACRE_ERR_CONFIG, "acre_store_open: \"tcp:%s\" is not tcp:HOST:PORT",
                           address);
    memcpy(host, address, (size_t)(colon - address));
    host[colon - address] = 0;
    return acre_store_connect(host, (uint16_t)port, NULL, 0, out);
}

ACRE_API acre_status acre_store_open(const char *address, acre_store **out)
{
    if (!address || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_store_open: %s is NULL",
                           address ? "out" : "address");
    if (strcmp(address, "local") == 0)
        return acre_store_create_local(out);
    if (strncmp(address, "file:", 5) == 0)
        return acre_store_open_file(address + 5, 0, out);
    if (strncmp(address, "tcp:", 4) == 0)
        return open_tcp(address + 4, out);
    return status_fail(ACRE_ERR_CONFIG,
                       "acre_store_open: \"%s\" is no store; say local, "
                       "file:PATH or tcp:HOST:PORT",
                       address);
}

/* ---- With the deadline of a rendezvous ---------------------------------------------- */

acre_status store_set_until(acre_store *store, const char *key, const void *value, size_t bytes,
                            int64_t deadline)
{
    struct bytes items[] = {text_bytes_of(key), {value, bytes}};

    return ask_until(store, &(struct message){.verb = VERB_SET, .count = 2, .items = items},
                     deadline, NULL);
}

acre_status store_add_until(acre_store *store, const char *key, int64_t amount, int64_t deadline,
                            int64_t *out_sum)
{
    struct bytes item = text_bytes_of(key);

    return ask_until(
        store, &(struct message){.verb = VERB_ADD, .number = amount, .count = 1, .items = &item},
        deadline, out_sum);
}

acre_status store_check_until(acre_store *store, const char *key, int64_t deadline, bool *out)
{
    struct bytes item = text_bytes_of(key);
    int64_t number = 0;
    acre_status status =
        ask_until(store, &(struct message){.verb = VERB_CHECK, .count = 1, .items = &item},
                  deadline, &number);

    if (status == ACRE_OK)
        *out = number != 0;
    return status;
}

acre_status store_delete_until(acre_store *store, const char *key, int64_t deadline)
{
    struct bytes item = text_bytes_of(key);

    return ask_until(store, &(struct message){.verb = VERB_DELETE, .count = 1, .items = &item},
                     deadline, NULL);
}

/* ---- One key ---------------------------------------------------------------------- */

ACRE_API acre_status acre_store_set(acre_store *store, const char *key, const void *value,
                                    size_t bytes)
{
    acre_status status = key_check("acre_store_set", store, key);

    if (status == ACRE_OK)
        status = value_check("acre_store_set", value, bytes);
    if (status != ACRE_OK)
        return status;
    struct bytes items[] = {text_bytes_of(key), {value, bytes}};
    return store_tell(store, &(struct message){.verb = VERB_SET, .count = 2, .items = items});
}

acre_status store_get_until(acre_store *store, const char *key, int64_t deadline, acre_blob *out)
{
    struct bytes item = text_bytes_of(key);

    return store_fetch(store, &(struct message){.verb = VERB_GET, .count = 1, .items = &item},
                       deadline, out, 1);
}

ACRE_API acre_status acre_store_get(acre_store *store, const char *key, acre_blob *out)
{
    acre_status status = key_check("acre_store_get", store, key);

    if (status == ACRE_OK && !out)
        status = status_fail(ACRE_ERR_INVALID, "acre_store_get: out is NULL");
    return status == ACRE_OK ? store_get_until(store, key, store_deadline(store), out) : status;
}

ACRE_API acre_status acre_store_add(acre_store *store, const char *key, int64_t amount,
                                    int64_t *out_sum)
{
    acre_status status = key_check("acre_store_add", store, key);
    int64_t sum;

    if (status != ACRE_OK)
        return status;
    struct bytes item = text_bytes_of(key);
    status = store_ask(
        store, &(struct message){.verb = VERB_ADD, .number = amount, .count = 1, .items = &item},
        &sum);
    if (status == ACRE_OK && out_sum)
        *out_sum = sum;
    return status;
}

ACRE_API acre_status acre_store_compare_set(acre_store *store, const char *key,
                                            const void *expected, size_t expected_bytes,
                                            const void *desired, size_t desired_bytes,
                                            acre_blob *out)
{
    acre_status status = key_check("acre_store_compare_set", store, key);
    acre_blob value;

    if (status == ACRE_OK)
        status = value_check("acre_store_compare_set", expected, expected_bytes);
    if (status == ACRE_OK)
        status = value_check("acre_store_compare_set", desired, desired_bytes);
    if (status != ACRE_OK)
        return status;
    struct bytes items[] = {
        text_bytes_of(key), {expected, expected_bytes}, {desired, desired_bytes}};
    status =
        store_fetch(store, &(struct message){.verb = VERB_COMPARE_SET, .count = 3, .items = items},
                    store_deadline(store), &value, 1);
    if (status != ACRE_OK)
        return status;
    if (out)
        *out = value;
    else
        acre_blob_free(&value);
    return ACRE_OK;
}

ACRE_API acre_status acre_store_delete(acre_store *store, const char *key, bool *out_removed)
{
    acre_status status = key_check("acre_store_delete", store, key);
    int64_t removed;

    if (status != ACRE_OK)
        return status;
    struct bytes item = text_bytes_of(key);
    status = store_ask(store, &(struct message){.verb = VERB_DELETE, .count = 1, .items = &item},
                       &removed);
    if (status == ACRE_OK && out_removed)
        *out_removed = removed != 0;
    return status;
}

/* A key and a value, for append and push. */
static acre_status tell_pair(const char *call, enum verb verb, acre_store *store, const char *key,
                             const void *value, size_t bytes)
{
    acre_status status = key_check(call, store, key);

    if (status == ACRE_OK)
        status = value_check(call, value, bytes);
    if (status != ACRE_OK)
        return status;
    struct bytes items[] = {text_bytes_of(key), {value, bytes}};
    return store_tell(store, &(struct message){.verb = verb, .count = 2, .items = items});
}

ACRE_API acre_status acre_store_append(acre_store *store, const char *key, const void *value,
                                       size_t bytes)
{
    return tell_pair("acre_store_append", VERB_APPEND, store, key, value, bytes);
}

ACRE_API acre_status acre_store_push(acre_store *store, const char *key, const void *value,
                                     size_t bytes)
{
    return tell_pair("acre_store_push", VERB_PUSH, store, key, value, bytes);
}

ACRE_API acre_status acre_store_pop(acre_store *store, const char *key, acre_blob *out)
{
    acre_status status = key_check("acre_store_pop", store, key);

    if (status == ACRE_OK && !out)
        status = status_fail(ACRE_ERR_INVALID, "acre_store_pop: out is NULL");
    if (status != ACRE_OK)
        return status;
    struct bytes item = text_bytes_of(key);
    return store_fetch(store, &(struct message){.verb = VERB_POP, .count = 1, .items = &item},
                       store_deadline(store), out, 1);
}

ACRE_API acre_status acre_store_length(acre_store *store, const char *key, uint64_t *out)
{
    acre_status status = key_check("acre_store_length", store, key);
    int64_t length;

    if (status == ACRE_OK && !out)
        status = status_fail(ACRE_ERR_INVALID, "acre_store_length: out is NULL");
    if (status != ACRE_OK)
        return status;
    struct bytes item = text_bytes_of(key);
    status = store_ask(store, &(struct message){.verb = VERB_LENGTH, .count = 1, .items = &item},
                       &length);
    if (status == ACRE_OK)
        *out = (uint64_t)length;
    return status;
}

/* ---- Several keys ----------------------------------------------------------------- */

/* Checks keys and makes items of them, to be freed; each is followed by stride - 1 others. */
static acre_status items_make(const char *call, acre_store *store, const char *const *keys,
                              size_t count, size_t stride, struct bytes **out)
{
    acre_status status = ACRE_OK;

    if (!store || (!keys && count) || count * stride > MESSAGE_ITEMS_MAX)
        return status_fail(ACRE_ERR_INVALID, "%s: store or keys are NULL, or more than %zu keys",
                           call, (size_t)MESSAGE_ITEMS_MAX / stride);
    struct bytes *items = heap_array(count * stride + 1, sizeof *items);
    if (!items)
        return ACRE_ERR_HOST_MEMORY;
    for (size_t i = 0; i < count && status == ACRE_OK; i++) {
        status = key_check(call, store, keys[i]);
        if (status == ACRE_OK)
            items[i * stride] = text_bytes_of(keys[i]);
    }
    if (status != ACRE_OK)
        heap_free(items);
    else
        *out = items;
    return status;
}

ACRE_API acre_status acre_store_check(acre_store *store, const char *const *keys, size_t count,
                                      bool *out)
{
    struct bytes *items;
    int64_t number;
    acre_status status = items_make("acre_store_check", store, keys, count, 1, &items);

    if (status != ACRE_OK)
        return status;
    status = store_ask(
        store, &(struct message){.verb = VERB_CHECK, .count = (uint32_t)count, .items = items},
        &number);
    heap_free(items);
    if (status == ACRE_OK && out)
        *out = number != 0;
    return status;
}

ACRE_API acre_status acre_store_wait(acre_store *store, const char *const *keys, size_t count,
                                     uint64_t timeout_ms)
{
    struct bytes *items;
    struct reply reply = {0};
    acre_status status = items_make("acre_store_wait", store, keys, count, 1, &items);

    if (status != ACRE_OK)
        return status;
    int64_t deadline = timeout_ms ? deadline_in_ms(timeout_ms) : store_deadline(store);
    status = store_call(
        store, &(struct message){.verb = VERB_WAIT, .count = (uint32_t)count, .items = items},
        deadline, &reply);
    heap_free(items);
    reply_fini(&reply);
    return status;
}

ACRE_API acre_status acre_store_multi_set(acre_store *store, const char *const *keys,
                                          const void *const *values, const size_t *bytes,
                                          size_t count)
{
    struct bytes *items;
    acre_status status = items_make("acre_store_multi_set", store, keys, count, 2, &items);

    if (status != ACRE_OK)
        return status;
    for (size_t i = 0; i < count && status == ACRE_OK; i++) {
        status = value_check("acre_store_multi_set", values[i], bytes[i]);
        items[2 * i + 1] = (struct bytes){values[i], bytes[i]};
    }
    if (status == ACRE_OK && count > 0)
        status = store_tell(
            store,
            &(struct message){.verb = VERB_SET, .count = (uint32_t)count * 2, .items = items});
    heap_free(items);
    return status;
}

ACRE_API acre_status acre_store_multi_get(acre_store *store, const char *const *keys, size_t count,
                                          acre_blob *out)
{
    struct bytes *items;
    acre_status status = items_make("acre_store_multi_get", store, keys, count, 1, &items);

    if (status != ACRE_OK)
        return status;
    status = store_fetch(
        store, &(struct message){.verb = VERB_GET, .count = (uint32_t)count, .items = items},
        store_deadline(store), out, count);
    heap_free(items);
    return status;
}

/* ---- The whole store -------------------------------------------------------------- */

ACRE_API acre_status acre_store_count(acre_store *store, uint64_t *out)
{
    int64_t count;

    if (!store || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_store_count: an argument is NULL");
    acre_status status = store_ask(store, &(struct message){.verb = VERB_COUNT}, &count);
    if (status == ACRE_OK)
        *out = (uint64_t)count;
    return status;
}

ACRE_API acre_status acre_store_list(acre_store *store, void (*each)(void *arg, const char *key),
                                     void *arg)
{
    struct bytes all = {"", 0};
    struct reply reply = {0};

    if (!store || !each)
        return status_fail(ACRE_ERR_INVALID, "acre_store_list: an argument is NULL");
    acre_status status =
        store_call(store, &(struct message){.verb = VERB_LIST, .count = 1, .items = &all},
                   store_deadline(store), &reply);
    if (status != ACRE_OK)
        return status;
    for (uint32_t i = 0; i < reply.count; i++)
        each(arg, reply.items[i].data);
    reply_fini(&reply);
    return ACRE_OK;
}

ACRE_API acre_status acre_store_barrier(acre_store *store, const char *key, uint64_t count)
{
    char counter[KEY_BYTES_MAX + 32], last[KEY_BYTES_MAX + 32];
    const char *wait = last;
    acre_status status = key_check("acre_store_barrier", store, key);
    int64_t came;

    if (status != ACRE_OK)
        return status;
    snprintf(counter, sizeof counter, "%s/num_members", key);
    snprintf(last, sizeof last, "%s/last_member", key);
    status = acre_store_add(store, counter, 1, &came);
    if (status != ACRE_OK)
        return status;
    if ((uint64_t)came > count)
        return status_fail(ACRE_ERR_STATE,
                           "acre_store_barrier: %llu caller%s passed \"%s\" before, "
                           "which is all; use another key",
                           (unsigned long long)count, text_plural(count), key);
    if ((uint64_t)came == count)
        return acre_store_set(store, last, "1", 1);
    status = acre_store_wait(store, &wait, 1, 0);
    if (status == ACRE_ERR_TIMEOUT && acre_store_add(store, counter, 0, &came) == ACRE_OK)
        status = status_fail(ACRE_ERR_TIMEOUT,
                             "acre_store_barrier: %lld of %llu callers came to "
                             "\"%s\" before the deadline",
                             (long long)came, (unsigned long long)count, key);
    return status;
}

ACRE_API acre_status acre_store_ping(acre_store *store, uint64_t number, uint64_t *out)
{
    int64_t answer;

    if (!store || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_store_ping: an argument is NULL");
    acre_status status =
        store_ask(store, &(struct message){.verb = VERB_PING, .number = (int64_t)number}, &answer);
    if (status == ACRE_OK)
        *out = (uint64_t)answer;
    return status;
}
