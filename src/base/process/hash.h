/* SPDX-License-Identifier: MIT */
/* Hashes for tables whose keys come from files.
 *
 * They depend on a number that each process draws: were they always the same, a file could be
 * made whose keys all lie in one place of a table, and a few megabytes of it would take hours to
 * read. So nothing that is shown or written may depend on a hash, or on the order of a table.
 */
#ifndef SRC_BASE_HASH_H
#define SRC_BASE_HASH_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* What was drawn; 0: nothing yet. */
extern _Atomic uint64_t hash_secret;
uint64_t hash_secret_draw(void);

/* Of a number or an address: all bits of it reach all bits of the hash. */
static inline uint64_t hash_number(uint64_t number)
{
    uint64_t secret = atomic_load_explicit(&hash_secret, memory_order_relaxed);

    if (secret == 0)
        secret = hash_secret_draw();
    number ^= secret;
    number = (number ^ number >> 32) * 0xD6E8FEB86659FD93u;
    number ^= secret >> 17 | secret << 47;
    number = (number ^ number >> 32) * 0xD6E8FEB86659FD93u;
    return number ^ number >> 32;
}

/* Of bytes: SipHash-1-3 (Aumasson and Bernstein), which was made for this. */
uint64_t hash_bytes(const void *bytes, size_t count);

#endif
