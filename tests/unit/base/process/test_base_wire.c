/* SPDX-License-Identifier: MIT */
#include "base/process/wire.h"

#include "base/process/socket.h"
#include "tests/support/t.h"

#include <unistd.h>

static struct ticket a_ticket(void)
{
    struct ticket ticket;

    REQUIRE_OK(wire_random(&ticket, sizeof ticket));
    return ticket;
}

TEST(a_ticket_is_read_as_it_was_written)
{
    struct ticket ticket = a_ticket(), read;
    uint8_t bytes[WIRE_TICKET_BYTES];

    ticket_write(&ticket, bytes);
    REQUIRE_OK(ticket_read(bytes, &read));
    EXPECT(memcmp(&read, &ticket, sizeof read) == 0);
}

TEST(random_bytes_differ)
{
    struct ticket a = a_ticket(), b = a_ticket();

    EXPECT(memcmp(&a, &b, sizeof a) != 0);
    EXPECT(memcmp(a.service, a.token, sizeof a.token) != 0);
}

/* Every byte that is not random is compared. */
TEST(a_damaged_ticket_is_refused)
{
    struct ticket ticket = a_ticket(), read;
    uint8_t bytes[WIRE_TICKET_BYTES];

    ticket_write(&ticket, bytes);
    for (int i = 0; i < WIRE_TICKET_BYTES; i++) {
        bytes[i] ^= 1;
        bool is_random = i >= 8 && i < 8 + 2 * WIRE_RANDOM_BYTES;
        EXPECT_EQ(ticket_read(bytes, &read), is_random ? ACRE_OK : ACRE_ERR_FORMAT);
        bytes[i] ^= 1;
    }
}

TEST(a_request_is_recognised)
{
    struct ticket ticket = a_ticket();
    struct wire_request request;

    request_write(&request, ticket.token);
    EXPECT(request_is_sound(&request, sizeof request));
    EXPECT(memcmp(request.token, ticket.token, sizeof request.token) == 0);
    EXPECT(!request_is_sound(&request, sizeof request - 1));
    EXPECT(!request_is_sound(&request, sizeof request + 1));
    request.zero = 1;
    EXPECT(!request_is_sound(&request, sizeof request));
    request.zero = 0;
    request.version++;
    EXPECT(!request_is_sound(&request, sizeof request));
    request.version--;
    request.magic[7]++;
    EXPECT(!request_is_sound(&request, sizeof request));
}

static struct wire_reply a_reply(uint32_t total, uint32_t first, uint32_t count)
{
    struct wire_reply reply;

    reply_write(&reply, WIRE_GIVEN);
    reply.fd_total = total;
    reply.fd_first = first;
    reply.fd_count = count;
    return reply;
}

TEST(a_reply_is_checked)
{
    struct wire_reply reply = a_reply(130, 64, 64);

    EXPECT_EQ(reply_check(&reply, sizeof reply, 64, 64), ACRE_OK);
    EXPECT_EQ(reply_check(&reply, sizeof reply - 1, 64, 64), ACRE_ERR_FORMAT);
    EXPECT_EQ(reply_check(&reply, sizeof reply, 63, 64), ACRE_ERR_FORMAT);
    EXPECT_EQ(reply_check(&reply, sizeof reply, 65, 64), ACRE_ERR_FORMAT);
    EXPECT_EQ(reply_check(&reply, sizeof reply, 64, 0), ACRE_ERR_FORMAT);
    reply = a_reply(100, 64, 64);
    EXPECT_EQ(reply_check(&reply, sizeof reply, 64, 64), ACRE_ERR_FORMAT);
    reply = a_reply(10, 64, 1);
    EXPECT_EQ(reply_check(&reply, sizeof reply, 1, 64), ACRE_ERR_FORMAT);
    reply = a_reply(WIRE_FDS_MAX + 1, 0, 1);
    EXPECT_EQ(reply_check(&reply, sizeof reply, 1, 0), ACRE_ERR_FORMAT);
    reply = a_reply(1, 0, 0);
    EXPECT_EQ(reply_check(&reply, sizeof reply, 0, 0), ACRE_ERR_FORMAT);
    reply = a_reply(0, 0, 0);
    EXPECT_EQ(reply_check(&reply, sizeof reply, 0, 0), ACRE_OK);
    reply.note_bytes = WIRE_NOTE_BYTES + 1;
    EXPECT_EQ(reply_check(&reply, sizeof reply, 0, 0), ACRE_ERR_FORMAT);
    reply_write(&reply, WIRE_UNKNOWN);
    EXPECT_EQ(reply_check(&reply, sizeof reply, 0, 5), ACRE_OK);
    EXPECT_EQ(reply_check(&reply, sizeof reply, 1, 0), ACRE_ERR_FORMAT);
    reply.answer = 3;
    EXPECT_EQ(reply_check(&reply, sizeof reply, 0, 0), ACRE_ERR_FORMAT);
    EXPECT_HAS(acre_last_error(), "answer");
}

TEST(a_name_that_nobody_has_is_refused)
{
    struct ticket ticket = a_ticket();
    int fds = t_fd_count(), fd = -1;

    EXPECT_EQ(socket_connect(ticket.service, 1000, &fd), ACRE_ERR_PEER);
    EXPECT_HAS(acre_last_error(), "gone");
    EXPECT_EQ(fd, -1);
    EXPECT_EQ(t_fd_count(), fds);
}

TEST(a_name_can_be_taken_once)
{
    struct ticket ticket = a_ticket();
    int fd = -1, other = -1;

    REQUIRE_OK(socket_listen(ticket.service, &fd));
    EXPECT_EQ(socket_listen(ticket.service, &other), ACRE_ERR_IO);
    REQUIRE_OK(socket_connect(ticket.service, 1000, &other));
    EXPECT(socket_is_own_user(other));
    close(other);
    close(fd);
}

T_MAIN()
