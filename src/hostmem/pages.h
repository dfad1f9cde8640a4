/* SPDX-License-Identifier: MIT */
/* Whole pages of the kernel. A page of the heap (HEAP_PAGE) is one of them on most machines and
 * a part of one on others, where a call about a part of a page would concern what lies beside. */
#ifndef SRC_HOSTMEM_PAGES_H
#define SRC_HOSTMEM_PAGES_H

#include "base/bits.h"

#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

struct pages {
    char *base;
    size_t bytes; /* 0: there is none */
};

/* Those that lie wholly inside a range. */
static inline struct pages pages_inside(char *base, size_t bytes)
{
    size_t page = (size_t)getpagesize();
    size_t before = (size_t)(-(uintptr_t)base % page);

    return (struct pages){base + before, bytes > before ? round_down(bytes - before, page) : 0};
}

#endif
