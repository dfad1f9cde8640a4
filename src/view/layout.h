/* SPDX-License-Identifier: MIT */
/* Segments of a cache, seen now and then: what came and what went in between. */
#ifndef SRC_VIEW_LAYOUT_H
#define SRC_VIEW_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

/* A segment, or mapped pages side by side. */
struct view_range {
    uint64_t address, bytes, stream, pool[2];
    uint32_t flags; /* bits of acre_view_flag */
};

/* In order of address, apart from each other. */
struct ranges {
    struct view_range *items;
    size_t count, capacity;
};

void ranges_fini(struct ranges *ranges); /* a zeroed one is fine */

#endif
