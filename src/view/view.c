/* SPDX-License-Identifier: MIT */
#include "view/view.h"

#include "base/heap.h"
#include "base/status.h"
#include "base/struct_size.h"
#include "format/snapshot/snapshot.h"
#include "view/adopt.h"
#include "view/page.h"
#include "view/watch.h"

#include <stdio.h>
#include <string.h>

#define FRAMES_MAX 4096 /* of one stack; deeper ones are cut */

acre_status acre_view_create(const char *title, acre_view **out)
{
    uint32_t none;

    if (!title || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_view_create: %s is NULL",
                           title ? "out" : "title");
    acre_view *view = heap_zalloc(sizeof *view);
    if (!view)
        return ACRE_ERR_HOST_MEMORY;
    view->title = heap_strdup(title);
    acre_status status = intern_put(&view->stacks, "", 0, &none);
    if (!view->title || status != ACRE_OK) {
        acre_view_destroy(view);
        return ACRE_ERR_HOST_MEMORY;
    }
    *out = view;
    return ACRE_OK;
}

void acre_view_destroy(acre_view *view)
{
    if (!view)
        return;
    for (size_t i = 0; i < view->device_count; i++)
        history_fini(&view->devices[i]);
    for (size_t i = 0; i < view->note_count; i++) {
        heap_free(view->notes[i].heading);
        heap_free(view->notes[i].text);
    }
    heap_free(view->notes);
    heap_free(view->devices);
    intern_fini(&view->frames);
    intern_fini(&view->stacks);
    intern_fini(&view->streams);
    intern_fini(&view->pools);
    heap_free(view->title);
    heap_free(view->warning);
    heap_free(view);
}

/* ---- Tables ------------------------------------------------------------------------- */

static acre_status put_frame(acre_view *view, const acre_view_frame *frame, uint32_t *out)
{
    const char *name = frame->name ? frame->name : "", *file = frame->file ? frame->file : "";
    size_t name_bytes = strlen(name) + 1, file_bytes = strlen(file) + 1;
    char small[1024], line[24];
    int line_bytes = snprintf(line, sizeof line, "%lld", (long long)frame->line);
    size_t bytes = name_bytes + file_bytes + (size_t)line_bytes;
    char *text = bytes <= sizeof small ? small : heap_alloc(bytes);

    if (!text)
        return ACRE_ERR_HOST_MEMORY;
    memcpy(text, name, name_bytes);
    memcpy(text + name_bytes, file, file_bytes);
    memcpy(text + name_bytes + file_bytes, line, (size_t)line_bytes);
    acre_status status = intern_put(&view->frames, text, bytes, out);
    if (text != small)
        heap_free(text);
    return status;
}

acre_status acre_view_stack_add(acre_view *view, const acre_view_frame *frames, size_t count,
                                uint32_t *out)
{
    uint32_t numbers[64];
    uint32_t *all = numbers;
    acre_status status = ACRE_OK;

    if (!view || !out || (count && !frames))
        return status_fail(ACRE_ERR_INVALID, "acre_view_stack_add: %s is NULL",
                           !view ? "view"
                           : out ? "frames"
                                 : "out");
    if (count > FRAMES_MAX)
        count = FRAMES_MAX;
    if (count > sizeof numbers / sizeof *numbers && !(all = heap_array(count, sizeof *all)))
        return ACRE_ERR_HOST_MEMORY;
    for (size_t i = 0; i < count && status == ACRE_OK; i++)
        status = put_frame(view, &frames[i], &all[i]);
    if (status == ACRE_OK)
        status = intern_put(&view->stacks, all, count * sizeof *all, out);
    if (all != numbers)
        heap_free(all);
    return status;
}

struct view_history *view_device(acre_view *view, size_t device)
{
    if (device < view->device_count)
        return &view->devices[device];
    struct view_history *devices = heap_realloc(view->devices, (device + 1) * sizeof *devices);
    if (!devices)
        return NULL;
    view->devices = devices;
    while (view->device_count <= device) {
        history_init(&devices[view->device_count]);
        devices[view->device_count].number = (uint32_t)view->device_count;
        view->device_count++;
    }
    return &devices[device];
}

acre_status view_place(acre_view *view, uint64_t stream, const uint64_t pool[2],
                       uint32_t *out_stream, uint32_t *out_pool)
{
    acre_status status = intern_put(&view->streams, &stream, sizeof stream, out_stream);

    if (status == ACRE_OK)
        status = intern_put(&view->pools, pool, 2 * sizeof *pool, out_pool);
    return status;
}

acre_status acre_view_event_add(acre_view *view, const acre_view_event *event)
{
    uint32_t stream, pool;

    if (!view || !event)
        return status_fail(ACRE_ERR_INVALID, "acre_view_event_add: %s is NULL",
                           view ? "event" : "view");
    if (event->device < 0 || event->device > ACRE_VIEW_DEVICE_MAX)
        return status_fail(ACRE_ERR_INVALID,
                           "acre_view_event_add: device %d is not between 0 "
                           "and %d",
                           event->device, ACRE_VIEW_DEVICE_MAX);
    if (event->stack >= view->stacks.count)
        return status_fail(ACRE_ERR_INVALID,
                           "acre_view_event_add: stack %u did not come from "
                           "acre_view_stack_add of this view",
                           event->stack);
    if (event->action < ACRE_VIEW_ALLOC || event->action > ACRE_VIEW_MARK)
        return status_fail(ACRE_ERR_INVALID,
                           "acre_view_event_add: action %u is not one of "
                           "acre_view_action",
                           event->action);
    acre_status status = view_place(view, event->stream, event->pool, &stream, &pool);
    if (status != ACRE_OK)
        return status;
    struct view_history *history = view_device(view, (size_t)event->device);
    return history ? history_event(history, event, stream, pool) : ACRE_ERR_HOST_MEMORY;
}

acre_status acre_view_note_add(acre_view *view, const char *heading, const char *text)
{
    if (!view || !heading || !text)
        return status_fail(ACRE_ERR_INVALID, "acre_view_note_add: an argument is NULL");
    struct view_note *notes = heap_realloc(view->notes, (view->note_count + 1) * sizeof *notes);
    if (!notes)
        return ACRE_ERR_HOST_MEMORY;
    view->notes = notes;
    struct view_note note = {heap_strdup(heading), heap_strdup(text)};
    if (!note.heading || !note.text) {
        heap_free(note.heading);
        heap_free(note.text);
        return ACRE_ERR_HOST_MEMORY;
    }
    notes[view->note_count++] = note;
    return ACRE_OK;
}

/* ---- Files ------------------------------------------------------------------------- */

acre_status acre_view_read(acre_view *view, const char *path, const acre_view_config *config)
{
    acre_view_config whole = {.struct_size = sizeof whole};
    acre_status status = ACRE_OK;

    if (!view || !path)
        return status_fail(ACRE_ERR_INVALID, "acre_view_read: %s is NULL", view ? "path" : "view");
    if (config)
        status = STRUCT_TAKE("acre_view_read", acre_view_config, config, &whole);
    if (status != ACRE_OK)
        return status;
    bool is_snapshot;
    struct snapshot *snapshot;
    status = snapshot_is_one(path, &is_snapshot);
    if (status != ACRE_OK)
        return status;
    if (!is_snapshot)
        return watch_trace(view, path, &whole);
    status = snapshot_read(path, &snapshot);
    if (status != ACRE_OK)
        return status;
    status = adopt_snapshot(view, snapshot, &whole);
    snapshot_destroy(snapshot);
    return status;
}

const char *acre_view_warning(const acre_view *view)
{
    return view ? view->warning : NULL;
}

acre_status acre_view_write(acre_view *view, const char *path)
{
    if (!view || !path)
        return status_fail(ACRE_ERR_INVALID, "acre_view_write: %s is NULL", view ? "path" : "view");
    for (size_t i = 0; i < view->device_count; i++)
        history_settle(&view->devices[i]);
    return page_write(view, path);
}
