/* SPDX-License-Identifier: MIT */
/* See client.h. */
#include "base/process/client.h"

#include "base/process/fork_fd.h"
#include "base/process/socket.h"
#include "base/status.h"

#include <unistd.h>

#define WAIT_MS 10000

/* Closes what of the latest reply was not taken. */
static void rest_close(struct client *client)
{
    uint32_t end = client->reply.fd_first + client->reply.fd_count;

    for (uint32_t i = client->fd_next; i < end; i++)
        close(client->fds[i - client->reply.fd_first]);
    client->reply.fd_count = 0;
}

static acre_status client_refused(uint32_t answer)
{
    if (answer == WIRE_UNKNOWN)
        return status_fail(ACRE_ERR_NOT_FOUND,
                           "the exporting process does not offer this handle "
                           "(any more): the memory was freed, or the handle is made up");
    return status_fail(ACRE_ERR_PEER, "the exporting process could not hand out the memory; its "
                                      "log may say more");
}

/* Receives the next reply into the client. */
static acre_status client_receive(struct client *client)
{
    struct wire_reply reply;
    size_t bytes = 0, count = 0;
    acre_status status =
        socket_receive(client->fd, &reply, sizeof reply, &bytes, client->fds, &count);

    if (status != ACRE_OK)
        return status;
    status = reply_check(&reply, bytes, count, client->fd_next);
    if (status == ACRE_OK && reply.answer != WIRE_GIVEN)
        return client_refused(reply.answer);
    if (status == ACRE_OK && client->fd_next && reply.fd_total != client->fd_total)
        status = status_fail(ACRE_ERR_FORMAT, "the exporting process changed its mind about how "
                                              "many descriptors there are");
    if (status != ACRE_OK) {
        while (count > 0)
            close(client->fds[--count]);
        return status;
    }
    client->reply = reply;
    client->fd_total = reply.fd_total;
    return ACRE_OK;
}

acre_status client_open(const uint8_t ticket[WIRE_TICKET_BYTES], struct client *out)
{
    struct client client = {.fd = -1};
    struct wire_request request;
    struct ticket read;
    acre_status status = ticket_read(ticket, &read);

    if (status == ACRE_OK)
        status = socket_connect(read.service, WAIT_MS, &client.fd);
    if (status != ACRE_OK)
        return status;
    status = fork_fd_note(client.fd);
    if (status == ACRE_OK && !socket_is_own_user(client.fd))
        status = status_fail(ACRE_ERR_INVALID, "the memory behind this handle was exported by "
                                               "another user; only processes of one user share");
    request_write(&request, read.token);
    /* A refusal may already be there when sending fails. */
    if (status == ACRE_OK)
        socket_send(client.fd, &request, sizeof request, NULL, 0);
    if (status == ACRE_OK)
        status = client_receive(&client);
    if (status != ACRE_OK) {
        fork_fd_close(client.fd);
        return status;
    }
    *out = client;
    return ACRE_OK;
}

acre_status client_next(struct client *client, int *out_fd)
{
    acre_status status = ACRE_OK;

    if (client->fd_next >= client->fd_total)
        return status_fail(ACRE_ERR_RANGE, "the offer has %u descriptors and no more",
                           client->fd_total);
    if (client->fd_next == client->reply.fd_first + client->reply.fd_count)
        status = client_receive(client);
    if (status != ACRE_OK)
        return status;
    *out_fd = client->fds[client->fd_next - client->reply.fd_first];
    client->fd_next++;
    return ACRE_OK;
}

int client_keep(struct client *client)
{
    int fd = client->fd;

    rest_close(client);
    client->fd = -1;
    return fd;
}

void client_close(struct client *client)
{
    if (client->fd < 0)
        return;
    rest_close(client);
    fork_fd_close(client->fd);
    client->fd = -1;
}
