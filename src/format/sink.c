/* SPDX-License-Identifier: MIT */
#include "format/sink.h"

#include "base/heap.h"
#include "base/status.h"
#include "base/text.h"

#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#ifdef ACRE_HAVE_ZLIB
#include <zlib.h>
#endif

static _Atomic uint64_t limit_bytes; /* of each file; 0: none */

static acre_status fail_io(const char *path, const char *what)
{
    int code = errno;

    return status_fail_native(ACRE_ERR_IO, code, "%s %s: %s", what, path, strerror(code));
}

static void sink_free(struct sink *sink)
{
    newfile_abandon(&sink->file);
#ifdef ACRE_HAVE_ZLIB
    if (sink->gzip)
        deflateEnd(sink->gzip);
#endif
    heap_free(sink->gzip);
    heap_free(sink->packed);
    heap_free(sink->buffer);
    heap_free(sink->path);
    *sink = (struct sink){.file = {.fd = -1, .folder = -1, .slot = -1}};
}

void sink_abandon(struct sink *sink)
{
    sink_free(sink);
}

static acre_status gzip_begin(struct sink *sink)
{
#ifdef ACRE_HAVE_ZLIB
    z_stream *z = heap_zalloc(sizeof *z);

    if (!z)
        return ACRE_ERR_HOST_MEMORY;
    if (deflateInit2(z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        heap_free(z);
        return status_fail(ACRE_ERR_HOST_MEMORY, "%s: no memory to compress", sink->path);
    }
    sink->gzip = z;
    sink->packed = heap_alloc(SINK_BUFFER);
    return sink->packed ? ACRE_OK : ACRE_ERR_HOST_MEMORY;
#else
    return status_fail(ACRE_ERR_UNSUPPORTED,
                       "%s: this build cannot write gzip; give a name "
                       "without .gz",
                       sink->path);
#endif
}

acre_status sink_open(struct sink *sink, const char *path, bool gzip)
{
    *sink = (struct sink){.file = {.fd = -1, .folder = -1, .slot = -1}};
    sink->path = heap_strdup(path);
    sink->buffer = heap_alloc(SINK_BUFFER);
    acre_status status = sink->path && sink->buffer ? ACRE_OK : ACRE_ERR_HOST_MEMORY;

    if (status == ACRE_OK && gzip)
        status = gzip_begin(sink);
    if (status == ACRE_OK)
        status = newfile_open(&sink->file, path);
    if (status == ACRE_OK) {
        sink->is_terminal = isatty(sink->file.fd);
        status = gzip ? sink_check_binary(sink) : ACRE_OK;
    }
    if (status != ACRE_OK)
        sink_abandon(sink);
    return status;
}

acre_status sink_check_binary(const struct sink *sink)
{
    return sink->is_terminal
               ? status_fail(ACRE_ERR_INVALID,
                             "%s is a terminal, and what would be written is no text; "
                             "name a file, or redirect it",
                             strcmp(sink->path, "-") == 0 ? "standard output" : sink->path)
               : ACRE_OK;
}

/* ---- The limit -------------------------------------------------------------------------- */

void sink_limit_set(uint64_t bytes)
{
    atomic_store_explicit(&limit_bytes, bytes, memory_order_relaxed);
}

void sink_expect(struct sink *sink, uint64_t bytes)
{
    uint64_t limit = atomic_load_explicit(&limit_bytes, memory_order_relaxed);
    char wanted[TEXT_BYTES_MAX], most[TEXT_BYTES_MAX];

    if (limit == 0 || bytes <= limit || sink->failed != ACRE_OK)
        return;
    sink->failed =
        status_fail(ACRE_ERR_LIMIT,
                    "%s would take %s or more, and the limit is %s; raise it with --output-limit "
                    "(acre_output_limit_set)",
                    strcmp(sink->path, "-") == 0 ? "standard output" : sink->path,
                    text_bytes(wanted, bytes), text_bytes(most, limit));
}

/* ---- Writing ---------------------------------------------------------------------------- */

static void write_all(struct sink *sink, const unsigned char *bytes, size_t count)
{
    while (count > 0 && sink->failed == ACRE_OK) {
        ssize_t done = write(sink->file.fd, bytes, count);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0) {
            sink->failed = fail_io(sink->path, "cannot write");
            return;
        }
        bytes += done;
        count -= (size_t)done;
    }
}

/* Writes the character that is held, whole or not, as far as it is harmless. */
static void write_held(struct sink *sink)
{
    text_tame(sink->held);
    write_all(sink, (const unsigned char *)sink->held, strlen(sink->held));
    *sink->held = 0;
}

/* Writes text to a terminal. Runs of printable ASCII go out as they are. */
static void write_tame(struct sink *sink, const unsigned char *bytes, size_t count)
{
    const unsigned char *end = bytes + count;

    while (bytes < end && sink->failed == ACRE_OK) {
        const unsigned char *from = bytes;
        while (bytes < end && ((*bytes >= 0x20 && *bytes < 0x7f) || *bytes == '\n'))
            bytes++;
        if (bytes > from)
            write_held(sink);
        write_all(sink, from, (size_t)(bytes - from));
        if (bytes == end)
            break;
        size_t held = strlen(sink->held);
        if ((*bytes & 0xc0) != 0x80 || held == 4) {
            write_held(sink);
            held = 0;
        }
        sink->held[held] = *bytes ? (char)*bytes : '\x01'; /* either becomes "?" */
        sink->held[held + 1] = 0;
        bytes++;
    }
}

#ifdef ACRE_HAVE_ZLIB
static void write_packed(struct sink *sink, const unsigned char *bytes, size_t count, int how)
{
    z_stream *z = sink->gzip;
    int code = Z_OK;

    z->next_in = (unsigned char *)(uintptr_t)bytes;
    z->avail_in = (uInt)count;
    do {
        z->next_out = sink->packed;
        z->avail_out = (uInt)SINK_BUFFER;
        code = deflate(z, how);
        write_all(sink, sink->packed, SINK_BUFFER - z->avail_out);
    } while (z->avail_out == 0 || (how == Z_FINISH && code == Z_OK));
}
#endif

static void write_some(struct sink *sink, const unsigned char *bytes, size_t count)
{
    sink->total += count;
    sink_expect(sink, sink->total);
    if (sink->failed != ACRE_OK)
        return;
#ifdef ACRE_HAVE_ZLIB
    if (sink->gzip) {
        write_packed(sink, bytes, count, Z_NO_FLUSH);
        return;
    }
#endif
    if (sink->is_terminal)
        write_tame(sink, bytes, count);
    else
        write_all(sink, bytes, count);
}

void sink_flush(struct sink *sink)
{
    write_some(sink, sink->buffer, sink->count);
    sink->count = 0;
}

void sink_put_long(struct sink *sink, const void *bytes, size_t count)
{
    const unsigned char *at = bytes;

    sink_flush(sink);
    for (; count > SINK_BUFFER; at += SINK_BUFFER, count -= SINK_BUFFER)
        write_some(sink, at, SINK_BUFFER);
    memcpy(sink->buffer, at, count);
    sink->count = count;
}

acre_status sink_finish(struct sink *sink)
{
    acre_status status;

    sink_flush(sink);
#ifdef ACRE_HAVE_ZLIB
    if (sink->gzip && sink->failed == ACRE_OK)
        write_packed(sink, NULL, 0, Z_FINISH);
#endif
    write_held(sink);
    status = sink->failed;
    if (status == ACRE_OK)
        status = newfile_commit(&sink->file, sink->path);
    sink_free(sink);
    return status;
}

/* ---- Text -------------------------------------------------------------------------------- */

void sink_text(struct sink *sink, const char *text)
{
    sink_put(sink, text, strlen(text));
}

void sink_unsigned(struct sink *sink, uint64_t number)
{
    char digits[24];
    size_t at = sizeof digits;

    do
        digits[--at] = (char)('0' + number % 10);
    while (number /= 10);
    sink_put(sink, digits + at, sizeof digits - at);
}

void sink_integer(struct sink *sink, int64_t number)
{
    if (number < 0)
        sink_byte(sink, '-');
    sink_unsigned(sink, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}
