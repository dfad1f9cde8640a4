/* SPDX-License-Identifier: MIT */
#include "exchange/ring.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"

#include <errno.h>
#include <string.h>

#ifdef ACRE_HAVE_LIBURING

#include <liburing.h>

#define TAG_NOTHING UINT64_MAX /* of a request that was taken back */

static _Atomic bool is_refusing; /* for tests */

struct io_ring {
    struct io_uring uring;
};

acre_status ring_create(unsigned depth, struct io_ring **out)
{
    struct io_ring *ring = heap_zalloc(sizeof *ring);

    if (!ring)
        return ACRE_ERR_HOST_MEMORY;
    int error = -io_uring_queue_init(depth, &ring->uring, 0);
    if (error) {
        heap_free(ring);
        return status_fail_native(ACRE_ERR_UNSUPPORTED, error,
                                  "io_uring: %s; the system may "
                                  "forbid it (seccomp, kernel.io_uring_disabled); engine "
                                  "ACRE_FILE_PLAIN does without",
                                  strerror(error));
    }
    *out = ring;
    return ACRE_OK;
}

void ring_destroy(struct io_ring *ring)
{
    if (!ring)
        return;
    io_uring_queue_exit(&ring->uring);
    heap_free(ring);
}

bool ring_fix(struct io_ring *ring, void *base, size_t bytes)
{
    struct iovec vector = {base, bytes};

    io_uring_unregister_buffers(&ring->uring);
    return io_uring_register_buffers(&ring->uring, &vector, 1) == 0;
}

/* What is in the queue goes to the kernel: how many, or -errno. */
static int ring_submit(struct io_ring *ring)
{
    int submitted;

    if (is_refusing)
        return -EBUSY;
    do
        submitted = io_uring_submit(&ring->uring);
    while (submitted == -EINTR);
    return submitted;
}

int ring_start(struct io_ring *ring, int fd, const struct io_request *request)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->uring);
    unsigned bytes = (unsigned)request->bytes;

    if (!sqe) /* full of requests that could not be submitted */
        return -EAGAIN;
    if (request->is_fixed && request->is_write)
        io_uring_prep_write_fixed(sqe, fd, request->memory, bytes, request->offset, 0);
    else if (request->is_fixed)
        io_uring_prep_read_fixed(sqe, fd, request->memory, bytes, request->offset, 0);
    else if (request->is_write)
        io_uring_prep_write(sqe, fd, request->memory, bytes, request->offset);
    else
        io_uring_prep_read(sqe, fd, request->memory, bytes, request->offset);
    io_uring_sqe_set_data64(sqe, request->tag);
    int submitted = ring_submit(ring);
    if (submitted > 0)
        return 0;
    /* The entry stays in the queue and is submitted with the next one, as a no-op. */
    io_uring_prep_nop(sqe);
    io_uring_sqe_set_data64(sqe, TAG_NOTHING);
    return submitted < 0 ? submitted : -EAGAIN;
}

struct io_result ring_finish(struct io_ring *ring)
{
    struct io_uring_cqe *cqe = NULL;

    for (;;) {
        /* The kernel has the memory in its hands: nothing goes on before it is back. */
        while (io_uring_wait_cqe(&ring->uring, &cqe) != 0)
            ;
        uint64_t tag = cqe->user_data;
        struct io_result result = {(unsigned)tag, cqe->res};
        io_uring_cqe_seen(&ring->uring, cqe);
        if (tag != TAG_NOTHING)
            return result;
    }
}

void ring_refuse(bool refuse)
{
    is_refusing = refuse;
}

#else

void ring_refuse(bool refuse)
{
    (void)refuse;
}

acre_status ring_create(unsigned depth, struct io_ring **out)
{
    (void)depth;
    (void)out;
    return status_fail(ACRE_ERR_UNSUPPORTED, "this build has no io_uring; build it with liburing "
                                             "(liburing-dev), or use engine ACRE_FILE_PLAIN");
}

void ring_destroy(struct io_ring *ring)
{
    (void)ring;
}

bool ring_fix(struct io_ring *ring, void *base, size_t bytes)
{
    (void)ring;
    (void)base;
    (void)bytes;
    return false;
}

int ring_start(struct io_ring *ring, int fd, const struct io_request *request)
{
    (void)ring;
    (void)fd;
    (void)request;
    return -ENOSYS;
}

struct io_result ring_finish(struct io_ring *ring)
{
    (void)ring;
    return (struct io_result){0, -ENOSYS};
}

#endif
