/* SPDX-License-Identifier: MIT */
/* Bytes made smaller, in the zlib form that browsers call "deflate". */
#ifndef SRC_FORMAT_DEFLATE_H
#define SRC_FORMAT_DEFLATE_H

#include <acre/base.h>

/* Gives a compressed copy, which the caller frees with heap_free; NULL with
 * ACRE_OK when it would not be smaller, or in a build without zlib.
 * Errors: ACRE_ERR_HOST_MEMORY. */
acre_status deflate_bytes(const void *bytes, size_t count, unsigned char **out,
                          size_t *out_count);

#endif
