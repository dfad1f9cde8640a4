/* SPDX-License-Identifier: MIT */
/* The bytes of a file, plain or gzip; which one is told by its first bytes.
 *
 * Memory is bounded: one buffer of the file and what zlib needs. A gzip file may
 * have several members; behind the last only zeros may stand. One that ends
 * early or does not check out is an error, so that nothing is lost unnoticed.
 * Without zlib in the build, gzip is refused by name.
 */
#ifndef SRC_FORMAT_SOURCE_H
#define SRC_FORMAT_SOURCE_H

#include <acre/base.h>

#include <stdbool.h>

struct source;

/* Opens a file. Errors: ACRE_ERR_IO (errno), ACRE_ERR_UNSUPPORTED (no zlib),
 * ACRE_ERR_HOST_MEMORY. */
acre_status source_open(const char *path, struct source **out);
void source_close(struct source *source); /* NULL is fine */

/* Reads up to capacity bytes; 0 at the end and only there.
 * Errors: ACRE_ERR_IO, ACRE_ERR_FORMAT (damaged or truncated gzip). */
acre_status source_read(struct source *source, void *buffer, size_t capacity, size_t *out_count);

/* What comes first, 64 KiB or all there is, with a zero byte behind it; it is read again later.
 * Before the first read. Errors: those of source_read, ACRE_ERR_HOST_MEMORY. */
acre_status source_peek(struct source *source, const char **out, size_t *out_count);

/* Starts again at the first byte. Errors: ACRE_ERR_IO (a pipe cannot). */
acre_status source_rewind(struct source *source);

/* How far the file was read and how large it is, in its own bytes; 0 when the
 * size cannot be known. */
void source_progress(const struct source *source, uint64_t *out_done, uint64_t *out_total);

bool source_is_gzip(const struct source *source);

#endif
