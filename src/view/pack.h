/* SPDX-License-Identifier: MIT */
/* Bytes under construction, and numbers in them.
 *
 * A number takes seven bits a byte, lowest first, the top bit telling that more
 * follow. A difference is folded first, so that small ones of either sign are
 * short: 0, -1, 1, -2 become 0, 1, 2, 3. view/decode.js reads both.
 *
 * Failed growth is kept and told by pack_status, so that callers need not look
 * after every number.
 */
#ifndef SRC_VIEW_PACK_H
#define SRC_VIEW_PACK_H

#include <acre/base.h>

#include <stdbool.h>

struct pack {
    unsigned char *bytes;
    size_t count, capacity;
    uint64_t last;     /* what the next difference is taken from */
    bool is_lost;      /* memory ran out                         */
};

void pack_fini(struct pack *pack); /* a zeroed one is fine            */
void pack_clear(struct pack *pack); /* keeps its memory               */
void pack_bytes(struct pack *pack, const void *bytes, size_t count);
void pack_text(struct pack *pack, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A JSON string with its quotes, safe inside a script element: '<' and what is
 * not UTF-8 are written as escapes. */
void pack_json(struct pack *pack, const char *text, size_t length);
void pack_number(struct pack *pack, uint64_t value);
/* The difference to the number before, modulo 2^64. */
void pack_step(struct pack *pack, uint64_t value);
/* ACRE_OK, or ACRE_ERR_HOST_MEMORY. */
acre_status pack_status(const struct pack *pack);

#endif
