/* SPDX-License-Identifier: MIT */
/* What a view consists of: a history per device, and tables that all share. */
#ifndef SRC_VIEW_VIEW_H
#define SRC_VIEW_VIEW_H

#include "view/history.h"
#include "view/intern.h"

struct view_note {
    char *heading, *text; /* owned */
};

struct acre_view {
    char *title;
    char *warning;             /* about an inconsistent file, or NULL      */
    struct view_history *devices;   /* device_count of them, by number        */
    size_t device_count;
    struct intern frames;      /* name, 0, file, 0, line as text          */
    struct intern stacks;      /* numbers of frames; the first is empty   */
    struct intern streams;     /* uint64_t each                           */
    struct intern pools;       /* two uint64_t each                       */
    struct view_note *notes;
    size_t note_count;
};

/* The history of a device, made when it is new. NULL: no host memory. */
struct view_history *view_device(acre_view *view, size_t device);
/* Numbers of a stream and a pool in the view's tables. */
acre_status view_place(acre_view *view, uint64_t stream, const uint64_t pool[2],
                       uint32_t *out_stream, uint32_t *out_pool);

#endif
