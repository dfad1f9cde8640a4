/* SPDX-License-Identifier: MIT */
#include "base/process/hash.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

_Atomic uint64_t hash_secret;

uint64_t hash_secret_draw(void)
{
    uint64_t drawn = 0, none = 0;
    struct timespec now;

    if (getrandom(&drawn, sizeof drawn, GRND_NONBLOCK) != sizeof drawn) {
        clock_gettime(CLOCK_REALTIME, &now); /* harder to guess than nothing */
        drawn = (uint64_t)now.tv_nsec * 0x9E3779B97F4A7C15u ^ (uintptr_t)&now;
    }
    drawn |= 1;
    return atomic_compare_exchange_strong(&hash_secret, &none, drawn) ? drawn : none;
}

static inline uint64_t turn_left(uint64_t word, int bits)
{
    return word << bits | word >> (64 - bits);
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = turn_left(v[1], 13) ^ v[0];
    v[3] = turn_left(v[3], 16) ^ v[2];
    v[0] = turn_left(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = turn_left(v[1], 17) ^ v[2];
    v[3] = turn_left(v[3], 21) ^ v[0];
    v[2] = turn_left(v[2], 32);
}

static inline void sip_take(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

uint64_t hash_bytes(const void *bytes, size_t count)
{
    uint64_t key = hash_number(0), more = hash_number(1), word;
    uint64_t v[4] = {key ^ 0x736f6d6570736575u, more ^ 0x646f72616e646f6du,
                     key ^ 0x6c7967656e657261u, more ^ 0x7465646279746573u};
    const unsigned char *at = bytes;
    size_t left = count;

    for (; left >= sizeof word; at += sizeof word, left -= sizeof word) {
        memcpy(&word, at, sizeof word);
        sip_take(v, word);
    }
    word = 0;
    memcpy(&word, at, left);
    sip_take(v, word | (uint64_t)count << 56);
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
