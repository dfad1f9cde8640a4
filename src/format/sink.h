/* SPDX-License-Identifier: MIT */
/* A file being written, plain or gzip, that appears whole or not at all.
 *
 * A terminal gets text only, made harmless: names in it come out of files.
 *
 * newfile.h says where the bytes are until then. After the first failure nothing
 * more is written, and sink_finish tells it.
 *
 *   sink_open ──► sink_put ... ──► sink_finish     the file is there
 *                              └─► sink_abandon    nothing is there
 */
#ifndef SRC_FORMAT_SINK_H
#define SRC_FORMAT_SINK_H

#include "format/newfile.h"

#include <stdbool.h>
#include <string.h>

#define SINK_BUFFER ((size_t)1 << 17)

struct sink {
    struct newfile file;
    char *path;            /* as the caller wrote it, for messages            */
    acre_status failed;    /* of the first failure                            */
    void *gzip;            /* a z_stream, or NULL                             */
    unsigned char *packed; /* SINK_BUFFER bytes for its output                */
    unsigned char *buffer; /* SINK_BUFFER bytes                               */
    size_t count;          /* bytes in buffer                                 */
    uint64_t total;        /* bytes that left the buffer, before compression  */
    bool is_terminal;      /* constant                                        */
    char held[5];          /* of a character that is not whole; a string      */
};

/* gzip: compress. Errors: those of newfile_open, ACRE_ERR_UNSUPPORTED (gzip without zlib),
 * ACRE_ERR_INVALID (gzip to a terminal), ACRE_ERR_HOST_MEMORY. */
acre_status sink_open(struct sink *sink, const char *path, bool gzip);
/* Refuses to write bytes that are no text to a terminal. Errors: ACRE_ERR_INVALID. */
acre_status sink_check_binary(const struct sink *sink);
/* Writes what is left and gives the file its name. The sink is gone in any case.
 * Errors: ACRE_ERR_IO, ACRE_ERR_LIMIT (sink_limit_set). */
acre_status sink_finish(struct sink *sink);
void sink_abandon(struct sink *sink);

/* Limits what is written into each file, before compression; 0: no limit (default). A sink that
 * would exceed the limit fails with ACRE_ERR_LIMIT. */
void sink_limit_set(uint64_t bytes);
/* For writers that know early that a file needs at least so many bytes: fails the sink if the limit
 * forbids them, before anything is written. */
void sink_expect(struct sink *sink, uint64_t bytes);

void sink_flush(struct sink *sink);
void sink_put_long(struct sink *sink, const void *bytes, size_t count);

static inline void sink_put(struct sink *sink, const void *bytes, size_t count)
{
    if (count > SINK_BUFFER - sink->count) {
        sink_put_long(sink, bytes, count);
        return;
    }
    memcpy(sink->buffer + sink->count, bytes, count);
    sink->count += count;
}

static inline void sink_byte(struct sink *sink, unsigned char byte)
{
    sink_put(sink, &byte, 1);
}

/* Text, and decimal numbers. */
void sink_text(struct sink *sink, const char *text);
void sink_unsigned(struct sink *sink, uint64_t number);
void sink_integer(struct sink *sink, int64_t number);

#endif
