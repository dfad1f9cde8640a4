/* SPDX-License-Identifier: MIT */
/* Requests, replies and frames of any bytes: never a crash or a leak; what is accepted is
 * the same again after it was written and read, and a table survives it. */
#include "base/heap.h"
#include "symm/store/frame.h"
#include "symm/store/table.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

static void try_request(const uint8_t *data, size_t size)
{
    struct message message;
    struct reply reply = {0};
    struct table table;
    acre_blob again;

    if (message_decode(data, size, &message) != ACRE_OK)
        return;
    FUZZ_EXPECT(message_encode(&message, &again) == ACRE_OK);
    FUZZ_EXPECT(again.bytes == size && memcmp(again.data, data, size) == 0);
    acre_blob_free(&again);
    table_init(&table);
    table_apply(&table, &message, &reply);
    reply_fini(&reply);
    table_apply(&table, &message, &reply);
    reply_fini(&reply);
    table_fini(&table);
    message_fini(&message);
}

static void try_reply(const uint8_t *data, size_t size)
{
    struct reply reply;

    if (reply_decode(data, size, &reply) == ACRE_OK)
        reply_fini(&reply);
}

static void try_frame(const uint8_t *data, size_t size)
{
    struct session session = {{0}, 0, 0};
    struct bytes message;

    if (size >= FRAME_HEAD && frame_length(data) == size)
        FUZZ_EXPECT(frame_open(&session, SIDE_CLIENT, data, size, &message) != ACRE_OK ||
                    message.size + FRAME_HEAD + PROOF_BYTES == size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t live = heap_live_count();

    try_request(data, size);
    try_reply(data, size);
    try_frame(data, size);
    FUZZ_EXPECT(heap_live_count() == live);
    return 0;
}
