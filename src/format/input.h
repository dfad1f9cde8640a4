/* SPDX-License-Identifier: MIT */
/* Bytes of a source through a window, for readers that look at them one by one. */
#ifndef SRC_FORMAT_INPUT_H
#define SRC_FORMAT_INPUT_H

#include "format/source.h"

#include <stdbool.h>

#define INPUT_WINDOW ((size_t)1 << 18)
/* Bytes behind the window that may be read, and mean nothing. */
#define INPUT_PADDING ((size_t)512)

struct input {
    struct source *source;
    const char *path;       /* for messages                                     */
    unsigned char *window;  /* INPUT_WINDOW bytes, and INPUT_PADDING            */
    size_t at, count;       /* next byte, and bytes in the window               */
    uint64_t base;          /* offset of the window in the decompressed data    */
    bool is_end;            /* the source has no more                           */
    char *scratch;          /* for texts that are larger than the window        */
    size_t scratch_capacity;
};

/* Errors: those of source_open and source_read. */
acre_status input_open(struct input *input, const char *path);

/* The same for a source that is open. It is owned afterwards, or closed. */
acre_status input_adopt(struct input *input, const char *path, struct source *source);
void input_close(struct input *input); /* a zeroed one is fine */

/* Brings the next count bytes, at most INPUT_WINDOW, into the window. False in
 * *out: the data ends before. */
acre_status input_fill(struct input *input, size_t count, bool *out);

/* Whether the next count bytes are in the window, without reading. */
static inline bool input_has(const struct input *input, size_t count)
{
    return input->count - input->at >= count;
}

static inline uint64_t input_offset(const struct input *input)
{
    return input->base + input->at;
}

/* Takes length bytes, valid until the next call; memory is taken as they come.
 * Errors: ACRE_ERR_FORMAT when the data ends before. */
acre_status input_take(struct input *input, uint64_t length, const char **out);

/* Reads what is left, so that damage at the end of a gzip file is noticed. */
acre_status input_drain(struct input *input);

#endif
