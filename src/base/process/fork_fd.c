/* SPDX-License-Identifier: MIT */
/* See fork_fd.h. */
#include "base/process/fork_fd.h"

#include "base/process/fork.h"
#include "base/status.h"

#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#define FORK_FD_MAX 8192

/* Descriptor + 1 in each place taken, 0 elsewhere. */
static _Atomic int places[FORK_FD_MAX];
static _Atomic unsigned places_end; /* places at and above were never taken */

static void in_child(void)
{
    unsigned end = atomic_load(&places_end);

    for (unsigned i = 0; i < end; i++) {
        int noted = atomic_exchange(&places[i], 0);

        if (noted)
            close(noted - 1);
    }
}

FORK_HANDLER(fork_fd_handler, NULL, NULL, in_child);

acre_status fork_fd_note(int fd)
{
    for (unsigned i = 0; i < FORK_FD_MAX; i++) {
        int free_place = 0;

        if (!atomic_compare_exchange_strong(&places[i], &free_place, fd + 1))
            continue;
        unsigned end = atomic_load(&places_end);
        while (end <= i && !atomic_compare_exchange_weak(&places_end, &end, i + 1))
            ;
        return ACRE_OK;
    }
    return status_fail(ACRE_ERR_LIMIT, "%d connections between processes are open already",
                       FORK_FD_MAX);
}

void fork_fd_close(int fd)
{
    unsigned end = atomic_load(&places_end);

    if (fd < 0)
        return;
    for (unsigned i = 0; i < end; i++) {
        int noted = fd + 1;

        if (atomic_compare_exchange_strong(&places[i], &noted, 0)) {
            shutdown(fd, SHUT_RDWR); /* a child forked just now may not have closed its own */
            break;
        }
    }
    close(fd);
}
