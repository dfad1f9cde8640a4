/* SPDX-License-Identifier: MIT */
/* See wire.h. */
#include "base/process/wire.h"

#include "base/status.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#define WIRE_VERSION 1u

static const char ticket_magic[8] = {'a', 'c', 'r', 'e', 't', 'k', 't', '1'};
static const char request_magic[8] = {'a', 'c', 'r', 'e', 'a', 's', 'k', '1'};
static const char reply_magic[8] = {'a', 'c', 'r', 'e', 's', 'a', 'y', '1'};

acre_status wire_random(void *out, size_t bytes)
{
    if (getrandom(out, bytes, 0) != (ssize_t)bytes)
        return status_fail_native(ACRE_ERR_IO, errno, "no random bytes from the system: %s",
                                  strerror(errno));
    return ACRE_OK;
}

/* magic 8, service 16, token 16, zeroes to the end */
void ticket_write(const struct ticket *ticket, uint8_t out[WIRE_TICKET_BYTES])
{
    memset(out, 0, WIRE_TICKET_BYTES);
    memcpy(out, ticket_magic, sizeof ticket_magic);
    memcpy(out + 8, ticket->service, WIRE_RANDOM_BYTES);
    memcpy(out + 8 + WIRE_RANDOM_BYTES, ticket->token, WIRE_RANDOM_BYTES);
}

acre_status ticket_read(const uint8_t bytes[WIRE_TICKET_BYTES], struct ticket *out)
{
    if (memcmp(bytes, ticket_magic, sizeof ticket_magic) != 0)
        return status_fail(ACRE_ERR_FORMAT, "these 64 bytes are no handle of shared memory of "
                                            "this library; pass on exactly what the export gave");
    for (size_t i = 8 + 2 * WIRE_RANDOM_BYTES; i < WIRE_TICKET_BYTES; i++)
        if (bytes[i])
            return status_fail(ACRE_ERR_FORMAT,
                               "byte %zu of a handle of shared memory is %d "
                               "and must be 0: it was damaged on its way",
                               i, bytes[i]);
    memcpy(out->service, bytes + 8, WIRE_RANDOM_BYTES);
    memcpy(out->token, bytes + 8 + WIRE_RANDOM_BYTES, WIRE_RANDOM_BYTES);
    return ACRE_OK;
}

void request_write(struct wire_request *request, const uint8_t token[WIRE_RANDOM_BYTES])
{
    memset(request, 0, sizeof *request);
    memcpy(request->magic, request_magic, sizeof request_magic);
    request->version = WIRE_VERSION;
    memcpy(request->token, token, WIRE_RANDOM_BYTES);
}

bool request_is_sound(const struct wire_request *request, size_t bytes)
{
    return bytes == sizeof *request &&
           memcmp(request->magic, request_magic, sizeof request_magic) == 0 &&
           request->version == WIRE_VERSION && request->zero == 0;
}

void reply_write(struct wire_reply *reply, enum wire_answer answer)
{
    memset(reply, 0, sizeof *reply);
    memcpy(reply->magic, reply_magic, sizeof reply_magic);
    reply->version = WIRE_VERSION;
    reply->answer = answer;
}

/* What a sound frame says about itself; NULL: all is well. */
static const char *reply_fault(const struct wire_reply *reply, size_t fd_count, uint32_t fd_due)
{
    if (reply->answer > WIRE_FAILED)
        return "it has an answer that does not exist";
    if (reply->answer != WIRE_GIVEN)
        return fd_count ? "it refuses and yet holds descriptors" : NULL;
    if (reply->note_bytes > WIRE_NOTE_BYTES)
        return "its note is too long";
    if (reply->fd_total > WIRE_FDS_MAX)
        return "it promises too many descriptors";
    if (reply->fd_count != fd_count || fd_count > WIRE_BATCH)
        return "it does not hold the descriptors it tells of";
    if (reply->fd_first != fd_due || fd_due > reply->fd_total ||
        fd_count > reply->fd_total - fd_due)
        return "its descriptors are not the next ones";
    if (fd_count == 0 && reply->fd_total > 0)
        return "it holds no descriptor";
    return NULL;
}

acre_status reply_check(const struct wire_reply *reply, size_t bytes, size_t fd_count,
                        uint32_t fd_due)
{
    const char *fault;

    if (bytes != sizeof *reply || memcmp(reply->magic, reply_magic, sizeof reply_magic) != 0 ||
        reply->version != WIRE_VERSION)
        return status_fail(ACRE_ERR_FORMAT,
                           "the exporting process answered with %zu bytes that "
                           "are no reply of this version",
                           bytes);
    fault = reply_fault(reply, fd_count, fd_due);
    if (fault)
        return status_fail(ACRE_ERR_FORMAT, "the exporting process sent a bad reply: %s", fault);
    return ACRE_OK;
}
