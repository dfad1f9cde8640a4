/* SPDX-License-Identifier: MIT */
/* See hang.h. */
#include "hostmem/hang.h"

#include "base/check.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

#define HANG_FLAGS (MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP)
#define MAP_FLAGS  (MAP_PRIVATE | MAP_ANONYMOUS)

/* What the kernel moves at once. */
static enum { REACH_NOTHING, REACH_MAPPING, REACH_ALL } reach;
static pthread_once_t reach_once = PTHREAD_ONCE_INIT;

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

static void *fresh_map(void *at, size_t bytes, int flags)
{
    return mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_FLAGS | flags, -1, 0);
}

/* Whether the kernel promises memory to no more than there is (vm.overcommit_memory). Others may
 * be promised what the new place gives up, before the old one gets it. */
static bool is_accounted(void)
{
    FILE *file = fopen("/proc/sys/vm/overcommit_memory", "re");
    int mode = 0;

    if (!file)
        return false;
    if (fscanf(file, "%d", &mode) != 1)
        mode = 0;
    fclose(file);
    return mode == 2;
}

/* Moves two pages of two mappings. */
static void reach_find(void)
{
    size_t page = page_size();
    char *from, *to;
    bool is_gone = false;

    if (is_accounted())
        return;
    from = fresh_map(NULL, 2 * page, 0);
    to = fresh_map(NULL, 2 * page, 0);

    if (from != MAP_FAILED && to != MAP_FAILED) {
        from[0] = from[page] = 1;
        madvise(from + page, page, MADV_DONTDUMP); /* cuts the mapping in two */
        reach = REACH_ALL;
        if (mremap(from, 2 * page, 2 * page, HANG_FLAGS, to) == MAP_FAILED) {
            is_gone = errno != EINVAL; /* that is said before anything is done */
            reach = is_gone ? REACH_MAPPING : REACH_NOTHING;
        }
    }
    if (from != MAP_FAILED)
        munmap(from, 2 * page);
    if (to != MAP_FAILED && !is_gone)
        munmap(to, 2 * page);
}

/* Whether a range lies in one mapping: growing it in place is refused in another way then. */
static bool is_one_mapping(char *from, size_t bytes)
{
    if (mremap(from, bytes, bytes + page_size(), 0) == MAP_FAILED)
        return errno != EFAULT;
    munmap(from + bytes, page_size());
    return true;
}

static bool is_limited(int resource)
{
    struct rlimit limit;

    return getrlimit(resource, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
}

bool hang_has_room(void)
{
    if (LIKELY(!is_limited(RLIMIT_AS) && !is_limited(RLIMIT_DATA)))
        return true;
    void *page = fresh_map(NULL, page_size(), 0);
    return page != MAP_FAILED && munmap(page, page_size()) == 0;
}

bool pages_hang(char *from, char *to, size_t bytes)
{
    pthread_once(&reach_once, reach_find);
    if (reach == REACH_NOTHING || (reach == REACH_MAPPING && !is_one_mapping(from, bytes)))
        return false;
    if (LIKELY(mremap(from, bytes, bytes, HANG_FLAGS, to) != MAP_FAILED))
        return true;
    fresh_map(to, bytes, MAP_FIXED_NOREPLACE); /* refused where nothing was unmapped */
    return false;
}
