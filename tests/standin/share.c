/* SPDX-License-Identifier: MIT */
/* Descriptors for other processes, under 64 bytes that stand for a fabric handle. */
#include "tests/standin/virtual.h"

#include "base/process/client.h"
#include "base/process/service.h"

#include <fcntl.h>

static acre_status share_fd_at(void *arg, uint32_t index, int *out_fd)
{
    (void)index;
    *out_fd = fcntl(*(int *)arg, F_DUPFD_CLOEXEC, 0);
    return *out_fd >= 0 ? ACRE_OK : ACRE_ERR_LIMIT;
}

CUresult share_ticket(struct offer **offer, int *fd, unsigned char out[64])
{
    struct offer_terms terms = {.fd_total = 1, .fd_at = share_fd_at, .arg = fd};

    if (!*offer && offer_create(&terms, offer) != ACRE_OK)
        return CUDA_ERROR_OPERATING_SYSTEM;
    offer_ticket(*offer, out);
    return CUDA_SUCCESS;
}

CUresult share_open(const unsigned char ticket[64], int *out_fd)
{
    struct client client = {.fd = -1};
    acre_status status = client_open(ticket, &client);

    if (status == ACRE_OK)
        status = client_next(&client, out_fd);
    client_close(&client);
    return status == ACRE_OK ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
