/* SPDX-License-Identifier: MIT */
/* A view of another store: keys get a prefix and "/" on the way in. */
#include "base/heap.h"
#include "base/status.h"
#include "symm/store/store.h"

#include <string.h>

struct prefix {
    acre_store store;
    acre_store *inner; /* not owned                        */
    char *text;        /* prefix and "/", owned            */
    size_t length;
};

/* Whether item i of a request is a key (or the prefix of a list). */
static bool is_key_at(enum verb verb, uint32_t i)
{
    if (verb == VERB_SET)
        return i % 2 == 0;
    return verb == VERB_GET || verb == VERB_CHECK || verb == VERB_WAIT || i == 0;
}

/* A copy of the request with longer keys; all of them lie in one piece behind the items. */
static acre_status message_prefixed(const struct prefix *prefix, const struct message *from,
                                    struct message *out)
{
    size_t bytes = 0;

    for (uint32_t i = 0; i < from->count; i++)
        if (is_key_at(from->verb, i)) {
            if (from->items[i].size + prefix->length > KEY_BYTES_MAX)
                return status_fail(ACRE_ERR_INVALID,
                                   "store: key and prefix \"%s\" have more "
                                   "than %u bytes",
                                   prefix->text, KEY_BYTES_MAX);
            bytes += from->items[i].size + prefix->length;
        }
    *out = *from;
    out->items = heap_alloc(from->count * sizeof *out->items + bytes + 1);
    if (!out->items)
        return ACRE_ERR_HOST_MEMORY;
    char *at = (char *)(out->items + from->count);
    for (uint32_t i = 0; i < from->count; i++) {
        out->items[i] = from->items[i];
        if (!is_key_at(from->verb, i))
            continue;
        out->items[i] = (struct bytes){at, prefix->length + from->items[i].size};
        memcpy(at, prefix->text, prefix->length);
        memcpy(at + prefix->length, from->items[i].data, from->items[i].size);
        at += out->items[i].size;
    }
    return ACRE_OK;
}

static acre_status prefix_call(acre_store *self, const struct message *request, int64_t deadline,
                               struct reply *reply)
{
    struct prefix *prefix = (struct prefix *)self;
    struct message longer;
    acre_status status = message_prefixed(prefix, request, &longer);

    if (status != ACRE_OK)
        return status;
    status = store_call(prefix->inner, &longer, deadline, reply);
    heap_free(longer.items);
    return status;
}

static void prefix_destroy(acre_store *self)
{
    struct prefix *prefix = (struct prefix *)self;

    heap_free(prefix->text);
    heap_free(prefix);
}

static const struct store_ops prefix_ops = {prefix_call, prefix_destroy};

ACRE_API acre_status acre_store_create_prefix(acre_store *inner, const char *prefix,
                                              acre_store **out)
{
    if (!inner || !prefix || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_store_create_prefix: an argument is NULL");
    size_t length = strlen(prefix);
    struct prefix *view = heap_zalloc(sizeof *view);
    char *text = heap_alloc(length + 2);
    if (!view || !text) {
        heap_free(view);
        heap_free(text);
        return ACRE_ERR_HOST_MEMORY;
    }
    memcpy(text, prefix, length);
    memcpy(text + length, "/", 2);
    store_init(&view->store, &prefix_ops);
    view->inner = inner;
    view->text = text;
    view->length = length + 1;
    *out = &view->store;
    return ACRE_OK;
}
