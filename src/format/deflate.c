/* SPDX-License-Identifier: MIT */
#include "format/deflate.h"

#include "base/heap.h"

#ifdef ACRE_HAVE_ZLIB
#include <zlib.h>

/* Level 4 takes a third of the time of level 6 for a tenth more bytes. */
#define LEVEL 4

acre_status deflate_bytes(const void *bytes, size_t count, unsigned char **out, size_t *out_count)
{
    uLongf room = compressBound(count);
    unsigned char *made = heap_alloc(room);

    *out = NULL;
    *out_count = 0;
    if (!made)
        return ACRE_ERR_HOST_MEMORY;
    int code = compress2(made, &room, bytes, count, LEVEL);
    if (code != Z_OK || room >= count) {
        heap_free(made);
        return code == Z_MEM_ERROR ? ACRE_ERR_HOST_MEMORY : ACRE_OK;
    }
    *out = made;
    *out_count = room;
    return ACRE_OK;
}

#else

acre_status deflate_bytes(const void *bytes, size_t count, unsigned char **out, size_t *out_count)
{
    (void)bytes;
    (void)count;
    *out = NULL;
    *out_count = 0;
    return ACRE_OK;
}

#endif
