/* SPDX-License-Identifier: MIT */
/* Records by way of the store; see post.h. */
#include "symm/link/post.h"

#include "base/status.h"
#include "symm/deadline.h"
#include "symm/store/store.h"

#include <inttypes.h>
#include <stdio.h>

#define POST_KEY 640
#define SLICE_MS 100  /* between looks at a failure instead           */
#define DONE_MS  1000 /* that counting the readers of a value may take */

static void post_key(const acre_group *group, int rank, enum record_type type, char out[POST_KEY])
{
    snprintf(out, POST_KEY, "acre/post/%s/%016" PRIx64 "/%" PRIu64 "/%d/%d", group->store_name,
             group->peers->token, group->epoch, (int)type, rank);
}

acre_status post_send(const acre_group *group, const struct record *record, int64_t deadline)
{
    uint8_t bytes[RECORD_BYTES];
    char key[POST_KEY];

    record_encode(record, bytes);
    post_key(group, group->rank, record->type, key);
    return store_set_until(group->store, key, bytes, sizeof bytes, deadline);
}

/* How many ranks read what one sends: all on other hosts. */
static int64_t reader_count(const struct link *peers, int rank)
{
    int64_t count = 0;

    for (int i = 0; i < peers->count; i++)
        count += peers->peers[i].host != peers->peers[rank].host;
    return count;
}

/* Removes a value that all have read. */
static acre_status post_done(const acre_group *group, int rank, const char *key, int64_t deadline)
{
    char counter[POST_KEY + 8];
    int64_t readers = 0;

    snprintf(counter, sizeof counter, "%s/read", key);
    acre_status status = store_add_until(group->store, counter, 1, deadline, &readers);
    if (status == ACRE_OK && readers == reader_count(group->peers, rank)) {
        status = store_delete_until(group->store, key, deadline);
        if (status == ACRE_OK)
            status = store_delete_until(group->store, counter, deadline);
    }
    return status;
}

/* Takes one type of record that a rank posted. */
static acre_status take_type(const acre_group *group, int rank, enum record_type type,
                             int64_t deadline, struct record *out)
{
    char key[POST_KEY];
    acre_blob blob;
    int64_t limit = deadline_in_ms(DONE_MS);

    post_key(group, rank, type, key);
    acre_status status = store_get_until(group->store, key, deadline, &blob);
    if (status != ACRE_OK)
        return status == ACRE_ERR_TIMEOUT ? ACRE_ERR_NOT_READY : status;
    status = record_decode(blob.data, blob.bytes, out);
    acre_blob_free(&blob);
    if (status == ACRE_OK &&
        (out->rank != (uint32_t)rank || out->type != type || out->epoch != group->epoch))
        status = status_fail(ACRE_ERR_FORMAT,
                             "rendezvous of group \"%s\": a message of rank %d "
                             "does not belong here",
                             group->name, rank);
    return status == ACRE_OK ? post_done(group, rank, key, limit) : status;
}

acre_status post_take(const acre_group *group, int rank, enum record_type type, int64_t deadline,
                      struct record *out)
{
    char key[POST_KEY];
    bool is_there = false;
    acre_status status =
        take_type(group, rank, type, deadline_sooner(deadline, deadline_in_ms(SLICE_MS)), out);

    if (status != ACRE_ERR_NOT_READY || type == RECORD_VERDICT)
        return status;
    post_key(group, rank, RECORD_VERDICT, key);
    if (store_check_until(group->store, key, deadline, &is_there) != ACRE_OK || !is_there)
        return ACRE_ERR_NOT_READY;
    return take_type(group, rank, RECORD_VERDICT, deadline, out);
}
