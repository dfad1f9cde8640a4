/* SPDX-License-Identifier: MIT */
/* Moves that the kernel refuses after it has unmapped the new place. */
#include "tests/unit/hostmem/heap_make.h"

#include "hostmem/chunk.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static enum { AS_IT_IS, AS_BEFORE_6_17, LATE_REFUSAL } kernel;
static bool is_strict;
static int moved, refused;

/* Whether a range lies in several mappings. */
static bool is_cut(uintptr_t from, size_t bytes)
{
    unsigned long begin, end;
    char line[512];
    bool is_found = false, is_whole = false;
    FILE *maps = fopen("/proc/self/maps", "re");

    while (maps && !is_found && fgets(line, sizeof line, maps)) {
        is_found = sscanf(line, "%lx-%lx", &begin, &end) == 2 && from >= begin && from < end;
        is_whole = is_found && from + bytes <= end;
    }
    if (maps)
        fclose(maps);
    return !is_whole;
}

/* Stands before that of the C library. */
void *mremap(void *from, size_t bytes, size_t new_bytes, int flags, ...)
{
    va_list list;

    va_start(list, flags);
    void *to = flags & MREMAP_FIXED ? va_arg(list, void *) : NULL;
    va_end(list);
    bool is_refused = (kernel == LATE_REFUSAL && to) ||
                      (kernel == AS_BEFORE_6_17 && is_cut((uintptr_t)from, bytes));
    if (is_refused) {
        if (to)
            munmap(to, new_bytes);
        refused += to != NULL;
        errno = kernel == LATE_REFUSAL ? ENOMEM : EFAULT;
        return MAP_FAILED;
    }
    moved += to != NULL;
    return (void *)syscall(SYS_mremap, from, bytes, new_bytes, flags, to);
}

/* Stands before that of the C library as well, and tells of a kernel with strict accounting. */
FILE *fopen(const char *path, const char *mode)
{
    static FILE *(*next)(const char *, const char *);
    static char strict[] = "2\n";

    if (is_strict && strcmp(path, "/proc/sys/vm/overcommit_memory") == 0)
        return fmemopen(strict, 2, "r");
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "fopen");
    return next(path, mode);
}

/* What a part gives in a process of its own, which begins to ask the kernel anew. */
static int apart(int (*part)(void))
{
    pid_t child = fork();
    int status = 0;

    if (child == 0)
        _exit(part());
    REQUIRE_EQ(waitpid(child, &status, 0), child);
    return status;
}

/* Blocks that come, go, grow and shrink, and keep their bytes; 0, or what went wrong. */
static int churn(void)
{
    enum { BLOCKS = 32, TURNS = 2000 };
    acre_hostmem *heap = heap_make(0, 0);
    struct {
        unsigned char *base;
        size_t bytes;
    } blocks[BLOCKS] = {{NULL, 0}};
    uint32_t random = 1;

    for (int turn = 0; turn < TURNS; turn++) {
        random = random * 1664525 + 1013904223;
        int at = (int)(random >> 8) % BLOCKS;
        size_t bytes = ((random >> 13) % 96 + 1) * GRAIN_BYTES, kept = blocks[at].bytes;
        void *out = NULL;
        bool is_freed = random >> 30 == 0;
        if (acre_hostmem_realloc(heap, blocks[at].base, is_freed ? 0 : bytes, &out) != ACRE_OK)
            return 2;
        blocks[at].base = out;
        blocks[at].bytes = out ? bytes : 0;
        for (size_t i = 0; i < kept && i < blocks[at].bytes; i += 512)
            if (blocks[at].base[i] != at)
                return 3;
        if (out)
            memset(out, at, bytes);
    }
    acre_hostmem_destroy(heap);
    return 0;
}

/* The one that may be refused is the question what the kernel can do. */
static int churn_before_6_17(void)
{
    kernel = AS_BEFORE_6_17;
    int code = churn();
    return code ? code : moved < 100 ? 4 : refused > 1 ? 5 : 0;
}

TEST(blocks_of_several_mappings_stay_where_the_kernel_does_not_move_them)
{
    T_NEEDS("MREMAP_DONTUNMAP");
    EXPECT_EQ(apart(churn_before_6_17), 0);
}

static int churn_refused(void)
{
    kernel = LATE_REFUSAL;
    int code = churn();
    return code ? code : moved ? 4 : refused < 100 ? 5 : 0;
}

TEST(a_new_place_is_mapped_again_after_a_late_refusal)
{
    EXPECT_EQ(apart(churn_refused), 0);
}

static int churn_accounted(void)
{
    is_strict = true;
    kernel = LATE_REFUSAL;
    int code = churn();
    return code ? code : moved || refused ? 4 : 0;
}

TEST(nothing_is_moved_where_a_move_may_lack_promised_memory)
{
    EXPECT_EQ(apart(churn_accounted), 0);
}

/* A block grows where only free memory of the heap is left. */
static int grow_above_limit(void)
{
    acre_hostmem *heap = heap_make(0, 0);
    struct rlimit limit = {4096, RLIM_INFINITY};
    void *block = block_make(heap, 40 << 20), *grown = NULL;

    memset(block, 1, 40 << 20);
    acre_hostmem_free(heap, block);
    block = block_make(heap, 1 << 20);
    memset(block, 7, 1 << 20);
    setrlimit(RLIMIT_DATA, &limit);
    if (acre_hostmem_realloc(heap, block, 4 << 20, &grown) != ACRE_OK)
        return 2;
    for (size_t i = 0; i < 1 << 20; i++)
        if (((char *)grown)[i] != 7)
            return 3;
    memset(grown, 1, 4 << 20);
    return refused || moved ? 4 : 0;
}

TEST(a_block_grows_under_a_limit_below_what_is_mapped)
{
    T_NEEDS("limits of addresses");
    EXPECT_EQ(apart(grow_above_limit), 0);
}

T_MAIN()
