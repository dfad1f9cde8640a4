/* SPDX-License-Identifier: MIT */
/* Requests and replies as bytes and back; see message.h for the layout. */
#include "symm/store/message.h"

#include "base/heap.h"
#include "base/status.h"
#include "base/text.h"

#include <endian.h>
#include <string.h>

acre_status blob_copy(acre_blob *out, const void *data, size_t bytes)
{
    char *copy = heap_alloc(bytes + 1);

    if (!copy)
        return ACRE_ERR_HOST_MEMORY;
    if (bytes)
        memcpy(copy, data, bytes);
    copy[bytes] = 0;
    *out = (acre_blob){copy, bytes};
    return ACRE_OK;
}

ACRE_API void acre_blob_free(acre_blob *blob)
{
    if (!blob)
        return;
    heap_free(blob->data);
    *blob = (acre_blob){NULL, 0};
}

void reply_fini(struct reply *reply)
{
    for (uint32_t i = 0; i < reply->count; i++)
        acre_blob_free(&reply->items[i]);
    heap_free(reply->items);
    *reply = (struct reply){0};
}

acre_status reply_add(struct reply *reply, struct bytes bytes)
{
    if (reply->is_bounded && bytes.size > MESSAGE_BYTES_MAX - reply->bytes)
        return status_fail(ACRE_ERR_INVALID,
                           "store: an answer of more than %u bytes is too large; ask for fewer "
                           "keys at once",
                           MESSAGE_BYTES_MAX);
    if ((reply->count & (reply->count - 1)) == 0) {
        size_t room = reply->count ? reply->count * 2 : 1;
        acre_blob *items = heap_realloc(reply->items, room * sizeof *items);

        if (!items)
            return ACRE_ERR_HOST_MEMORY;
        reply->items = items;
    }
    acre_status status = blob_copy(&reply->items[reply->count], bytes.data, bytes.size);
    if (status == ACRE_OK) {
        reply->count++;
        reply->bytes += bytes.size;
    }
    return status;
}

bool verb_is_change(enum verb verb)
{
    return verb == VERB_SET || verb == VERB_ADD || verb == VERB_COMPARE_SET ||
           verb == VERB_DELETE || verb == VERB_APPEND || verb == VERB_PUSH || verb == VERB_POP;
}

/* ---- Writing ---------------------------------------------------------------------- */

static uint8_t *message_put32(uint8_t *at, uint32_t x)
{
    x = htole32(x);
    memcpy(at, &x, 4);
    return at + 4;
}

static uint8_t *message_put64(uint8_t *at, uint64_t x)
{
    x = htole64(x);
    memcpy(at, &x, 8);
    return at + 8;
}

static uint8_t *put_head(uint8_t *at, uint8_t verb, acre_status status, uint32_t count,
                         int64_t number, uint64_t wait_ms)
{
    at = message_put32(at, MESSAGE_MAGIC);
    at = message_put32(at, verb);
    at = message_put32(at, (uint32_t)status);
    at = message_put32(at, count);
    at = message_put64(at, (uint64_t)number);
    return message_put64(at, wait_ms);
}

static uint8_t *put_item(uint8_t *at, const void *data, size_t bytes)
{
    at = message_put32(at, (uint32_t)bytes);
    if (bytes)
        memcpy(at, data, bytes);
    return at + bytes;
}

static acre_status encode_room(size_t bytes, uint32_t count, acre_blob *out)
{
    if (bytes > MESSAGE_BYTES_MAX || count > MESSAGE_ITEMS_MAX)
        return status_fail(ACRE_ERR_INVALID,
                           "store: a message of %zu bytes and %u items is too "
                           "large; at most %u bytes and %u items travel at once",
                           bytes, count, MESSAGE_BYTES_MAX, MESSAGE_ITEMS_MAX);
    out->data = heap_alloc(bytes);
    out->bytes = bytes;
    return out->data ? ACRE_OK : ACRE_ERR_HOST_MEMORY;
}

acre_status message_encode(const struct message *message, acre_blob *out)
{
    size_t bytes = MESSAGE_HEAD;

    for (uint32_t i = 0; i < message->count; i++)
        bytes += 4 + message->items[i].size;
    acre_status status = encode_room(bytes, message->count, out);
    if (status != ACRE_OK)
        return status;
    uint8_t *at = put_head(out->data, (uint8_t)message->verb, message->status, message->count,
                           message->number, message->wait_ms);
    for (uint32_t i = 0; i < message->count; i++)
        at = put_item(at, message->items[i].data, message->items[i].size);
    return ACRE_OK;
}

acre_status reply_encode(const struct reply *reply, acre_blob *out)
{
    size_t bytes = MESSAGE_HEAD;

    for (uint32_t i = 0; i < reply->count; i++)
        bytes += 4 + reply->items[i].bytes;
    acre_status status = encode_room(bytes, reply->count, out);
    if (status != ACRE_OK)
        return status;
    uint8_t *at = put_head(out->data, 0, reply->status, reply->count, reply->number, 0);
    for (uint32_t i = 0; i < reply->count; i++)
        at = put_item(at, reply->items[i].data, reply->items[i].bytes);
    return ACRE_OK;
}

/* ---- Reading ---------------------------------------------------------------------- */

/* What is still to be read; every step checks that it is there. */
struct message_reader {
    const uint8_t *at;
    size_t left;
};

static uint32_t message_get32(const uint8_t *at)
{
    uint32_t x;

    memcpy(&x, at, 4);
    return le32toh(x);
}

static uint64_t message_get64(const uint8_t *at)
{
    uint64_t x;

    memcpy(&x, at, 8);
    return le64toh(x);
}

static acre_status read_head(struct message_reader *reader, struct message *out)
{
    const uint8_t *at = reader->at;

    if (reader->left < MESSAGE_HEAD || message_get32(at) != MESSAGE_MAGIC)
        return status_fail(ACRE_ERR_FORMAT, "store: %zu bytes are not a message of a store",
                           reader->left);
    *out = (struct message){.verb = (enum verb)message_get32(at + 4),
                            .status = (acre_status)(int32_t)message_get32(at + 8),
                            .count = message_get32(at + 12),
                            .number = (int64_t)message_get64(at + 16),
                            .wait_ms = message_get64(at + 24)};
    if (out->count > MESSAGE_ITEMS_MAX || out->count > (reader->left - MESSAGE_HEAD) / 4)
        return status_fail(ACRE_ERR_FORMAT, "store: a message of %zu bytes claims %u items",
                           reader->left, out->count);
    reader->at += MESSAGE_HEAD;
    reader->left -= MESSAGE_HEAD;
    return ACRE_OK;
}

static acre_status read_item(struct message_reader *reader, struct bytes *out)
{
    if (reader->left < 4 || message_get32(reader->at) > reader->left - 4)
        return status_fail(ACRE_ERR_FORMAT, "store: an item of a message is cut short");
    *out = (struct bytes){reader->at + 4, message_get32(reader->at)};
    reader->at += 4 + out->size;
    reader->left -= 4 + out->size;
    return ACRE_OK;
}

/* Keys are texts: not empty, no zero byte, of bounded length. */
static bool is_key(const struct bytes *item)
{
    return item->size > 0 && item->size <= KEY_BYTES_MAX && !memchr(item->data, 0, item->size);
}

/* Whether number and kind of the items fit the verb. */
static bool is_sensible(const struct message *message)
{
    uint32_t count = message->count;

    for (uint32_t i = 0; i < count; i++)
        if (message->items[i].size > VALUE_BYTES_MAX)
            return false;
    switch (message->verb) {
    case VERB_SET:
        for (uint32_t i = 0; i < count; i += 2)
            if (!is_key(&message->items[i]))
                return false;
        return count > 0 && count % 2 == 0;
    case VERB_GET:
    case VERB_CHECK:
    case VERB_WAIT:
        for (uint32_t i = 0; i < count; i++)
            if (!is_key(&message->items[i]))
                return false;
        return true;
    case VERB_COMPARE_SET:
        return count == 3 && is_key(&message->items[0]);
    case VERB_APPEND:
    case VERB_PUSH:
        return count == 2 && is_key(&message->items[0]);
    case VERB_ADD:
    case VERB_DELETE:
    case VERB_POP:
    case VERB_LENGTH:
        return count == 1 && is_key(&message->items[0]);
    case VERB_LIST:
        return count == 1;
    case VERB_COUNT:
    case VERB_PING:
        return count == 0;
    }
    return false;
}

acre_status message_decode(const void *data, size_t bytes, struct message *out)
{
    struct message_reader reader = {data, bytes};
    struct message message;
    acre_status status = read_head(&reader, &message);

    if (status != ACRE_OK)
        return status;
    message.items = heap_array(message.count + 1, sizeof *message.items);
    if (!message.items)
        return ACRE_ERR_HOST_MEMORY;
    for (uint32_t i = 0; i < message.count && status == ACRE_OK; i++)
        status = read_item(&reader, &message.items[i]);
    if (status == ACRE_OK && (reader.left || !is_sensible(&message)))
        status = status_fail(ACRE_ERR_FORMAT,
                             "store: a message with verb %d and %u item%s makes "
                             "no sense",
                             (int)message.verb, message.count, text_plural(message.count));
    if (status != ACRE_OK)
        heap_free(message.items);
    else
        *out = message;
    return status;
}

void message_fini(struct message *message)
{
    heap_free(message->items);
    message->items = NULL;
}

acre_status reply_decode(const void *data, size_t bytes, struct reply *out)
{
    struct message_reader reader = {data, bytes};
    struct message head;
    struct reply reply = {0};
    struct bytes item;
    acre_status status = read_head(&reader, &head);

    reply.status = head.status;
    reply.number = head.number;
    for (uint32_t i = 0; status == ACRE_OK && i < head.count; i++) {
        status = read_item(&reader, &item);
        if (status == ACRE_OK)
            status = reply_add(&reply, item);
    }
    if (status == ACRE_OK && (reader.left || head.verb != 0))
        status =
            status_fail(ACRE_ERR_FORMAT, "store: an answer has %zu bytes too many", reader.left);
    if (status != ACRE_OK)
        reply_fini(&reply);
    else
        *out = reply;
    return status;
}
