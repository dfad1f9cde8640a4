/* SPDX-License-Identifier: MIT */
/* What is asked of a store, and what it answers, as a value and as bytes.
 *
 * A request or reply has one shape: a verb, a status, two numbers and a list of byte strings.
 * These bytes travel to a server, and are also the records of a file.
 *
 *     offset 0   u32  0x31524341 ("ACR1")
 *            4   u8   verb           5  u8[3]  0
 *            8   i32  status        12  u32    number of items
 *           16   i64  number        24  u64    milliseconds to wait, 0: for ever
 *           32   items: u32 length, bytes
 *
 * All numbers are little endian. Lengths are checked before anything is believed.
 */
#ifndef SRC_SYMM_MESSAGE_H
#define SRC_SYMM_MESSAGE_H

#include <acre/store.h>

#define MESSAGE_MAGIC 0x31524341u
#define MESSAGE_HEAD 32u
#define MESSAGE_BYTES_MAX (16u << 20)
#define MESSAGE_ITEMS_MAX 65536u
#define KEY_BYTES_MAX 8192u
#define VALUE_BYTES_MAX (8u << 20)

enum verb {
    VERB_SET = 1,     /* key, value, key, value, ...                        */
    VERB_GET,         /* keys; reply: values. Waits                         */
    VERB_ADD,         /* key, number; reply: number                         */
    VERB_COMPARE_SET, /* key, expected, desired; reply: value               */
    VERB_CHECK,       /* keys; reply: number 1 when all are there           */
    VERB_WAIT,        /* keys. Waits                                        */
    VERB_DELETE,      /* key; reply: number removed                         */
    VERB_COUNT,       /* reply: number of keys                              */
    VERB_APPEND,      /* key, value                                         */
    VERB_PUSH,        /* key, value                                         */
    VERB_POP,         /* key; reply: value. Waits                           */
    VERB_LENGTH,      /* key; reply: number                                 */
    VERB_LIST,        /* prefix or ""; reply: keys, sorted                  */
    VERB_PING,        /* number; reply: the same                            */
    VERB_LAST = VERB_PING
};

struct bytes {
    const void *data;
    size_t size;
};

/* A request. Decoded ones borrow their items from the buffer they came from. */
struct message {
    enum verb verb;
    acre_status status;
    int64_t number;
    uint64_t wait_ms;
    uint32_t count;
    struct bytes *items;
};

/* An answer, which owns its items. Zero is an empty one. */
struct reply {
    acre_status status;
    int64_t number;
    uint32_t count;
    acre_blob *items;
    bool is_bounded; /* it has to travel: at most MESSAGE_BYTES_MAX */
    size_t bytes;    /* of all items                                */
};

void reply_fini(struct reply *reply);
/* Adds a copy of bytes. Errors: ACRE_ERR_HOST_MEMORY, ACRE_ERR_INVALID (more than can travel). */
acre_status reply_add(struct reply *reply, struct bytes bytes);
acre_status blob_copy(acre_blob *out, const void *data, size_t bytes);

/* The request as bytes. Errors: ACRE_ERR_INVALID (too long), ACRE_ERR_HOST_MEMORY. */
acre_status message_encode(const struct message *message, acre_blob *out);
acre_status reply_encode(const struct reply *reply, acre_blob *out);

/* Reads a request; its item list is to be freed with message_fini. Verifies that the
 * number of items fits the verb. Errors: ACRE_ERR_FORMAT, ACRE_ERR_HOST_MEMORY. */
acre_status message_decode(const void *data, size_t bytes, struct message *out);
void message_fini(struct message *message);
acre_status reply_decode(const void *data, size_t bytes, struct reply *out);

/* Whether the request changes a store. */
bool verb_is_change(enum verb verb);

#endif
