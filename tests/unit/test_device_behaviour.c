/* SPDX-License-Identifier: MIT */
/* The behaviours D1 to D29 of the reference device, through the calls of Acre.
 * tests/openreg has the same list through libopenreg.so. */
#include "tests/unit/device_behaviour.h"

/* ---- Devices ------------------------------------------------------------------ */

DEVICE_TEST(D1_there_are_two_devices)
{
    acre_device *device = NULL;

    EXPECT_EQ(acre_backend_device_count(backend), 2);
    EXPECT_EQ(acre_backend_device(backend, 2, &device), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_backend_device(backend, -1, &device), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_backend_device(backend, 0, NULL), ACRE_ERR_INVALID);
    EXPECT_PTR_EQ(device, NULL);
}

struct seen {
    int at_start, after_set;
};

static void look_and_set(void *arg)
{
    struct seen *seen = arg;

    acre_device_current(ACRE_DEVICE_PRIVATE, &seen->at_start);
    acre_device_set(ACRE_DEVICE_PRIVATE, 1);
    acre_device_current(ACRE_DEVICE_PRIVATE, &seen->after_set);
}

DEVICE_TEST(D2_the_current_device_is_of_the_thread)
{
    struct seen seen = {-1, -1};
    int mine = -1;

    REQUIRE_OK(acre_device_set(ACRE_DEVICE_PRIVATE, 1));
    on_thread(look_and_set, &seen);
    EXPECT_EQ(seen.at_start, 0);
    EXPECT_EQ(seen.after_set, 1);
    REQUIRE_OK(acre_device_set(ACRE_DEVICE_PRIVATE, 0));
    on_thread(look_and_set, &seen);
    REQUIRE_OK(acre_device_current(ACRE_DEVICE_PRIVATE, &mine));
    EXPECT_EQ(mine, 0);
}

DEVICE_TEST(D3_bad_devices_change_nothing)
{
    int mine = -1;

    REQUIRE_OK(acre_device_set(ACRE_DEVICE_PRIVATE, 1));
    EXPECT_EQ(acre_device_set(ACRE_DEVICE_PRIVATE, -1), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_device_set(ACRE_DEVICE_PRIVATE, 2), ACRE_ERR_RANGE);
    REQUIRE_OK(acre_device_current(ACRE_DEVICE_PRIVATE, &mine));
    EXPECT_EQ(mine, 1);
    REFUSED(acre_device_current(ACRE_DEVICE_PRIVATE, NULL));
    REQUIRE_OK(acre_device_set(ACRE_DEVICE_PRIVATE, 0));
}

DEVICE_TEST(D4_priorities_are_0_and_1)
{
    acre_device_info info = {.struct_size = sizeof info};

    REQUIRE_OK(acre_device_info_get(d[1], &info));
    EXPECT_EQ(info.priority_least, 0);
    EXPECT_EQ(info.priority_greatest, 1);
    REFUSED(acre_device_info_get(d[1], NULL));
}

DEVICE_TEST(D5_a_task_sees_device_0)
{
    struct seen seen = {-1, -1};
    void *stream = NULL;

    REQUIRE_OK(acre_device_set(ACRE_DEVICE_PRIVATE, 1));
    REQUIRE_OK(acre_stream_native_create(d[1], 0, 0, &stream));
    REQUIRE_OK(acre_launch_host(d[1], stream, look_and_set, &seen));
    REQUIRE_OK(acre_stream_native_synchronize(d[1], stream));
    EXPECT_EQ(seen.at_start, 0);
    REQUIRE_OK(acre_stream_native_destroy(d[1], stream));
    REQUIRE_OK(acre_device_set(ACRE_DEVICE_PRIVATE, 0));
}

/* ---- Memory ------------------------------------------------------------------- */

DEVICE_TEST(D6_device_memory_is_page_aligned_and_closed)
{
    void *block = NULL;

    REQUIRE_OK(acre_device_alloc(d[0], 100, &block));
    REQUIRE(block != NULL);
    EXPECT_EQ((uintptr_t)block % page_size(), 0);
    EXPECT(read_faults(block));
    EXPECT(read_faults((char *)block + page_size() - 1));
    REQUIRE_OK(acre_device_free(d[0], block));
}

DEVICE_TEST(D7_sizes_that_cannot_be)
{
    static const size_t absurd[] = {(size_t)1 << 60, SIZE_MAX, SIZE_MAX - 4096};
    void *out = &out;

    for (size_t i = 0; i < sizeof absurd / sizeof absurd[0]; i++) {
        EXPECT_EQ(acre_device_alloc(d[0], absurd[i], &out), ACRE_ERR_DEVICE_MEMORY);
        EXPECT_NE(acre_host_alloc(d[0], absurd[i], &out), ACRE_OK);
    }
    REFUSED(acre_device_alloc(d[0], 0, &out));
    REFUSED(acre_host_alloc(d[0], 0, &out));
    REFUSED(acre_device_alloc(d[0], 16, NULL));
    REFUSED(acre_host_alloc(d[0], 16, NULL));
    EXPECT_PTR_EQ(out, &out);
}

DEVICE_TEST(D8_free_takes_the_base_once)
{
    void *block = new_block(d[0], 3 * page_size(), 7), *host = NULL;
    int foreign = 0;

    REQUIRE_OK(acre_device_free(d[0], NULL));
    REQUIRE_OK(acre_host_free(d[0], NULL));
    REFUSED(acre_device_free(d[0], (char *)block + 1));
    REFUSED(acre_device_free(d[0], (char *)block + page_size()));
    REFUSED(acre_device_free(d[1], block));
    EXPECT(block_is(d[0], block, 3 * page_size(), 7));
    REQUIRE_OK(acre_device_free(d[0], block));
    REFUSED(acre_device_free(d[0], block));
    REFUSED(acre_device_free(d[0], &foreign));
    REQUIRE_OK(acre_host_alloc(d[0], 64, &host));
    REFUSED(acre_host_free(d[0], (char *)host + 1));
    REQUIRE_OK(acre_host_free(d[0], host));
    REFUSED(acre_host_free(d[0], host));
}

DEVICE_TEST(D9_cross_family_free_is_refused)
{
    void *block = new_block(d[0], 64, 5), *host = NULL;

    REQUIRE_OK(acre_host_alloc(d[0], 64, &host));
    REFUSED(acre_host_free(d[0], block));
    REFUSED(acre_device_free(d[0], host));
    EXPECT(block_is(d[0], block, 64, 5));
    REQUIRE_OK(acre_device_free(d[0], block));
    REQUIRE_OK(acre_host_free(d[0], host));
}

static void expect_about(acre_device *device, const void *pointer, acre_memory_kind kind,
                         int index, const void *base, uint64_t bytes)
{
    acre_pointer_info info = {.struct_size = sizeof info};

    REQUIRE_OK(acre_pointer_info_get(device, pointer, &info));
    EXPECT_EQ(info.kind, kind);
    EXPECT_EQ(info.device, index);
    EXPECT_PTR_EQ(info.base, base);
    EXPECT_EQ(info.bytes, bytes);
}

DEVICE_TEST(D10_host_memory_is_open_and_known)
{
    unsigned char *host;
    void *out = NULL;

    REQUIRE_OK(acre_host_alloc(d[0], page_size() + 1, &out));
    host = out;
    EXPECT_EQ((uintptr_t)host % page_size(), 0);
    memset(host, 3, page_size() + 1);
    expect_about(d[0], host + 17, ACRE_MEMORY_HOST, -1, host, 2 * page_size());
    EXPECT(acre_host_is_pinned(d[1], host + page_size()));
    REQUIRE_OK(acre_host_free(d[0], host));
    EXPECT(!acre_host_is_pinned(d[1], host));
}

DEVICE_TEST(D11_attributes_of_the_page_rounded_extent)
{
    size_t page = page_size();
    char *block = new_block(d[1], page + 1, 0);
    int foreign = 0;

    expect_about(d[0], block, ACRE_MEMORY_DEVICE, 1, block, 2 * page);
    expect_about(d[1], block + 2 * page - 1, ACRE_MEMORY_DEVICE, 1, block, 2 * page);
    expect_about(d[0], &foreign, ACRE_MEMORY_UNMANAGED, -1, &foreign, 0);
    REQUIRE_OK(acre_device_free(d[1], block));
    expect_about(d[0], block + 1, ACRE_MEMORY_UNMANAGED, -1, block + 1, 0);
}

DEVICE_TEST(D12_attributes_need_both_arguments)
{
    acre_pointer_info info = {sizeof info, ACRE_MEMORY_HOST, 42, NULL, 7};

    REFUSED(acre_pointer_info_get(d[0], NULL, &info));
    EXPECT_EQ(info.device, 42);
    REFUSED(acre_pointer_info_get(d[0], &info, NULL));
}

struct owned {
    acre_device *device;
    void *block;
};

static void expect_device_1(void *arg)
{
    struct owned *owned = arg;

    expect_about(owned->device, owned->block, ACRE_MEMORY_DEVICE, 1, owned->block,
                 page_size());
}

DEVICE_TEST(D13_a_block_of_device_1_says_so_everywhere)
{
    struct owned owned = {d[0], NULL};

    REQUIRE_OK(acre_device_alloc(d[1], 1, &owned.block));
    expect_device_1(&owned);
    on_thread(expect_device_1, &owned);
    REQUIRE_OK(acre_device_free(d[1], owned.block));
}

DEVICE_TEST(D14_bytes_survive_the_round_trip)
{
    enum { BYTES = 300001 };
    static unsigned char from[BYTES], to[BYTES];
    uint64_t state = t_seed();

    for (int i = 0; i < BYTES; i++)
        from[i] = (unsigned char)t_random(&state);
    for (int other = 0; other < 2; other++) {
        void *first = new_block(d[0], BYTES, 0), *second = new_block(d[other], BYTES, 1);

        memset(to, 0, BYTES);
        REQUIRE_OK(acre_copy(d[0], first, from, BYTES, ACRE_COPY_HOST_TO_DEVICE));
        REQUIRE_OK(acre_copy(d[0], second, first, BYTES, ACRE_COPY_DEVICE_TO_DEVICE));
        REQUIRE_OK(acre_copy(d[1], to, second, BYTES, ACRE_COPY_DEVICE_TO_HOST));
        EXPECT_EQ(memcmp(from, to, BYTES), 0);
        REQUIRE_OK(acre_device_free(d[0], first));
        REQUIRE_OK(acre_device_free(d[other], second));
    }
}

DEVICE_TEST(D15_each_wrong_pairing_is_refused_and_moves_nothing)
{
    int tried = 0;

    for (int at = 0; at < 16; at++) {
        int kind = at / 4, dst_device = at / 2 % 2, src_device = at % 2;
        char host[2][64];
        void *block[2] = {new_block(d[0], 64, 1), new_block(d[1], 64, 2)};
        void *dst = dst_device ? block[0] : host[0], *src = src_device ? block[1] : host[1];

        memset(host[0], 1, 64);
        memset(host[1], 2, 64);
        if ((kind & 1) != dst_device || kind >> 1 != src_device) {
            REFUSED(acre_copy(d[0], dst, src, 64, (acre_copy_kind)kind));
            EXPECT(block_is(d[0], block[0], 64, 1));
            EXPECT_EQ(host[0][0], 1);
            tried++;
        }
        REQUIRE_OK(acre_device_free(d[0], block[0]));
        REQUIRE_OK(acre_device_free(d[1], block[1]));
    }
    EXPECT_EQ(tried, 12);
}

DEVICE_TEST(D16_D17_copies_of_nothing_and_of_unknown_kind_are_refused)
{
    void *block = new_block(d[0], 64, 3);
    char host[64] = {0};

    REFUSED(acre_copy(d[0], block, host, 0, ACRE_COPY_HOST_TO_DEVICE));
    REFUSED(acre_copy(d[0], NULL, host, 64, ACRE_COPY_HOST_TO_DEVICE));
    REFUSED(acre_copy(d[0], block, NULL, 64, ACRE_COPY_HOST_TO_DEVICE));
    REFUSED(acre_copy(d[0], block, host, 64, (acre_copy_kind)4));
    REFUSED(acre_copy(d[0], block, host, 64, (acre_copy_kind)7));
    EXPECT(block_is(d[0], block, 64, 3));
    REQUIRE_OK(acre_device_free(d[0], block));
}

DEVICE_TEST(D18_a_copy_past_the_end_is_refused_and_moves_nothing)
{
    size_t page = page_size();
    char *host = calloc(3, page), *block = new_block(d[0], page, 4);

    REFUSED(acre_copy(d[0], block, host, page + 1, ACRE_COPY_HOST_TO_DEVICE));
    REFUSED(acre_copy(d[0], block + 100, host, page - 99, ACRE_COPY_HOST_TO_DEVICE));
    REFUSED(acre_copy(d[0], block, host, SIZE_MAX, ACRE_COPY_HOST_TO_DEVICE));
    REFUSED(acre_copy(d[0], host, block, page + 1, ACRE_COPY_DEVICE_TO_HOST));
    EXPECT(block_is(d[0], block, page, 4));
    EXPECT_EQ(host[0], 0);
    REQUIRE_OK(acre_device_free(d[0], block));
    free(host);
}

DEVICE_TEST(D19_overlapping_ranges_copy_as_through_a_buffer)
{
    enum { BYTES = 10000 };
    static const int moves[][2] = {{0, 1}, {1, 0}, {0, 4097}, {4097, 0}, {100, 163}};
    static unsigned char model[BYTES], back[BYTES];
    char *block = new_block(d[0], BYTES, 0);

    for (int i = 0; i < BYTES; i++)
        model[i] = (unsigned char)(i * 7 + i / 256);
    REQUIRE_OK(acre_copy(d[0], block, model, BYTES, ACRE_COPY_HOST_TO_DEVICE));
    for (size_t i = 0; i < sizeof moves / sizeof moves[0]; i++) {
        memmove(model + moves[i][0], model + moves[i][1], 5000);
        REQUIRE_OK(acre_copy(d[0], block + moves[i][0], block + moves[i][1], 5000,
                             ACRE_COPY_DEVICE_TO_DEVICE));
        REQUIRE_OK(acre_copy(d[0], back, block, BYTES, ACRE_COPY_DEVICE_TO_HOST));
        REQUIRE_EQ(memcmp(model, back, BYTES), 0);
    }
    REQUIRE_OK(acre_device_free(d[0], block));
}

DEVICE_TEST(D20_copies_leave_the_block_closed)
{
    void *block = new_block(d[0], 64, 1);
    char host[64] = {0};

    REQUIRE_OK(acre_copy(d[0], host, block, 64, ACRE_COPY_DEVICE_TO_HOST));
    EXPECT(read_faults(block));
    REFUSED(acre_copy(d[0], host, block, 64, ACRE_COPY_HOST_TO_DEVICE));
    EXPECT(read_faults(block));
    REQUIRE_OK(acre_device_free(d[0], block));
}

DEVICE_TEST(D21_fresh_memory_is_zero)
{
    for (int round = 0; round < 8; round++) {
        void *block = NULL;

        REQUIRE_OK(acre_device_alloc(d[0], 20000, &block));
        EXPECT(block_is(d[0], block, 20000, 0));
        block_set(d[0], block, 20000, 0xee);
        REQUIRE_OK(acre_device_free(d[0], block));
    }
}

/* ---- Windows ------------------------------------------------------------------ */

DEVICE_TEST(D22_D23_D24_windows_nest_and_open_the_whole_block)
{
    size_t page = page_size();
    volatile unsigned char *block = new_block(d[0], 3 * page, 7);
    void *base = (void *)block, *middle = (void *)(block + page + 17);

    EXPECT(read_faults(base));
    REQUIRE_OK(acre_access_open(d[0], middle));
    EXPECT_EQ(block[0], 7);
    block[3 * page - 1] = 8;
    REQUIRE_OK(acre_access_open(d[1], base));
    REQUIRE_OK(acre_access_close(d[0], base));
    EXPECT_EQ(block[3 * page - 1], 8);
    REQUIRE_OK(acre_access_close(d[0], middle));
    EXPECT(read_faults(base));
    EXPECT(read_faults(middle));
    EXPECT(block_is(d[0], (char *)base + 3 * page - 1, 1, 8));
    REQUIRE_OK(acre_device_free(d[0], base));
}

/* At this level a foreign pointer is a mistake or nothing, never a change. */
DEVICE_TEST(D25_windows_of_other_memory_change_nothing)
{
    void *block = new_block(d[0], 64, 1), *host = NULL;
    int foreign = 5;

    REQUIRE_OK(acre_host_alloc(d[0], 64, &host));
    (void)acre_access_open(d[0], &foreign);
    (void)acre_access_close(d[0], &foreign);
    (void)acre_access_open(d[0], host);
    (void)acre_access_close(d[0], host);
    foreign++;
    memset(host, 3, 64);
    EXPECT(read_faults(block));
    REQUIRE_OK(acre_device_free(d[0], block));
    REQUIRE_OK(acre_host_free(d[0], host));
}

DEVICE_TEST(D26_closing_a_closed_block_is_refused)
{
    volatile unsigned char *block = new_block(d[0], 64, 4);
    void *base = (void *)block;

    EXPECT_EQ(acre_access_close(d[0], base), ACRE_ERR_STATE);
    REQUIRE_OK(acre_access_open(d[0], base));
    EXPECT_EQ(block[1], 4);
    REQUIRE_OK(acre_access_close(d[0], base));
    EXPECT_EQ(acre_access_close(d[0], base), ACRE_ERR_STATE);
    EXPECT(read_faults(base));
    REQUIRE_OK(acre_device_free(d[0], base));
}

DEVICE_TEST(D27_D28_open_blocks_are_copied_and_freed)
{
    volatile unsigned char *block = new_block(d[0], 64, 4);
    void *base = (void *)block;

    REQUIRE_OK(acre_access_open(d[0], base));
    block_set(d[0], base, 64, 6);
    EXPECT_EQ(block[10], 6);
    REQUIRE_OK(acre_device_free(d[0], base));
    EXPECT(read_faults(base));
    REFUSED(acre_device_free(d[0], base));
}

static void touch(void *block)
{
    volatile unsigned char *bytes = block;

    EXPECT_EQ(bytes[3], 4);
    bytes[3] = 5;
}

DEVICE_TEST(D29_a_window_is_open_for_every_thread)
{
    void *block = new_block(d[0], 64, 4);

    REQUIRE_OK(acre_access_open(d[0], block));
    on_thread(touch, block);
    EXPECT_EQ(((volatile unsigned char *)block)[3], 5);
    REQUIRE_OK(acre_access_close(d[0], block));
    REQUIRE_OK(acre_device_free(d[0], block));
}

T_MAIN()
