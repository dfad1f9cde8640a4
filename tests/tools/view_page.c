/* SPDX-License-Identifier: MIT */
/* Writes pages with known content for tests in a browser: view_page KIND FILE.
 *
 *   known    two devices, a handful of blocks at round sizes, hostile names
 *   busy     40,000 events of steps over 24 stacks, so that levels are used
 *   million  1,000,000 events of the same kind
 *   still    a state without history
 */
#include "tests/support/t.h"
#include "view/view.h"

#include <acre/view.h>

#define MIB_OF(n) ((uint64_t)(n) << 20)
#define BASE 0x700000000000u

static acre_view *view;

static void must(acre_status status)
{
    if (status == ACRE_OK)
        return;
    fprintf(stderr, "view_page: %s\n", acre_last_error());
    exit(1);
}

static uint32_t stack(const char *name, const char *file, int line)
{
    acre_view_frame frames[] = {{"c10::alloc", "insides.cpp", 1}, {name, file, line},
                                {"main", "train.py", 10}};
    uint32_t number;

    must(acre_view_stack_add(view, frames, 3, &number));
    return number;
}

static void tell(acre_view_event event)
{
    must(acre_view_event_add(view, &event));
}

/* ---- known ------------------------------------------------------------------------- */

static void put(uint32_t action, uint64_t offset, uint64_t bytes, uint32_t of, uint64_t stream,
                uint64_t pool)
{
    static uint64_t clock;

    tell((acre_view_event){.action = action, .address = BASE + offset, .bytes = bytes,
                           .stack = of, .stream = stream, .pool = {0, pool},
                           .time_us = clock += 1000});
}

/* Device 0 over 101 events: 64 MiB reserved; 16 MiB "forward" at the bottom all
 * the time, 16 MiB "backward" in the first half on stream 7, 8 MiB in a private
 * pool, 8 MiB that wait from event 60 to 80. */
static void make_known(void)
{
    uint32_t forward = stack("forward", "model.py", 42);
    uint32_t backward = stack("backward </script><img src=x onerror=\"window.hacked=1\">",
                              "<b>evil</b>.py", 7);
    uint32_t waiting = stack("waiting", "stream.py", 3);

    put(ACRE_VIEW_SEGMENT_ALLOC, 0, MIB_OF(64), forward, 0, 0);      /* 0 */
    put(ACRE_VIEW_ALLOC, 0, MIB_OF(16), forward, 0, 0);              /* 1 */
    put(ACRE_VIEW_ALLOC, MIB_OF(16), MIB_OF(16), backward, 7, 0);    /* 2 */
    put(ACRE_VIEW_ALLOC, MIB_OF(40), MIB_OF(8), forward, 0, 5);      /* 3 */
    put(ACRE_VIEW_ALLOC, MIB_OF(56), MIB_OF(8) - 100, waiting, 0, 0); /* 4 */
    for (uint64_t i = 5; i <= 100; i++) {
        if (i == 50)
            put(ACRE_VIEW_FREE_COMPLETED, MIB_OF(16), MIB_OF(16), backward, 7, 0);
        else if (i == 60 || i == 80)
            put(i == 60 ? ACRE_VIEW_FREE_REQUESTED : ACRE_VIEW_FREE_COMPLETED, MIB_OF(56),
                MIB_OF(8) - 100, waiting, 0, 0);
        else if (i == 90)
            tell((acre_view_event){.action = ACRE_VIEW_OOM, .bytes = MIB_OF(99), .time_us = 90000});
        else
            tell((acre_view_event){.action = ACRE_VIEW_MARK, .text = i == 30 ? "step <2>" : "",
                                   .time_us = i * 1000});
    }
    tell((acre_view_event){.action = ACRE_VIEW_SEGMENT_ALLOC, .device = 1, .address = 4096,
                           .bytes = MIB_OF(20)});
    tell((acre_view_event){.action = ACRE_VIEW_ALLOC, .device = 1, .address = 4096, .bytes = 777,
                           .stack = forward});
    must(acre_view_note_add(view, "A <note>", "first line\nsecond <i>line</i>"));
}

/* ---- busy ------------------------------------------------------------------------- */

/* Steps: activations pile up and go in the opposite order, with short-lived
 * workspaces between; addresses as a simple stack would give them. */
static void make_busy(uint64_t event_count)
{
    enum { LAYERS = 24, DEEP = 400 };
    uint64_t seed = 1, sizes[DEEP], top, done = 0;
    uint32_t stacks[LAYERS];
    char name[32];

    for (int i = 0; i < LAYERS; i++) {
        snprintf(name, sizeof name, "layer%d.forward", i);
        stacks[i] = stack(name, "model.py", 100 + i);
    }
    tell((acre_view_event){.action = ACRE_VIEW_SEGMENT_ALLOC, .address = BASE,
                           .bytes = MIB_OF(384)});
    while (++done < event_count) {
        top = 0;
        for (int i = 0; i < DEEP && done < event_count; i++, done += 3) {
            uint64_t small = 512 << t_random(&seed) % 8;
            sizes[i] = 512 * (1 + t_random(&seed) % (i % 3 ? 2000 : 130));
            put(ACRE_VIEW_ALLOC, top, sizes[i], stacks[i * LAYERS / DEEP], 0, 0);
            put(ACRE_VIEW_ALLOC, top + sizes[i], small, stacks[i % 7], i % 2, 0);
            put(ACRE_VIEW_FREE_COMPLETED, top + sizes[i], small, 0, i % 2, 0);
            top += sizes[i];
        }
        for (int i = DEEP - 1; i >= 0 && done < event_count; i--, done++)
            put(ACRE_VIEW_FREE_COMPLETED, top -= sizes[i], sizes[i], 0, 0, 0);
    }
}

/* ---- still ------------------------------------------------------------------------- */

static void make_still(void)
{
    struct view_history *history = view_device(view, 0);
    struct span range = {.address = BASE, .bytes = MIB_OF(20)};
    struct span block = {.address = BASE, .bytes = 1000, .block_bytes = MIB_OF(2)};

    if (!history)
        exit(1);
    must(view_place(view, 0, (uint64_t[2]){0, 0}, &range.stream, &range.pool));
    must(history_last_range(history, &range));
    block.stack = stack("weights", "model.py", 5);
    for (int i = 0; i < 5; i++) {
        must(history_last_block(history, &block));
        block.address += MIB_OF(4);
    }
}

int main(int argc, char **argv)
{
    const char *kind = argc == 3 ? argv[1] : "";

    must(acre_view_create("<i>Known</i> & \"quoted\"", &view));
    if (strcmp(kind, "known") == 0)
        make_known();
    else if (strcmp(kind, "busy") == 0)
        make_busy(40000);
    else if (strcmp(kind, "million") == 0)
        make_busy(1000000);
    else if (strcmp(kind, "still") == 0)
        make_still();
    else {
        fputs("usage: view_page known|busy|million|still FILE\n", stderr);
        return 2;
    }
    must(acre_view_write(view, argv[2]));
    acre_view_destroy(view);
    return 0;
}
