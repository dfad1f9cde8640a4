/* SPDX-License-Identifier: MIT */
/* Kernels whose pages are larger than those of the heap. */
#include "tests/unit/hostmem/heap_make.h"

#include "hostmem/pages.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { LARGE_PAGE = 65536 };

static bool has_large_pages;
static int dropped;

/* These two stand before those of the C library, and do what such a kernel does. */
int getpagesize(void)
{
    return has_large_pages ? LARGE_PAGE : (int)getauxval(AT_PAGESZ);
}

int madvise(void *base, size_t bytes, int advice)
{
    if (has_large_pages && (uintptr_t)base % LARGE_PAGE != 0) {
        errno = EINVAL;
        return -1;
    }
    dropped += has_large_pages && advice == MADV_DONTNEED;
    return (int)syscall(SYS_madvise, base,
                        has_large_pages ? round_up(bytes, LARGE_PAGE) : bytes, advice);
}

TEST(pages_inside_a_range_are_whole)
{
    char *base = (char *)(uintptr_t)(16 * LARGE_PAGE);

    has_large_pages = true;
    EXPECT_PTR_EQ(pages_inside(base, LARGE_PAGE).base, base);
    EXPECT_EQ(pages_inside(base, LARGE_PAGE).bytes, LARGE_PAGE);
    EXPECT_EQ(pages_inside(base, LARGE_PAGE - 1).bytes, 0);
    EXPECT_EQ(pages_inside(base + 1, LARGE_PAGE).bytes, 0);
    EXPECT_PTR_EQ(pages_inside(base + 4096, 3 * LARGE_PAGE).base, base + LARGE_PAGE);
    EXPECT_EQ(pages_inside(base + 4096, 3 * LARGE_PAGE).bytes, 2 * LARGE_PAGE);
    has_large_pages = false;
}

enum { BLOCKS = 48 };

static struct {
    unsigned char *base;
    size_t bytes;
} blocks[BLOCKS];

/* Bytes of a block that are not what they should be. */
static size_t wrong_bytes(int at, unsigned char value)
{
    size_t count = 0;

    for (size_t i = 0; i < blocks[at].bytes; i++)
        count += blocks[at].base[i] != value;
    return count;
}

/* Frees a block, which has kept its bytes, and allocates another, cleared or not. */
static void block_change(acre_hostmem *heap, int at, size_t bytes, bool is_cleared)
{
    void *out = NULL;

    REQUIRE_EQ(wrong_bytes(at, (unsigned char)(at + 1)), 0);
    REQUIRE_OK(acre_hostmem_free(heap, blocks[at].base));
    REQUIRE_OK(is_cleared ? acre_hostmem_calloc(heap, 1, bytes, &out)
                          : acre_hostmem_alloc(heap, bytes, &out));
    blocks[at].base = out;
    blocks[at].bytes = bytes;
    if (is_cleared)
        REQUIRE_EQ(wrong_bytes(at, 0), 0);
    memset(out, at + 1, bytes);
}

TEST(what_lies_beside_dropped_pages_stays)
{
    acre_hostmem *heap = heap_make(0, 0);
    uint32_t random = 1;
    uint64_t gone;

    has_large_pages = true;
    for (int turn = 0; turn < 1000; turn++) {
        random = random * 1664525 + 1013904223;
        block_change(heap, (int)(random >> 8) % BLOCKS, 262144 + (random >> 12) % 400000,
                     random >> 31);
        if (turn % 100 == 99)
            acre_hostmem_trim(heap, 0, &gone);
    }
    EXPECT(dropped > 100);
    for (int i = 0; i < BLOCKS; i++) {
        EXPECT_EQ(wrong_bytes(i, (unsigned char)(i + 1)), 0);
        REQUIRE_OK(acre_hostmem_free(heap, blocks[i].base));
    }
    has_large_pages = false;
    acre_hostmem_destroy(heap);
}

T_MAIN()
