/* SPDX-License-Identifier: MIT */
/* Byte strings as small numbers: the same bytes give the same number.
 *
 * Numbers count from 0 in order of arrival. The bytes are kept one behind the
 * other; offsets[i] to offsets[i + 1] is string i. Strings may hold any byte.
 *
 * Not thread-safe.
 */
#ifndef SRC_VIEW_INTERN_H
#define SRC_VIEW_INTERN_H

#include <acre/base.h>

struct intern {
    unsigned char *bytes;    /* all strings                                    */
    size_t bytes_capacity;
    size_t *offsets;         /* count + 1 of them; NULL while count is 0       */
    size_t offsets_capacity;
    uint32_t *slots;         /* number + 1, 0: empty; at most half are in use  */
    size_t slot_count;       /* 0 or a power of two                            */
    uint32_t count;
};

void intern_fini(struct intern *intern); /* a zeroed one is fine */
/* Errors: ACRE_ERR_HOST_MEMORY, ACRE_ERR_LIMIT (2^32 - 2 strings). */
acre_status intern_put(struct intern *intern, const void *bytes, size_t length, uint32_t *out);
/* The bytes of a number below count; valid until the next put. */
const void *intern_get(const struct intern *intern, uint32_t number, size_t *out_length);

#endif
