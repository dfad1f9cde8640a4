/* SPDX-License-Identifier: MIT */
/* Hashes that nobody outside can foretell. */
#include "base/process/hash.h"

#include "tests/support/t.h"

#include <string.h>

/* Numbers and texts of eight bytes that would share the low bits of their hashes if the secret
 * were known: equal hashes under one secret are spread under another. */
TEST(what_collides_under_one_secret_does_not_under_another)
{
    static uint64_t numbers[64], texts[64];
    int number_count = 0, text_count = 0, numbers_kept = 0, texts_kept = 0;

    atomic_store(&hash_secret, 12345);
    for (uint64_t i = 0; number_count < 64 || text_count < 64; i++) {
        if (number_count < 64 && hash_number(i) % 1024 == 0)
            numbers[number_count++] = i;
        if (text_count < 64 && hash_bytes(&i, sizeof i) % 1024 == 0)
            texts[text_count++] = i;
    }
    atomic_store(&hash_secret, 54321);
    for (int i = 0; i < 64; i++) {
        numbers_kept += hash_number(numbers[i]) % 1024 == hash_number(numbers[0]) % 1024;
        texts_kept += hash_bytes(&texts[i], 8) % 1024 == hash_bytes(&texts[0], 8) % 1024;
    }
    EXPECT_LE(numbers_kept, 4);
    EXPECT_LE(texts_kept, 4);
    atomic_store(&hash_secret, 0);
}

TEST(a_secret_is_drawn_once)
{
    atomic_store(&hash_secret, 0);
    uint64_t first = hash_number(7), secret = atomic_load(&hash_secret);

    EXPECT(secret != 0);
    EXPECT_EQ(hash_number(7), first);
    EXPECT_EQ(hash_secret_draw(), secret);
    EXPECT_EQ(atomic_load(&hash_secret), secret);
    atomic_store(&hash_secret, 0);
    hash_number(7);
    EXPECT(atomic_load(&hash_secret) != secret);
}

TEST(every_byte_and_the_length_count)
{
    unsigned char bytes[40] = {0};

    for (size_t count = 0; count < sizeof bytes; count++) {
        uint64_t hash = hash_bytes(bytes, count);
        EXPECT(hash != hash_bytes(bytes, count + 1));
        for (size_t i = 0; i < count; i++) {
            bytes[i] = 1;
            EXPECT(hash != hash_bytes(bytes, count));
            bytes[i] = 0;
        }
    }
}

/* Sequences, and addresses that are multiples of a large number, fill a table evenly. */
TEST(regular_numbers_are_spread)
{
    static int places[2][256];

    for (uint64_t i = 0; i < 65536; i++) {
        places[0][hash_number(i) % 256]++;
        places[1][hash_number(i << 21) % 256]++;
    }
    for (int i = 0; i < 256; i++)
        for (int kind = 0; kind < 2; kind++)
            EXPECT(places[kind][i] > 128 && places[kind][i] < 512);
}

T_MAIN()
