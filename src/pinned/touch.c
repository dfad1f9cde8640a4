/* SPDX-License-Identifier: MIT */
#include "pinned/touch.h"

#include "base/bits.h"
#include "base/process/thread.h"

#include <pthread.h>

enum { TOUCH_PAGE = 4096, TOUCH_THREADS_MAX = 128 };

struct slice {
    uintptr_t begin, end;
    pthread_t thread;
    bool has_thread;
};

static void *touch_touch(void *arg)
{
    const struct slice *slice = arg;

    for (uintptr_t at = slice->begin; at < slice->end;) {
        volatile char *byte = (volatile char *)at;
        *byte = *byte;
        at = round_down(at, TOUCH_PAGE) + TOUCH_PAGE;
    }
    return NULL;
}

void touch_pages(void *base, size_t bytes, unsigned threads)
{
    uintptr_t begin = (uintptr_t)base, end = begin + bytes, at = begin;
    uintptr_t first = round_down(begin, TOUCH_PAGE);
    size_t pages = (end - first + TOUCH_PAGE - 1) / TOUCH_PAGE;
    unsigned count = threads > 1 && pages >= threads ? threads : 1;
    struct slice slices[TOUCH_THREADS_MAX];

    count = count < TOUCH_THREADS_MAX ? count : TOUCH_THREADS_MAX;
    for (unsigned i = 0; i < count; i++) {
        uintptr_t edge = first + pages * (i + 1) / count * TOUCH_PAGE;
        slices[i] = (struct slice){.begin = at, .end = edge < end ? edge : end};
        at = slices[i].end;
        slices[i].has_thread =
            i + 1 < count && thread_start(&slices[i].thread, touch_touch, &slices[i]) == 0;
    }
    for (unsigned i = 0; i < count; i++)
        if (slices[i].has_thread)
            pthread_join(slices[i].thread, NULL);
        else
            touch_touch(&slices[i]);
}
