/* SPDX-License-Identifier: MIT */
/* What ranks print; see job.h. Writing never blocks for long: whoever reads the output of this
 * command may be slow or stopped, and signals are to be obeyed nevertheless. */
#include "cli/run/job.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE_BYTES = 4096 }; /* a pipe that is writable has room for it */

/* Writes all, in pieces that do not block. Given up when the job is being killed. */
static void write_bytes(struct job *job, int to, const char *data, size_t bytes)
{
    while (bytes > 0) {
        struct pollfd polls[] = {{to, POLLOUT, 0}, {job->signals, POLLIN, 0}};
        bool is_late = job->kill_at_ms && job_now_ms() >= job->kill_at_ms;
        int ready = poll(polls, 2, is_late ? 0 : 100);
        if (ready > 0 && polls[1].revents)
            job_take_signal(job);
        if (ready <= 0 || !polls[0].revents) {
            if (is_late)
                return;
            continue;
        }
        ssize_t done = write(to, data, bytes < PIECE_BYTES ? bytes : PIECE_BYTES);
        if (done < 0 && errno != EINTR && errno != EAGAIN) {
            if (errno != EBADF && job->lost_error == 0) /* a closed output is not read on purpose */
                job->lost_error = errno;
            return;
        }
        data += done > 0 ? done : 0;
        bytes -= done > 0 ? (size_t)done : 0;
    }
}

/* Short lines go out together: a rank may print millions of them. */
struct batch {
    int to;
    size_t used;
    char data[PIECE_BYTES];
};

static void batch_write(struct job *job, struct batch *batch)
{
    write_bytes(job, batch->to, batch->data, batch->used);
    batch->used = 0;
}

static void batch_put(struct job *job, struct batch *batch, const char *data, size_t bytes)
{
    if (bytes > PIECE_BYTES - batch->used)
        batch_write(job, batch);
    if (bytes > PIECE_BYTES) {
        write_bytes(job, batch->to, data, bytes);
        return;
    }
    memcpy(batch->data + batch->used, data, bytes);
    batch->used += bytes;
}

static void output_line(struct job *job, int rank, struct batch *batch, const char *line,
                        size_t bytes)
{
    char head[16];

    if (!job->is_plain)
        batch_put(job, batch, head, (size_t)snprintf(head, sizeof head, "[%d] ", rank));
    batch_put(job, batch, line, bytes);
    if (bytes == 0 || line[bytes - 1] != '\n')
        batch_put(job, batch, "\n", 1);
}

/* Prints the whole lines that have come; all of it at the end or when there is no room. */
static void output_flush(struct job *job, int rank, struct output *output, bool is_all)
{
    char *at = output->line, *end = at + output->used, *newline;
    struct batch batch;

    batch.to = output->to;
    batch.used = 0;
    while (at < end && (newline = memchr(at, '\n', (size_t)(end - at)))) {
        output_line(job, rank, &batch, at, (size_t)(newline + 1 - at));
        at = newline + 1;
    }
    if (at < end && (is_all || end - at == RUN_LINE_BYTES)) {
        output_line(job, rank, &batch, at, (size_t)(end - at));
        at = end;
    }
    batch_write(job, &batch);
    output->used = (size_t)(end - at);
    memmove(output->line, at, output->used);
}

bool output_open(struct output *output, int fd, int to)
{
    *output = (struct output){.fd = fd, .to = to, .line = malloc(RUN_LINE_BYTES)};
    return output->line && fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) == 0;
}

void output_read(struct job *job, int rank, struct output *output)
{
    ssize_t got = read(output->fd, output->line + output->used, RUN_LINE_BYTES - output->used);

    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (got > 0)
        output->used += (size_t)got;
    output_flush(job, rank, output, got <= 0);
    if (got <= 0) {
        close(output->fd);
        output->fd = -1;
    }
}

void output_close(struct job *job, int rank, struct output *output)
{
    if (output->fd >= 0) {
        output_flush(job, rank, output, true);
        close(output->fd);
    }
    free(output->line);
    *output = (struct output){.fd = -1};
}

void output_say(struct job *job, const char *format, ...)
{
    char line[768] = "acre run: ";
    size_t used = strlen(line);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line + used, sizeof line - used - 1, format, arguments);
    va_end(arguments);
    strcat(line, "\n");
    write_bytes(job, STDERR_FILENO, line, strlen(line));
}
