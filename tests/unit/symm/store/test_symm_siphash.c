/* SPDX-License-Identifier: MIT */
#include "symm/store/siphash.h"

#include "tests/support/t.h"

/* The first two of the published vectors for 128 bits: key 00..0f, messages "" and 00. */
TEST(published_vectors)
{
    static const uint8_t expected[2][16] = {
        {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02,
         0x93},
        {0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc,
         0x45}};
    uint8_t key[16], message[1] = {0}, out[16];

    for (int i = 0; i < 16; i++)
        key[i] = (uint8_t)i;
    for (size_t bytes = 0; bytes < 2; bytes++) {
        siphash(key, message, bytes, out);
        EXPECT(memcmp(out, expected[bytes], 16) == 0);
        EXPECT(proof_is_equal(out, expected[bytes]));
        out[7] ^= 1;
        EXPECT(!proof_is_equal(out, expected[bytes]));
    }
}

TEST(every_bit_matters)
{
    uint8_t key[16] = {1}, message[40] = {0}, first[16], out[16];

    siphash(key, message, sizeof message, first);
    for (size_t bit = 0; bit < 8 * sizeof message; bit++) {
        message[bit / 8] ^= (uint8_t)(1u << bit % 8);
        siphash(key, message, sizeof message, out);
        EXPECT(!proof_is_equal(first, out));
        message[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

T_MAIN()
