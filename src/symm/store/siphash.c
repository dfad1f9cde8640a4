/* SPDX-License-Identifier: MIT */
/* Written after the published description of SipHash (Aumasson and Bernstein). */
#include "symm/store/siphash.h"

#include <endian.h>
#include <string.h>

struct state {
    uint64_t v0, v1, v2, v3;
};

static uint64_t siphash_rotate(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static void siphash_rounds(struct state *s, int count)
{
    while (count-- > 0) {
        s->v0 += s->v1;
        s->v1 = siphash_rotate(s->v1, 13) ^ s->v0;
        s->v0 = siphash_rotate(s->v0, 32);
        s->v2 += s->v3;
        s->v3 = siphash_rotate(s->v3, 16) ^ s->v2;
        s->v0 += s->v3;
        s->v3 = siphash_rotate(s->v3, 21) ^ s->v0;
        s->v2 += s->v1;
        s->v1 = siphash_rotate(s->v1, 17) ^ s->v2;
        s->v2 = siphash_rotate(s->v2, 32);
    }
}

static uint64_t siphash_load64(const void *from)
{
    uint64_t x;

    memcpy(&x, from, 8);
    return le64toh(x);
}

static void siphash_store64(uint8_t *to, uint64_t x)
{
    x = htole64(x);
    memcpy(to, &x, 8);
}

void siphash(const uint8_t key[16], const void *data, size_t bytes, uint8_t out[PROOF_BYTES])
{
    uint64_t k0 = siphash_load64(key), k1 = siphash_load64(key + 8);
    struct state s = {k0 ^ 0x736f6d6570736575ull, k1 ^ 0x646f72616e646f6dull ^ 0xee,
                      k0 ^ 0x6c7967656e657261ull, k1 ^ 0x7465646279746573ull};
    const uint8_t *at = data;
    uint8_t tail[8] = {0};

    for (size_t left = bytes / 8; left; left--, at += 8) {
        uint64_t word = siphash_load64(at);
        s.v3 ^= word;
        siphash_rounds(&s, 2);
        s.v0 ^= word;
    }
    if (bytes % 8)
        memcpy(tail, at, bytes % 8);
    tail[7] = (uint8_t)bytes;
    s.v3 ^= siphash_load64(tail);
    siphash_rounds(&s, 2);
    s.v0 ^= siphash_load64(tail);
    s.v2 ^= 0xee;
    siphash_rounds(&s, 4);
    siphash_store64(out, s.v0 ^ s.v1 ^ s.v2 ^ s.v3);
    s.v1 ^= 0xdd;
    siphash_rounds(&s, 4);
    siphash_store64(out + 8, s.v0 ^ s.v1 ^ s.v2 ^ s.v3);
}

bool proof_is_equal(const uint8_t *a, const uint8_t *b)
{
    uint8_t differs = 0;

    for (int i = 0; i < PROOF_BYTES; i++)
        differs |= a[i] ^ b[i];
    return differs == 0;
}
