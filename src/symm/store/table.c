/* SPDX-License-Identifier: MIT */
/* Contents of a store. An entry is a key with its value, or a queue. */
#include "symm/store/table.h"

#include "base/heap.h"
#include "base/list.h"
#include "base/status.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct store_entry {
    struct rbnode node; /* in table->keys or table->queues  */
    acre_blob key;
    acre_blob value;    /* keys only                        */
    struct list values; /* queues only: struct element      */
    uint64_t length;    /* of the queue                     */
};

/* One value in a queue. */
struct element {
    struct list link;
    acre_blob value;
};

static int key_order(const acre_blob *a, const void *data, size_t bytes)
{
    int order = memcmp(a->data, data, a->bytes < bytes ? a->bytes : bytes);

    return order ? order : (a->bytes > bytes) - (a->bytes < bytes);
}

static inline bool entry_less(const struct store_entry *a, const struct store_entry *b)
{
    return key_order(&a->key, b->key.data, b->key.bytes) < 0;
}

static inline bool entry_before(const struct store_entry *a, const struct bytes *key)
{
    return key_order(&a->key, key->data, key->size) < 0;
}

RBTREE_DEFINE(entries, struct store_entry, node, struct bytes, entry_less, entry_before);

static struct store_entry *entry_find(const struct rbtree *tree, const struct bytes *key)
{
    struct store_entry *entry = entries_lower_bound(tree, key);

    return entry && key_order(&entry->key, key->data, key->size) == 0 ? entry : NULL;
}

static void entry_destroy(struct store_entry *entry)
{
    LIST_FOR_EACH_SAFE(it, after, &entry->values) {
        struct element *element = CONTAINER_OF(it, struct element, link);
        acre_blob_free(&element->value);
        heap_free(element);
    }
    acre_blob_free(&entry->key);
    acre_blob_free(&entry->value);
    heap_free(entry);
}

/* An entry that is in no tree yet. */
static acre_status entry_create(const struct bytes *key, struct store_entry **out)
{
    struct store_entry *entry = heap_zalloc(sizeof *entry);

    if (!entry)
        return ACRE_ERR_HOST_MEMORY;
    list_init(&entry->values);
    acre_status status = blob_copy(&entry->key, key->data, key->size);
    if (status != ACRE_OK) {
        heap_free(entry);
        return status;
    }
    *out = entry;
    return ACRE_OK;
}

void table_init(struct table *table)
{
    rbtree_init(&table->keys);
    rbtree_init(&table->queues);
    table->key_count = 0;
}

static void tree_fini(struct rbtree *tree)
{
    for (struct store_entry *entry; (entry = entries_first(tree));) {
        entries_remove(tree, entry);
        entry_destroy(entry);
    }
}

void table_fini(struct table *table)
{
    tree_fini(&table->keys);
    tree_fini(&table->queues);
}

/* ---- Values ----------------------------------------------------------------------- */

/* What setting a key takes, made before anything changes. */
struct setting {
    acre_blob value;
    struct store_entry *entry; /* in no tree; for a key that is new */
};

static acre_status setting_make(const struct table *table, const struct bytes *key,
                                const struct bytes *bytes, struct setting *out)
{
    acre_status status = blob_copy(&out->value, bytes->data, bytes->size);

    if (status == ACRE_OK && !entry_find(&table->keys, key))
        status = entry_create(key, &out->entry);
    return status;
}

/* Gives a key its value; what was there before stays for setting_fini. The same key may have come
 * in the same request, so that it is new no more. */
static void setting_apply(struct table *table, const struct bytes *key, struct setting *setting)
{
    struct store_entry *entry = entry_find(&table->keys, key);

    if (!entry) {
        entry = setting->entry;
        setting->entry = NULL;
        entries_insert(&table->keys, entry);
        table->key_count++;
    }
    acre_blob before = entry->value;
    entry->value = setting->value;
    setting->value = before;
}

static void setting_fini(struct setting *setting)
{
    acre_blob_free(&setting->value);
    if (setting->entry)
        entry_destroy(setting->entry);
}

static acre_status value_set(struct table *table, const struct bytes *key,
                             const struct bytes *bytes)
{
    struct setting setting = {.entry = NULL};
    acre_status status = setting_make(table, key, bytes, &setting);

    if (status == ACRE_OK)
        setting_apply(table, key, &setting);
    setting_fini(&setting);
    return status;
}

static void key_remove(struct table *table, struct store_entry *entry)
{
    entries_remove(&table->keys, entry);
    table->key_count--;
    entry_destroy(entry);
}

/* Sets all keys or none. */
static acre_status apply_set(struct table *table, const struct message *request)
{
    uint32_t pairs = request->count / 2;
    struct setting *settings = heap_array(pairs, sizeof *settings);
    acre_status status = settings ? ACRE_OK : ACRE_ERR_HOST_MEMORY;

    for (uint32_t i = 0; i < pairs && status == ACRE_OK; i++)
        status =
            setting_make(table, &request->items[2 * i], &request->items[2 * i + 1], &settings[i]);
    for (uint32_t i = 0; i < pairs && status == ACRE_OK; i++)
        setting_apply(table, &request->items[2 * i], &settings[i]);
    for (uint32_t i = 0; i < pairs && settings; i++)
        setting_fini(&settings[i]);
    heap_free(settings);
    return status;
}

static acre_status apply_get(struct table *table, const struct message *request,
                             struct reply *reply)
{
    if (table_missing(table, request))
        return ACRE_ERR_NOT_READY;
    for (uint32_t i = 0; i < request->count; i++) {
        struct store_entry *entry = entry_find(&table->keys, &request->items[i]);
        acre_status status =
            reply_add(reply, (struct bytes){entry->value.data, entry->value.bytes});
        if (status != ACRE_OK)
            return status;
    }
    return ACRE_OK;
}

static acre_status number_read(const struct store_entry *entry, int64_t *out)
{
    const char *text = entry->value.data, *digits = text + (*text == '-');
    uint64_t number;

    if (!text_parse_unsigned(digits, entry->value.bytes - (size_t)(digits - text), &number) ||
        number > INT64_MAX)
        return status_fail(ACRE_ERR_FORMAT, "store: key \"%s\" holds no number to add to",
                           (const char *)entry->key.data);
    *out = *text == '-' ? -(int64_t)number : (int64_t)number;
    return ACRE_OK;
}

static acre_status apply_add(struct table *table, const struct message *request,
                             struct reply *reply)
{
    struct store_entry *entry = entry_find(&table->keys, &request->items[0]);
    int64_t sum = 0;
    char text[24];
    acre_status status = entry ? number_read(entry, &sum) : ACRE_OK;

    if (status != ACRE_OK)
        return status;
    if (__builtin_add_overflow(sum, request->number, &sum))
        return status_fail(ACRE_ERR_RANGE, "store: adding %" PRId64 " overflows", request->number);
    int length = snprintf(text, sizeof text, "%" PRId64, sum);
    status = value_set(table, &request->items[0], &(struct bytes){text, (size_t)length});
    reply->number = sum;
    return status;
}

static acre_status apply_compare_set(struct table *table, const struct message *request,
                                     struct reply *reply)
{
    struct store_entry *entry = entry_find(&table->keys, &request->items[0]);
    const struct bytes *expected = &request->items[1], *desired = &request->items[2];
    bool is_equal =
        entry ? key_order(&entry->value, expected->data, expected->size) == 0 : expected->size == 0;
    struct bytes answer = is_equal ? *desired : *expected;

    if (!is_equal && entry)
        answer = (struct bytes){entry->value.data, entry->value.bytes};
    acre_status status = reply_add(reply, answer);
    if (status == ACRE_OK && is_equal)
        status = value_set(table, &request->items[0], desired);
    return status;
}

static acre_status apply_append(struct table *table, const struct message *request)
{
    struct store_entry *entry = entry_find(&table->keys, &request->items[0]);
    const struct bytes *more = &request->items[1];

    if (!entry)
        return value_set(table, &request->items[0], more);
    size_t bytes = entry->value.bytes + more->size;
    if (bytes > VALUE_BYTES_MAX)
        return status_fail(ACRE_ERR_INVALID,
                           "store: key \"%s\" would grow to %zu bytes; at most "
                           "%u are kept",
                           (const char *)entry->key.data, bytes, VALUE_BYTES_MAX);
    char *data = heap_realloc(entry->value.data, bytes + 1);
    if (!data)
        return ACRE_ERR_HOST_MEMORY;
    if (more->size)
        memcpy(data + entry->value.bytes, more->data, more->size);
    data[bytes] = 0;
    entry->value = (acre_blob){data, bytes};
    return ACRE_OK;
}

static acre_status apply_delete(struct table *table, const struct message *request,
                                struct reply *reply)
{
    struct store_entry *entry = entry_find(&table->keys, &request->items[0]);

    reply->number = entry ? 1 : 0;
    if (entry)
        key_remove(table, entry);
    return ACRE_OK;
}

static acre_status apply_list(struct table *table, const struct message *request,
                              struct reply *reply)
{
    const struct bytes *prefix = &request->items[0];
    acre_status status = ACRE_OK;

    for (struct store_entry *entry = entries_lower_bound(&table->keys, prefix);
         entry && status == ACRE_OK; entry = entries_next(entry)) {
        if (entry->key.bytes < prefix->size ||
            (prefix->size && memcmp(entry->key.data, prefix->data, prefix->size) != 0))
            break;
        status = reply_add(reply, (struct bytes){(const char *)entry->key.data + prefix->size,
                                                 entry->key.bytes - prefix->size});
    }
    return status;
}

/* ---- Queues ----------------------------------------------------------------------- */

static acre_status apply_push(struct table *table, const struct message *request)
{
    struct store_entry *queue = entry_find(&table->queues, &request->items[0]);
    struct element *element = heap_zalloc(sizeof *element);
    acre_status status =
        element ? blob_copy(&element->value, request->items[1].data, request->items[1].size)
                : ACRE_ERR_HOST_MEMORY;

    if (status == ACRE_OK && !queue) {
        status = entry_create(&request->items[0], &queue);
        if (status == ACRE_OK)
            entries_insert(&table->queues, queue);
    }
    if (status != ACRE_OK) {
        if (element)
            acre_blob_free(&element->value);
        heap_free(element);
        return status;
    }
    list_push_back(&queue->values, &element->link);
    queue->length++;
    return ACRE_OK;
}

static acre_status apply_pop(struct table *table, const struct message *request,
                             struct reply *reply)
{
    struct store_entry *queue = entry_find(&table->queues, &request->items[0]);

    if (!queue)
        return ACRE_ERR_NOT_READY;
    struct element *first = CONTAINER_OF(queue->values.next, struct element, link);
    acre_status status = reply_add(reply, (struct bytes){first->value.data, first->value.bytes});
    if (status != ACRE_OK)
        return status;
    list_remove(&first->link);
    acre_blob_free(&first->value);
    heap_free(first);
    if (--queue->length == 0) {
        entries_remove(&table->queues, queue);
        entry_destroy(queue);
    }
    return ACRE_OK;
}

/* ---- Requests --------------------------------------------------------------------- */

const struct bytes *table_missing(struct table *table, const struct message *request)
{
    const struct rbtree *tree = request->verb == VERB_POP ? &table->queues : &table->keys;

    for (uint32_t i = 0; i < request->count; i++)
        if (!entry_find(tree, &request->items[i]))
            return &request->items[i];
    return NULL;
}

acre_status table_apply(struct table *table, const struct message *request, struct reply *reply)
{
    struct store_entry *queue;

    switch (request->verb) {
    case VERB_SET:
        return apply_set(table, request);
    case VERB_GET:
        return apply_get(table, request, reply);
    case VERB_ADD:
        return apply_add(table, request, reply);
    case VERB_COMPARE_SET:
        return apply_compare_set(table, request, reply);
    case VERB_CHECK:
        reply->number = !table_missing(table, request);
        return ACRE_OK;
    case VERB_WAIT:
        return table_missing(table, request) ? ACRE_ERR_NOT_READY : ACRE_OK;
    case VERB_DELETE:
        return apply_delete(table, request, reply);
    case VERB_COUNT:
        reply->number = (int64_t)table->key_count;
        return ACRE_OK;
    case VERB_APPEND:
        return apply_append(table, request);
    case VERB_PUSH:
        return apply_push(table, request);
    case VERB_POP:
        return apply_pop(table, request, reply);
    case VERB_LENGTH:
        queue = entry_find(&table->queues, &request->items[0]);
        reply->number = queue ? (int64_t)queue->length : 0;
        return ACRE_OK;
    case VERB_LIST:
        return apply_list(table, request, reply);
    case VERB_PING:
        reply->number = request->number;
        return ACRE_OK;
    }
    return status_fail(ACRE_ERR_FORMAT, "store: there is no verb %d", (int)request->verb);
}
