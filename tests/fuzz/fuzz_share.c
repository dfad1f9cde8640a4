/* SPDX-License-Identifier: MIT */
/* Handles of shared memory, requests and replies of any bytes: never a crash, a
 * leak or an answer out of bounds. The first byte says what the rest is:
 * 'h' a handle, 'q' a request, others a reply with so many descriptors. */
#include "base/heap.h"
#include "base/process/socket.h"
#include "base/process/wire.h"
#include "cache/share/import.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void handle(const uint8_t *data, size_t size)
{
    uint8_t bytes[SHARE_HANDLE_BYTES] = {0}, again[WIRE_TICKET_BYTES];
    struct ticket ticket;
    char kind = 0;

    memcpy(bytes, data, size < sizeof bytes ? size : sizeof bytes);
    acre_status status = import_check(bytes, size, &kind);
    FUZZ_EXPECT(status == ACRE_OK || status == ACRE_ERR_FORMAT);
    if (status != ACRE_OK)
        return;
    FUZZ_EXPECT(kind == SHARE_PLAIN || kind == SHARE_PAGES);
    FUZZ_EXPECT(size == WIRE_TICKET_BYTES || size == SHARE_HANDLE_BYTES);
    const uint8_t *from = bytes + (size - WIRE_TICKET_BYTES);
    if (ticket_read(from, &ticket) != ACRE_OK)
        return;
    ticket_write(&ticket, again);
    FUZZ_EXPECT(memcmp(again, from, sizeof again) == 0);
}

static void request(const uint8_t *data, size_t size)
{
    struct wire_request message, again;

    memset(&message, 0, sizeof message);
    memcpy(&message, data, size < sizeof message ? size : sizeof message);
    if (!request_is_sound(&message, size))
        return;
    request_write(&again, message.token);
    FUZZ_EXPECT(memcmp(&again, &message, sizeof again) == 0);
}

/* Through a socket, as it comes from another process. */
static void reply(const uint8_t *data, size_t size, int fd_count)
{
    struct wire_reply message;
    int ends[2], out[WIRE_BATCH + 2], in[WIRE_BATCH];
    size_t bytes = 0, count = 0;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return;
    for (int i = 0; i < fd_count; i++)
        out[i] = ends[0];
    FUZZ_EXPECT(socket_send(ends[0], data, size, out, fd_count) == 0);
    acre_status status = socket_receive(ends[1], &message, sizeof message, &bytes, in, &count);
    FUZZ_EXPECT((status == ACRE_OK) == (size > 0 && size <= sizeof message &&
                                        fd_count <= WIRE_BATCH));
    if (status == ACRE_OK && reply_check(&message, bytes, count, 0) == ACRE_OK)
        FUZZ_EXPECT(message.answer != WIRE_GIVEN || message.fd_count <= message.fd_total);
    while (status == ACRE_OK && count > 0)
        close(in[--count]);
    close(ends[0]);
    close(ends[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t live = heap_live_count();

    if (size == 0 || size > 4096)
        return 0;
    int fds = dup(0);
    if (data[0] == 'h')
        handle(data + 1, size - 1);
    else if (data[0] == 'q')
        request(data + 1, size - 1);
    else
        reply(data + 1, size - 1, data[0] % (WIRE_BATCH + 3));
    int after = dup(0); /* the next free one: nothing was left open below it */
    FUZZ_EXPECT(after == fds + 1 || fds < 0);
    close(after);
    close(fds);
    FUZZ_EXPECT(heap_live_count() == live);
    return 0;
}
