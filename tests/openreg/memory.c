/* SPDX-License-Identifier: MIT */
/* D6 to D21: allocation, attributes, copies. */
#include "tests/openreg/support.h"

TEST(D6_device_memory_is_page_aligned_and_closed)
{
    void *block = NULL;

    OK(orMalloc(&block, 100));
    REQUIRE(block != NULL);
    EXPECT_EQ((uintptr_t)block % page_bytes(), 0);
    EXPECT(read_faults(block));
    EXPECT(write_faults(block));
    EXPECT(read_faults((char *)block + page_bytes() - 1));
    OK(orFree(block));
}

TEST(D7_sizes_that_cannot_be)
{
    static const size_t absurd[] = {0, (size_t)1 << 60, SIZE_MAX, SIZE_MAX - 4096,
                                    SIZE_MAX / 2 + 1};
    void *out = &out;

    for (size_t i = 0; i < sizeof absurd / sizeof absurd[0]; i++) {
        REFUSED(orMalloc(&out, absurd[i]));
        REFUSED(orMallocHost(&out, absurd[i]));
    }
    EXPECT_PTR_EQ(out, &out);
    REFUSED(orMalloc(NULL, 16));
    REFUSED(orMallocHost(NULL, 16));
}

TEST(D8_free_takes_the_base_once)
{
    void *block = device_block(3 * page_bytes(), 7), *host = NULL;
    int foreign = 0;

    OK(orFree(NULL));
    OK(orFreeHost(NULL));
    REFUSED(orFree((char *)block + 1));
    REFUSED(orFree((char *)block + page_bytes()));
    EXPECT(block_is(block, 3 * page_bytes(), 7));
    OK(orFree(block));
    REFUSED(orFree(block));
    REFUSED(orFree(&foreign));
    OK(orMallocHost(&host, 2 * page_bytes()));
    memset(host, 9, 2 * page_bytes());
    REFUSED(orFreeHost((char *)host + 1));
    EXPECT_EQ(((char *)host)[page_bytes()], 9);
    OK(orFreeHost(host));
    REFUSED(orFreeHost(host));
    REFUSED(orFreeHost(&foreign));
}

TEST(D9_cross_family_free_is_refused_and_the_block_intact)
{
    void *block = device_block(64, 5), *host = NULL;

    OK(orMallocHost(&host, 64));
    memset(host, 6, 64);
    REFUSED(orFreeHost(block));
    REFUSED(orFree(host));
    EXPECT(block_is(block, 64, 5));
    EXPECT_EQ(((char *)host)[63], 6);
    OK(orFree(block));
    OK(orFreeHost(host));
}

TEST(D10_host_memory_is_open_and_known)
{
    orPointerAttributes about;
    unsigned char *host;
    void *out = NULL;

    OK(orMallocHost(&out, 5000));
    host = (unsigned char *)out;
    EXPECT_EQ((uintptr_t)host % page_bytes(), 0);
    for (int i = 0; i < 5000; i++)
        host[i] = (unsigned char)i;
    for (int i = 0; i < 5000; i++)
        REQUIRE_EQ(host[i], (unsigned char)i);
    OK(orPointerGetAttributes(&about, host + 17));
    EXPECT_EQ(about.type, orMemoryTypeHost);
    EXPECT_EQ(about.device, -1);
    EXPECT_PTR_EQ(about.pointer, host);
    OK(orFreeHost(host));
}

static void expect_about(const void *ptr, orMemoryType type, int device, const void *base)
{
    orPointerAttributes about;

    OK(orPointerGetAttributes(&about, ptr));
    EXPECT_EQ(about.type, type);
    EXPECT_EQ(about.device, device);
    EXPECT_PTR_EQ(about.pointer, base);
}

/* Whether the byte past the end belongs to a neighbour is not ours to say, so
 * the block is freed first and asked about again. */
TEST(D11_attributes_of_the_page_rounded_extent)
{
    size_t page = page_bytes();
    char *block, *past;
    void *out = NULL;
    int foreign = 0;
    orPointerAttributes about;

    OK(orMalloc(&out, page + 1));
    block = (char *)out;
    past = block + 2 * page;
    expect_about(block, orMemoryTypeDevice, 0, block);
    expect_about(block + page + 1, orMemoryTypeDevice, 0, block);
    expect_about(past - 1, orMemoryTypeDevice, 0, block);
    OK(orPointerGetAttributes(&about, past));
    EXPECT(about.pointer != block);
    if (about.type == orMemoryTypeUnmanaged)
        expect_about(past, orMemoryTypeUnmanaged, -1, past);
    expect_about(&foreign, orMemoryTypeUnmanaged, -1, &foreign);
    OK(orFree(block));
    expect_about(block + 1, orMemoryTypeUnmanaged, -1, block + 1);
}

TEST(D12_attributes_need_both_arguments)
{
    orPointerAttributes about = {orMemoryTypeHost, 42, NULL};

    REFUSED(orPointerGetAttributes(&about, NULL));
    EXPECT_EQ(about.type, orMemoryTypeHost);
    EXPECT_EQ(about.device, 42);
    REFUSED(orPointerGetAttributes(NULL, &about));
    REFUSED(orPointerGetAttributes(NULL, NULL));
}

static void expect_device_1(void *block)
{
    expect_about(block, orMemoryTypeDevice, 1, block);
}

TEST(D13_a_block_of_device_1_says_so_everywhere)
{
    void *block = NULL;

    OK(orSetDevice(1));
    OK(orMalloc(&block, 1));
    expect_device_1(block);
    OK(orSetDevice(0));
    expect_device_1(block);
    on_thread(expect_device_1, block);
    OK(orFree(block));
}

TEST(D14_bytes_survive_the_round_trip)
{
    enum { BYTES = 300001 };
    static unsigned char from[BYTES], to[BYTES];
    void *first = NULL, *second = NULL;
    uint64_t state = t_seed();

    for (int i = 0; i < BYTES; i++)
        from[i] = (unsigned char)t_random(&state);
    for (int other = 0; other < 2; other++) {
        OK(orMalloc(&first, BYTES));
        OK(orSetDevice(other));
        OK(orMalloc(&second, BYTES));
        OK(orSetDevice(0));
        memset(to, 0, BYTES);
        OK(orMemcpy(first, from, BYTES, orMemcpyHostToDevice));
        OK(orMemcpy(second, first, BYTES, orMemcpyDeviceToDevice));
        OK(orMemcpy(to, second, BYTES, orMemcpyDeviceToHost));
        EXPECT_EQ(memcmp(from, to, BYTES), 0);
        OK(orFree(first));
        OK(orFree(second));
    }
}

TEST(D14_host_to_host_works_for_any_host_memory)
{
    char from[32] = "some words", to[32] = "";
    void *pinned = NULL;

    OK(orMallocHost(&pinned, 32));
    OK(orMemcpy(pinned, from, 32, orMemcpyHostToHost));
    OK(orMemcpy(to, pinned, 32, orMemcpyHostToHost));
    EXPECT_STR_EQ(to, from);
    OK(orFreeHost(pinned));
}

/* Sides: 0 and 1 are ordinary and pinned host memory, 2 is device memory. */
static void wrong_pairing(void *dst, int dst_side, void *src, int src_side, int kind)
{
    int fits = (kind & 1) == (dst_side == 2) && (kind >> 1) == (src_side == 2);
    orError_t error = orMemcpy(dst, src, 64, (orMemcpyKind)kind);

    if (fits)
        return;
    EXPECT_EQ(error, orErrorUnknown);
    if (dst_side == 2)
        EXPECT(block_is(dst, 64, 1));
    else
        EXPECT_EQ(((char *)dst)[0], 1);
}

TEST(D15_each_wrong_pairing_is_refused_and_moves_nothing)
{
    char plain[2][64];
    void *sides[2][3] = {{plain[0], NULL, NULL}, {plain[1], NULL, NULL}};

    for (int i = 0; i < 2; i++) {
        OK(orMallocHost(&sides[i][1], 64));
        OK(orMalloc(&sides[i][2], 64));
    }
    for (int at = 0; at < 36; at++) {
        int kind = at / 9, dst = at / 3 % 3, src = at % 3;

        for (int i = 0; i < 2; i++) {
            memset(sides[i][0], i + 1, 64);
            memset(sides[i][1], i + 1, 64);
            block_set(sides[i][2], 64, i + 1);
        }
        wrong_pairing(sides[0][dst], dst, sides[1][src], src, kind);
    }
    for (int i = 0; i < 2; i++) {
        OK(orFreeHost(sides[i][1]));
        OK(orFree(sides[i][2]));
    }
}

TEST(D16_copies_of_nothing_are_refused)
{
    void *block = device_block(64, 3);
    char host[64] = {0};

    REFUSED(orMemcpy(block, host, 0, orMemcpyHostToDevice));
    REFUSED(orMemcpy(NULL, host, 64, orMemcpyHostToDevice));
    REFUSED(orMemcpy(block, NULL, 64, orMemcpyHostToDevice));
    REFUSED(orMemcpy(NULL, NULL, 0, orMemcpyHostToHost));
    EXPECT(block_is(block, 64, 3));
    OK(orFree(block));
}

#ifndef __cplusplus /* where a value that the type has not cannot be passed */
TEST(D17_unknown_kinds_are_refused)
{
    static const int kinds[] = {4, 7, -1};
    char from[8] = "from", to[8] = "to";
    void *block = device_block(8, 2);

    for (int i = 0; i < 3; i++) {
        orMemcpyKind kind;

        memcpy(&kind, &kinds[i], sizeof kind);
        REFUSED(orMemcpy(to, from, 8, kind));
        REFUSED(orMemcpy(block, from, 8, kind));
    }
    EXPECT_STR_EQ(to, "to");
    EXPECT(block_is(block, 8, 2));
    OK(orFree(block));
}
#endif

TEST(D18_a_copy_past_the_end_is_refused_and_moves_nothing)
{
    size_t page = page_bytes();
    char *host = (char *)calloc(3, page), *block = (char *)device_block(page, 4);
    char *other = (char *)device_block(4 * page, 5);
    void *pinned = NULL;

    OK(orMallocHost(&pinned, page));
    REFUSED(orMemcpy(block, host, page + 1, orMemcpyHostToDevice));
    REFUSED(orMemcpy(block + 100, host, page - 99, orMemcpyHostToDevice));
    REFUSED(orMemcpy(block, other, 2 * page, orMemcpyDeviceToDevice));
    REFUSED(orMemcpy(block, host, SIZE_MAX, orMemcpyHostToDevice));
    REFUSED(orMemcpy(block, host, SIZE_MAX - (uintptr_t)host, orMemcpyHostToDevice));
    EXPECT(block_is(block, page, 4));
    REFUSED(orMemcpy(host, block, page + 1, orMemcpyDeviceToHost));
    EXPECT_EQ(host[0], 0);
    REFUSED(orMemcpy(pinned, other, page + 1, orMemcpyDeviceToHost));
    REFUSED(orMemcpy(other, (char *)pinned + 1, page, orMemcpyHostToDevice));
    EXPECT(block_is(other, 4 * page, 5));
    OK(orMemcpy(block + 100, host, page - 100, orMemcpyHostToDevice));
    OK(orFree(block));
    OK(orFree(other));
    OK(orFreeHost(pinned));
    free(host);
}

TEST(D19_overlapping_ranges_copy_as_through_a_buffer)
{
    enum { BYTES = 10000 };
    static unsigned char model[BYTES], back[BYTES];
    char *block = (char *)device_block(BYTES, 0);
    static const int moves[][2] = {{0, 1}, {1, 0}, {0, 4097}, {4097, 0}, {100, 163}, {50, 50}};

    for (int i = 0; i < BYTES; i++)
        model[i] = (unsigned char)(i * 7 + i / 256);
    OK(orMemcpy(block, model, BYTES, orMemcpyHostToDevice));
    for (size_t i = 0; i < sizeof moves / sizeof moves[0]; i++) {
        memmove(model + moves[i][0], model + moves[i][1], 5000);
        OK(orMemcpy(block + moves[i][0], block + moves[i][1], 5000, orMemcpyDeviceToDevice));
        OK(orMemcpy(back, block, BYTES, orMemcpyDeviceToHost));
        REQUIRE_EQ(memcmp(model, back, BYTES), 0);
    }
    OK(orFree(block));
}

TEST(D20_copies_leave_the_block_closed)
{
    void *block = device_block(64, 1);
    char host[64] = {0};

    EXPECT(read_faults(block));
    OK(orMemcpy(host, block, 64, orMemcpyDeviceToHost));
    EXPECT(read_faults(block));
    REFUSED(orMemcpy(host, block, 64, orMemcpyHostToDevice));
    EXPECT(read_faults(block));
    REFUSED(orMemcpy(host, block, 1 << 20, orMemcpyDeviceToHost));
    EXPECT(read_faults(block));
    OK(orMemcpy(block, block, 64, orMemcpyDeviceToDevice));
    EXPECT(read_faults(block));
    OK(orFree(block));
}

/* Blocks that held something are freed first, for memory to come back dirty. */
TEST(D21_fresh_memory_is_zero)
{
    void *blocks[8];

    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 8; i++) {
            OK(orMalloc(&blocks[i], 20000));
            EXPECT(block_is(blocks[i], 20000, 0));
            block_set(blocks[i], 20000, 0xee);
        }
        for (int i = 0; i < 8; i++)
            OK(orFree(blocks[i]));
    }
}
