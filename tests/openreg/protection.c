/* SPDX-License-Identifier: MIT */
/* D22 to D29: windows through which the host sees device memory. */
#include "tests/openreg/support.h"

TEST(D22_a_window_opens_and_closes)
{
    volatile unsigned char *block = (volatile unsigned char *)device_block(64, 7);
    void *base = (void *)block;

    EXPECT(read_faults(base));
    OK(orMemoryUnprotect(base));
    EXPECT_EQ(block[63], 7);
    block[0] = 8;
    EXPECT_EQ(block[0], 8);
    OK(orMemoryProtect(base));
    EXPECT(read_faults(base));
    EXPECT(write_faults(base));
    EXPECT(block_is(base, 1, 8));
    OK(orFree(base));
}

TEST(D23_windows_nest)
{
    volatile unsigned char *block = (volatile unsigned char *)device_block(64, 7);
    void *base = (void *)block;

    OK(orMemoryUnprotect(base));
    OK(orMemoryUnprotect(base));
    OK(orMemoryProtect(base));
    EXPECT_EQ(block[5], 7);
    OK(orMemoryProtect(base));
    EXPECT(read_faults(base));
    OK(orFree(base));
}

TEST(D24_an_interior_pointer_opens_the_whole_block)
{
    size_t page = page_bytes();
    volatile unsigned char *block = (volatile unsigned char *)device_block(3 * page, 9);
    void *middle = (void *)(block + page + 17);

    OK(orMemoryUnprotect(middle));
    EXPECT_EQ(block[0], 9);
    EXPECT_EQ(block[3 * page - 1], 9);
    OK(orMemoryProtect((void *)block));
    EXPECT(read_faults((void *)block));
    EXPECT(read_faults(middle));
    OK(orFree((void *)block));
}

TEST(D25_other_pointers_are_accepted_and_nothing_happens)
{
    void *block = device_block(64, 1), *pinned = NULL;
    int foreign = 5;

    OK(orMallocHost(&pinned, 64));
    memset(pinned, 3, 64);
    for (int i = 0; i < 2; i++) {
        OK(orMemoryProtect(NULL));
        OK(orMemoryUnprotect(NULL));
        OK(orMemoryProtect(&foreign));
        OK(orMemoryUnprotect(&foreign));
        OK(orMemoryProtect(pinned));
        OK(orMemoryUnprotect(pinned));
    }
    foreign++;
    EXPECT_EQ(foreign, 6);
    EXPECT_EQ(((char *)pinned)[63], 3);
    EXPECT(read_faults(block));
    OK(orFree(block));
    OK(orFreeHost(pinned));
}

TEST(D26_closing_a_closed_block_is_refused_and_the_next_opening_opens)
{
    volatile unsigned char *block = (volatile unsigned char *)device_block(64, 4);
    void *base = (void *)block;

    REFUSED(orMemoryProtect(base));
    REFUSED(orMemoryProtect(base));
    EXPECT(read_faults(base));
    OK(orMemoryUnprotect(base));
    EXPECT_EQ(block[1], 4);
    OK(orMemoryProtect(base));
    EXPECT(read_faults(base));
    REFUSED(orMemoryProtect(base));
    OK(orFree(base));
}

TEST(D27_a_copy_into_an_open_block_leaves_it_open)
{
    volatile unsigned char *block = (volatile unsigned char *)device_block(64, 4);
    void *base = (void *)block;

    OK(orMemoryUnprotect(base));
    block_set(base, 64, 6);
    EXPECT_EQ(block[10], 6);
    OK(orMemcpy(base, (char *)base + 8, 8, orMemcpyDeviceToDevice));
    block[11] = 7;
    OK(orMemoryProtect(base));
    EXPECT(read_faults(base));
    OK(orFree(base));
}

TEST(D28_an_open_block_can_be_freed)
{
    void *block = device_block(64, 4);

    OK(orMemoryUnprotect(block));
    OK(orMemoryUnprotect(block));
    OK(orFree(block));
    EXPECT(read_faults(block));
    EXPECT(write_faults(block));
    REFUSED(orFree(block));
}

static void touch(void *block)
{
    volatile unsigned char *bytes = (volatile unsigned char *)block;

    EXPECT_EQ(bytes[3], 4);
    bytes[3] = 5;
}

TEST(D29_a_window_is_open_for_every_thread)
{
    void *block = device_block(64, 4);

    OK(orMemoryUnprotect(block));
    on_thread(touch, block);
    EXPECT_EQ(((volatile unsigned char *)block)[3], 5);
    OK(orMemoryProtect(block));
    EXPECT(read_faults(block));
    OK(orFree(block));
}
