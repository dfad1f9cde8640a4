/* SPDX-License-Identifier: MIT */
/* Reads and writes of one descriptor, several at a time.
 *
 * Two engines behind one face. The ring (ring.h) has them under way in the kernel; the
 * plain one does each when it is started and keeps the result until it is asked for.
 *
 * Not thread-safe: one user at a time.
 */
#ifndef SRC_EXCHANGE_IO_H
#define SRC_EXCHANGE_IO_H

#include <acre/file.h>

#include <stdbool.h>
#include <sys/types.h>

enum { IO_DEPTH_MAX = 64 };

struct io_request {
    char *memory;
    size_t bytes;
    uint64_t offset;  /* in the file                                   */
    unsigned tag;     /* below the depth; comes back with the result   */
    bool is_write;
    bool is_fixed;    /* memory lies in what io_fix() was given        */
};

struct io_ring;

struct io {
    int fd;
    unsigned depth;
    unsigned under_way;
    struct io_ring *ring;    /* NULL: the plain engine                            */
    struct io_result {
        unsigned tag;
        ssize_t bytes;    /* or -errno                                         */
    } results[IO_DEPTH_MAX]; /* that are there and were not asked for yet      */
    unsigned result_count;
};

/* Sets up an engine for at most depth requests under way.
 * Errors: ACRE_ERR_UNSUPPORTED (ACRE_FILE_URING is not to be had). */
acre_status io_init(struct io *io, int fd, unsigned depth, acre_file_engine engine);
void io_fini(struct io *io); /* nothing is under way */

/* Tells that requests will use this memory. Where that is refused, for example by a
 * limit on locked memory, false is given and requests are made as any other. */
bool io_fix(struct io *io, void *base, size_t bytes);

/* Starts a request; fewer than depth are under way. One that the ring does not take is
 * done plainly. The result comes from io_finish(). */
void io_start(struct io *io, const struct io_request *request);

/* Waits for one of those under way; gives its tag, and bytes moved or -errno. */
struct io_result io_finish(struct io *io);

/* For tests: the nth request of the process from now, 1 being the next, is not done but
 * has this result; a result above 0 cuts the request down to that many bytes. */
void io_fail_nth(uint64_t nth, ssize_t result);
/* Switches that off; tells whether a request was concerned since. */
bool io_fail_disarm(void);

#endif
