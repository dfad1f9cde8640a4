/* SPDX-License-Identifier: MIT */
/* The importing end of sharing: asks another process for what a ticket names.
 *
 * The connection is what counts as a user over there; keep the client until the
 * memory is closed. Not thread-safe.
 */
#ifndef SRC_BASE_CLIENT_H
#define SRC_BASE_CLIENT_H

#include "base/process/wire.h"

struct client {
    int fd;              /* the connection; -1: none                    */
    uint32_t fd_total;   /* descriptors of the offer                    */
    uint32_t fd_next;    /* number of the next one to come              */
    struct wire_reply reply; /* the latest                              */
    int fds[WIRE_BATCH]; /* descriptors of it, not yet taken            */
};

/* Asks for what 64 bytes name; the note of the offer is in client->reply.
 *
 * Errors: ACRE_ERR_FORMAT (not a ticket, or the answer is not one), ACRE_ERR_PEER
 * (the process is gone), ACRE_ERR_NOT_FOUND (it does not offer that, or not any
 * more), ACRE_ERR_INVALID (it is another user's), ACRE_ERR_TIMEOUT,
 * ACRE_ERR_LIMIT, ACRE_ERR_IO. */
acre_status client_open(const uint8_t ticket[WIRE_TICKET_BYTES], struct client *out);

/* The next descriptor, which the caller closes. Errors: as above, and
 * ACRE_ERR_RANGE after the last. */
acre_status client_next(struct client *client, int *out_fd);

/* Ends it; descriptors not taken are closed. Zeroed with fd -1 is fine. */
void client_close(struct client *client);

/* Closes the descriptors not taken and gives the connection, which the caller
 * closes with fork_fd_close. */
int client_keep(struct client *client);

#endif
