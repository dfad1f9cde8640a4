/* SPDX-License-Identifier: MIT */
#include "exchange/io.h"

#include "base/check.h"
#include "base/status.h"
#include "exchange/ring.h"

#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

/* ---- Failing on demand ---------------------------------------------------------- */

static _Atomic uint64_t fail_in; /* requests until one is concerned; 0: disarmed */
static _Atomic long fail_result;
static _Atomic bool has_failed;

void io_fail_nth(uint64_t nth, ssize_t result)
{
    atomic_store(&has_failed, false);
    atomic_store(&fail_result, result);
    atomic_store(&fail_in, nth);
}

bool io_fail_disarm(void)
{
    atomic_store(&fail_in, 0);
    return atomic_load(&has_failed);
}

static bool must_fail(void)
{
    uint64_t left = atomic_load_explicit(&fail_in, memory_order_relaxed);

    while (left)
        if (atomic_compare_exchange_weak(&fail_in, &left, left - 1)) {
            if (left == 1)
                atomic_store(&has_failed, true);
            return left == 1;
        }
    return false;
}

/* ---- Both engines --------------------------------------------------------------- */

acre_status io_init(struct io *io, int fd, unsigned depth, acre_file_engine engine)
{
    acre_status status;

    *io = (struct io){.fd = fd, .depth = depth};
    if (engine == ACRE_FILE_PLAIN)
        return ACRE_OK;
    status = ring_create(depth, &io->ring);
    return engine == ACRE_FILE_AUTO && status == ACRE_ERR_UNSUPPORTED ? ACRE_OK : status;
}

void io_fini(struct io *io)
{
    CHECK(io->under_way == 0);
    ring_destroy(io->ring);
    io->ring = NULL;
}

bool io_fix(struct io *io, void *base, size_t bytes)
{
    return io->ring && ring_fix(io->ring, base, bytes);
}

static ssize_t do_plainly(int fd, const struct io_request *request)
{
    ssize_t moved;

    do
        moved = request->is_write
                    ? pwrite(fd, request->memory, request->bytes, (off_t)request->offset)
                    : pread(fd, request->memory, request->bytes, (off_t)request->offset);
    while (moved < 0 && errno == EINTR);
    return moved < 0 ? -errno : moved;
}

/* Results that are there already come before those of the ring; see io_finish(). */
static void result_keep(struct io *io, unsigned tag, ssize_t bytes)
{
    io->results[io->result_count++] = (struct io_result){tag, bytes};
}

void io_start(struct io *io, const struct io_request *request)
{
    struct io_request cut = *request;

    CHECK(io->under_way < io->depth);
    io->under_way++;
    if (must_fail()) {
        long result = atomic_load(&fail_result);

        if (result <= 0) {
            result_keep(io, request->tag, result);
            return;
        }
        cut.bytes = (size_t)result < cut.bytes ? (size_t)result : cut.bytes;
    }
    if (!io->ring || ring_start(io->ring, io->fd, &cut) != 0)
        result_keep(io, request->tag, do_plainly(io->fd, &cut));
}

struct io_result io_finish(struct io *io)
{
    CHECK(io->under_way > 0);
    io->under_way--;
    if (!io->result_count)
        return ring_finish(io->ring);
    return io->results[--io->result_count];
}
