/* SPDX-License-Identifier: MIT */
#include "format/source.h"

#include "base/heap.h"
#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef ACRE_HAVE_ZLIB
#include <zlib.h>
#endif

#define INPUT_BYTES 65536
#define PEEK_BYTES  65536

/* Where in a gzip file the reader is.
 *
 *             end of member          1f 8b              zeros
 *   INSIDE ──────────────────► BETWEEN ───► INSIDE   BETWEEN ───► PADDING
 */
enum gzip_state { GZIP_NONE, GZIP_INSIDE, GZIP_BETWEEN, GZIP_PADDING };

struct source {
    int fd;
    char *path;           /* for messages                            */
    uint64_t file_bytes;  /* 0: unknown                              */
    uint64_t read_bytes;  /* taken from the file so far              */
    size_t input_at;      /* next byte of input                      */
    size_t input_count;   /* bytes in input                          */
    bool is_end;          /* the file has no more                    */
    enum gzip_state gzip; /* GZIP_NONE: plain                        */
    char *peeked;         /* what was looked at, or NULL             */
    size_t peeked_at;     /* the next of them to be read             */
    size_t peeked_count;
#ifdef ACRE_HAVE_ZLIB
    z_stream z; /* initialised unless gzip is GZIP_NONE    */
#endif
    unsigned char input[INPUT_BYTES];
};

static acre_status fail_io(const struct source *source, const char *what)
{
    int code = errno;

    return status_fail_native(ACRE_ERR_IO, code, "%s %s: %s", what, source->path, strerror(code));
}

/* Reads from the file; nothing once it has ended. */
static acre_status source_fetch(struct source *source, void *to, size_t capacity, size_t *out_count)
{
    ssize_t got = 0;

    while (!source->is_end) {
        got = read(source->fd, to, capacity);
        if (got >= 0 || errno != EINTR)
            break;
    }
    if (got < 0)
        return fail_io(source, "cannot read");
    source->read_bytes += (uint64_t)got;
    source->is_end = got == 0;
    *out_count = (size_t)got;
    return ACRE_OK;
}

/* Fills input when it is empty. */
static acre_status source_refill(struct source *source)
{
    size_t got = 0;

    if (source->input_at < source->input_count || source->is_end)
        return ACRE_OK;
    acre_status status = source_fetch(source, source->input, sizeof source->input, &got);
    if (status == ACRE_OK) {
        source->input_at = 0;
        source->input_count = got;
    }
    return status;
}

static bool at_gzip(const struct source *source)
{
    return source->input_count - source->input_at >= 2 && source->input[source->input_at] == 0x1f &&
           source->input[source->input_at + 1] == 0x8b;
}

#ifdef ACRE_HAVE_ZLIB
static acre_status gzip_start(struct source *source)
{
    if (inflateInit2(&source->z, 15 + 16) != Z_OK)
        return status_fail(ACRE_ERR_HOST_MEMORY, "%s: no memory to decompress", source->path);
    source->gzip = GZIP_INSIDE;
    return ACRE_OK;
}

/* Looks at what follows a member: another one, zeros, the end. */
static acre_status gzip_between(struct source *source)
{
    while (source->gzip != GZIP_INSIDE) {
        acre_status status = source_refill(source);
        if (status != ACRE_OK || source->is_end)
            return status;
        unsigned char next = source->input[source->input_at];
        if (next == 0x1f && source->gzip == GZIP_BETWEEN) {
            if (inflateReset(&source->z) != Z_OK)
                return status_fail(ACRE_ERR_INTERNAL, "inflateReset failed");
            source->gzip = GZIP_INSIDE;
        } else if (next == 0) {
            source->gzip = GZIP_PADDING;
            source->input_at++;
        } else {
            return status_fail(ACRE_ERR_FORMAT, "%s: other data follows the gzip data",
                               source->path);
        }
    }
    return ACRE_OK;
}

static acre_status gzip_read(struct source *source, void *buffer, size_t capacity,
                             size_t *out_count)
{
    z_stream *z = &source->z;
    acre_status status;

    z->next_out = buffer;
    z->avail_out = (uInt)capacity;
    while (z->avail_out == capacity) {
        if (source->gzip != GZIP_INSIDE) {
            status = gzip_between(source);
            if (status != ACRE_OK || source->gzip != GZIP_INSIDE)
                break;
        }
        status = source_refill(source);
        if (status != ACRE_OK)
            return status;
        if (source->is_end)
            return status_fail(ACRE_ERR_FORMAT, "%s: truncated gzip: the file ends too early",
                               source->path);
        z->next_in = source->input + source->input_at;
        z->avail_in = (uInt)(source->input_count - source->input_at);
        int code = inflate(z, Z_NO_FLUSH);
        source->input_at = source->input_count - z->avail_in;
        if (code == Z_STREAM_END)
            source->gzip = GZIP_BETWEEN;
        else if (code == Z_MEM_ERROR)
            return status_fail(ACRE_ERR_HOST_MEMORY, "%s: no memory to decompress", source->path);
        else if (code != Z_OK && code != Z_BUF_ERROR)
            return status_fail_native(ACRE_ERR_FORMAT, code, "%s: damaged gzip: %s", source->path,
                                      z->msg ? z->msg : "it does not check out");
        status = ACRE_OK;
    }
    *out_count = capacity - z->avail_out;
    return status;
}

static void gzip_stop(struct source *source)
{
    if (source->gzip != GZIP_NONE)
        inflateEnd(&source->z);
    source->gzip = GZIP_NONE;
}
#else
static acre_status gzip_start(struct source *source)
{
    return status_fail(ACRE_ERR_UNSUPPORTED,
                       "%s is gzip and this build has no zlib; decompress it first: gzip -d",
                       source->path);
}

static acre_status gzip_read(struct source *source, void *buffer, size_t capacity,
                             size_t *out_count)
{
    (void)buffer, (void)capacity, (void)out_count;
    return gzip_start(source);
}

static void gzip_stop(struct source *source)
{
    (void)source;
}
#endif

/* Reads the first bytes and tells the kind. A pipe may give them one by one. */
static acre_status source_begin(struct source *source)
{
    acre_status status = source_refill(source);

    if (status != ACRE_OK || source->is_end)
        return status;
    if (source->input_count == 1 && source->input[0] == 0x1f) {
        ssize_t got = read(source->fd, source->input + 1, 1);
        if (got < 0)
            return fail_io(source, "cannot read");
        source->input_count += (size_t)got;
        source->read_bytes += (uint64_t)got;
    }
    return at_gzip(source) ? gzip_start(source) : ACRE_OK;
}

acre_status source_open(const char *path, struct source **out)
{
    acre_status status = ACRE_ERR_HOST_MEMORY;
    struct source *source = heap_zalloc(sizeof *source);
    struct stat facts;

    if (!source)
        return status;
    source->fd = -1;
    source->path = heap_strdup(path);
    if (!source->path)
        goto close;
    source->fd = open(path, O_RDONLY | O_CLOEXEC);
    if (source->fd < 0) {
        status = fail_io(source, "cannot open");
        goto close;
    }
    if (fstat(source->fd, &facts) == 0 && S_ISREG(facts.st_mode))
        source->file_bytes = (uint64_t)facts.st_size;
    status = source_begin(source);
    if (status != ACRE_OK)
        goto close;
    *out = source;
    return ACRE_OK;

close:
    source_close(source);
    return status;
}

void source_close(struct source *source)
{
    if (!source)
        return;
    gzip_stop(source);
    if (source->fd >= 0)
        close(source->fd);
    heap_free(source->peeked);
    heap_free(source->path);
    heap_free(source);
}

static acre_status read_on(struct source *source, void *buffer, size_t capacity, size_t *out_count)
{
    if (source->gzip != GZIP_NONE)
        return gzip_read(source, buffer, capacity, out_count);
    if (source->input_at == source->input_count && capacity >= INPUT_BYTES)
        return source_fetch(source, buffer, capacity, out_count);
    acre_status status = source_refill(source);
    if (status != ACRE_OK)
        return status;
    size_t count = source->input_count - source->input_at;
    if (count > capacity)
        count = capacity;
    memcpy(buffer, source->input + source->input_at, count);
    source->input_at += count;
    *out_count = count;
    return ACRE_OK;
}

acre_status source_read(struct source *source, void *buffer, size_t capacity, size_t *out_count)
{
    size_t count = source->peeked_count - source->peeked_at;

    if (count == 0)
        return read_on(source, buffer, capacity, out_count);
    if (count > capacity)
        count = capacity;
    memcpy(buffer, source->peeked + source->peeked_at, count);
    source->peeked_at += count;
    *out_count = count;
    return ACRE_OK;
}

acre_status source_peek(struct source *source, const char **out, size_t *out_count)
{
    size_t got = 1;

    if (!source->peeked)
        source->peeked = heap_alloc(PEEK_BYTES + 1);
    if (!source->peeked)
        return ACRE_ERR_HOST_MEMORY;
    while (got > 0 && source->peeked_count < PEEK_BYTES) {
        acre_status status = read_on(source, source->peeked + source->peeked_count,
                                     PEEK_BYTES - source->peeked_count, &got);
        if (status != ACRE_OK)
            return status;
        source->peeked_count += got;
    }
    source->peeked[source->peeked_count] = '\0';
    *out = source->peeked;
    *out_count = source->peeked_count;
    return ACRE_OK;
}

acre_status source_rewind(struct source *source)
{
    gzip_stop(source);
    if (lseek(source->fd, 0, SEEK_SET) < 0)
        return fail_io(source, "cannot read a second time");
    source->peeked_at = source->peeked_count = 0;
    source->read_bytes = 0;
    source->input_at = source->input_count = 0;
    source->is_end = false;
    return source_begin(source);
}

void source_progress(const struct source *source, uint64_t *out_done, uint64_t *out_total)
{
    *out_done = source->read_bytes - (source->input_count - source->input_at);
    *out_total = source->file_bytes;
}

bool source_is_gzip(const struct source *source)
{
    return source->gzip != GZIP_NONE;
}
