/* SPDX-License-Identifier: MIT */
#include "cache/observe/history.h"

#include "base/heap.h"
#include "base/status.h"
#include "base/struct_size.h"

#include <stdlib.h>
#include <string.h>

enum {
    HISTORY_FIRST = 256,        /* what the ring begins with               */
    HISTORY_ANNOTATIONS = 1024, /* and how it grows where there is no bound */
};

/* Histories that are on. */
static _Atomic int recording_count;

const char *acre_action_name(acre_action action)
{
    static const char *const names[] = {
#define ACTION_NAME(NAME, name, text) [ACRE_ACTION_##NAME] = #name,
        ACRE_HISTORY_ACTIONS(ACTION_NAME)
#undef ACTION_NAME
    };

    return (unsigned)action < ACRE_ACTION_COUNT ? names[action] : NULL;
}

bool history_skip_read(const char *names, uint32_t *out, char unknown[64])
{
    *out = 0;
    while (names && *names) {
        size_t length = strcspn(names, ",");
        int action = 0;
        while (action < ACRE_ACTION_COUNT) {
            const char *name = acre_action_name((acre_action)action);
            if (strlen(name) == length && strncmp(name, names, length) == 0)
                break;
            action++;
        }
        if (action == ACRE_ACTION_COUNT) {
            length = length < 63 ? length : 63;
            memcpy(unknown, names, length);
            unknown[length] = 0;
            return false;
        }
        *out |= 1u << action;
        names += length;
        names += *names == ',';
    }
    return true;
}

acre_status history_config_read(const char *call, const acre_history_config *config,
                                acre_history_config *out, uint32_t *out_skip)
{
    char unknown[64];

    *out = (acre_history_config){.max_entries = ACRE_HISTORY_UNBOUNDED};
    if (config) {
        acre_status status = STRUCT_TAKE(call, acre_history_config, config, out);
        if (status != ACRE_OK)
            return status;
    }
    if ((unsigned)out->level > ACRE_CONTEXT_ALL)
        return status_fail(ACRE_ERR_INVALID, "%s: %d is not a level", call, (int)out->level);
    if (!history_skip_read(out->skip_actions, out_skip, unknown))
        return status_fail(ACRE_ERR_INVALID,
                           "%s: \"%s\" in skip_actions is not an action; known are alloc, "
                           "free_requested, free_completed, segment_alloc, segment_free, "
                           "segment_map, segment_unmap, snapshot, oom",
                           call, unknown);
    if (!out->source)
        out->source = acre_context_native();
    if (!out->source->gather || !out->source->resolve)
        return status_fail(ACRE_ERR_INVALID, "%s: a source needs both functions", call);
    if (out->objects && (!out->objects->take || !out->objects->retain || !out->objects->release))
        return status_fail(ACRE_ERR_INVALID,
                           "%s: objects need the functions take, retain and release", call);
    return ACRE_OK;
}

acre_status history_objects_refuse(const char *call, const acre_history_config *config)
{
    if (!config->objects)
        return ACRE_OK;
    return status_fail(ACRE_ERR_UNSUPPORTED,
                       "%s: objects behind entries are kept by caches of device memory only; "
                       "give a source of frames instead",
                       call);
}

bool history_any_is_on(void)
{
    return atomic_load(&recording_count) > 0;
}

/* ---- Switching --------------------------------------------------------------- */

static void pages_clear(struct history *history);

static void annotation_drop(void *arg, void *item)
{
    (void)arg;
    heap_free((void *)((acre_annotation *)item)->pairs);
}

/* An entry leaves. */
static void event_drop(void *arg, void *item)
{
    stacks_drop(arg, ((struct history_event *)item)->stack);
}

/* What the ring may hold at most. */
static uint64_t capacity_max(const struct history *history)
{
    uint64_t most = SIZE_MAX / (2 * sizeof(struct history_event));

    if (history->max_entries >= most - history->slack)
        return most;
    return history->max_entries + history->slack;
}

static acre_status rings_init(struct history *history)
{
    acre_status status;

    if (history->ring.slots)
        return ACRE_OK;
    status =
        ring_init(&history->ring, sizeof(struct history_event), 1, event_drop, &history->stacks);
    if (status != ACRE_OK)
        return status;
    status = ring_init(&history->annotations, sizeof(acre_annotation), 1, annotation_drop, NULL);
    if (status != ACRE_OK)
        ring_fini(&history->ring);
    list_init(&history->pages);
    return status;
}

static bool is_same_objects(const acre_context_objects *one, const acre_context_objects *other)
{
    if (!other)
        return !one->take;
    return one->take == other->take && one->retain == other->retain &&
           one->release == other->release && one->resolve == other->resolve &&
           one->arg == other->arg;
}

acre_status history_start(struct history *history, const acre_history_config *config, uint32_t skip)
{
    uint64_t before = history->max_entries;
    acre_status status = rings_init(history);

    if (status != ACRE_OK)
        return status;
    history->max_entries = config->max_entries ? config->max_entries : 1;
    if (history->ring.capacity > capacity_max(history))
        status = ring_resize(&history->ring, (size_t)capacity_max(history));
    if (status == ACRE_OK && history->annotations.capacity > history->max_entries)
        status = ring_resize(&history->annotations, (size_t)history->max_entries);
    if (status != ACRE_OK) {
        history->max_entries = before;
        return status;
    }
    if (config->clear) {
        pages_clear(history);
        ring_clear(&history->ring);
        ring_clear(&history->annotations);
    }
    if (!is_same_objects(&history->stacks.objects, config->objects))
        stacks_objects_change(&history->stacks, config->objects);
    if (!history->is_on) {
        history->mark = ticks_mark();
        atomic_fetch_add(&recording_count, 1);
    }
    history->source = *config->source;
    history->skip = skip;
    history->is_on = true;
    atomic_store_explicit(&history->level, (uint8_t)config->level, memory_order_relaxed);
    return ACRE_OK;
}

void history_clear(struct history *history)
{
    if (history->is_on)
        atomic_fetch_sub(&recording_count, 1);
    pages_clear(history);
    ring_fini(&history->ring);
    ring_fini(&history->annotations);
    history->ring = history->annotations = (struct ring){0};
    history->is_on = false;
    atomic_store_explicit(&history->level, ACRE_CONTEXT_NEVER, memory_order_relaxed);
    stacks_fini(&history->stacks);
}

/* ---- Writing ----------------------------------------------------------------- */

/* Doubles a full ring as long as its bound allows; otherwise the oldest leaves. */
static void history_grow(struct ring *ring, uint64_t most, size_t first)
{
    struct status_saved before;
    size_t wanted = ring->capacity < first ? first : ring->capacity * 2;

    if (ring->count < ring->capacity || ring->capacity >= most)
        return;
    status_save(&before);
    ring_resize(ring, wanted < most ? wanted : (size_t)most);
    status_restore(&before);
}

void history_append(struct history *history, const struct history_event *event)
{
    if (!history->is_on || history->skip >> event->action & 1)
        return;
    history_grow(&history->ring, capacity_max(history), HISTORY_FIRST);
    stacks_use(&history->stacks, event->stack);
    ring_append(&history->ring, event);
}

/* Calls fn with the one or two events of a note. */
static void note_expand(const struct note_page *page, const struct note *note,
                        void (*fn)(void *arg, const struct history_event *event), void *arg)
{
    bool is_free = note->bytes >> 63;
    struct history_event event = {.ticks = note->ticks,
                                  .address = note->address,
                                  .bytes = is_free ? ~note->bytes : note->bytes,
                                  .stream = page->stream,
                                  .pool = {page->pool[0], page->pool[1]},
                                  .label = page->label};

    if (!is_free) {
        event.action = ACRE_ACTION_ALLOC;
        fn(arg, &event);
        return;
    }
    event.action = ACRE_ACTION_FREE_REQUESTED;
    fn(arg, &event);
    event.action = ACRE_ACTION_FREE_COMPLETED;
    fn(arg, &event);
}

static void append_any(void *arg, const struct history_event *event)
{
    history_append(arg, event);
}

bool history_takes_notes(const struct history *history)
{
    const uint32_t noted = 1u << ACRE_ACTION_ALLOC | 1u << ACRE_ACTION_FREE_REQUESTED |
                           1u << ACRE_ACTION_FREE_COMPLETED;

    return history->is_on && !(history->skip & noted);
}

/* The oldest page, when what is behind it suffices; NULL otherwise. */
static struct note_page *page_leave(struct history *history)
{
    if (list_empty(&history->pages))
        return NULL;
    struct note_page *oldest = CONTAINER_OF(history->pages.next, struct note_page, link);
    if (history->note_count - oldest->count < capacity_max(history))
        return NULL;
    history->note_count -= oldest->count;
    list_remove(&oldest->link);
    return oldest;
}

struct note_page *history_turn(struct history *history, struct note_page *page)
{
    struct note_page *fresh = NULL;

    if (history->is_on && page->count > HISTORY_PAGE / 2) {
        struct status_saved before;
        list_push_back(&history->pages, &page->link);
        history->note_count += page->count;
        fresh = page_leave(history);
        status_save(&before);
        if (!fresh)
            fresh = heap_alloc(sizeof *fresh);
        status_restore(&before);
        if (!fresh) { /* no memory: it becomes events after all */
            list_remove(&page->link);
            history->note_count -= page->count;
        }
    }
    if (!fresh) {
        for (size_t i = 0; i < page->count; i++)
            note_expand(page, &page->notes[i], append_any, history);
        fresh = page;
    }
    fresh->count = 0;
    return fresh;
}

static void pages_clear(struct history *history)
{
    struct note_page *page;

    while (history->pages.next && !list_empty(&history->pages)) {
        page = CONTAINER_OF(history->pages.next, struct note_page, link);
        list_remove(&page->link);
        heap_free(page);
    }
    history->note_count = 0;
}

void history_slack_for(struct history *history, uint64_t lanes)
{
    uint64_t slack = lanes * HISTORY_PAGE * 2; /* a free is two entries */

    if (slack > history->slack)
        history->slack = slack;
}

acre_status history_annotate(struct history *history, const char *const *pairs, uint64_t count)
{
    size_t bytes = (size_t)count * 2 * sizeof(char *);

    if (!history->is_on)
        return ACRE_OK;
    for (uint64_t i = 0; i < count * 2; i++)
        bytes += strlen(pairs[i]) + 1;
    char **copy = heap_alloc(bytes);
    if (!copy)
        return ACRE_ERR_HOST_MEMORY;
    char *text = (char *)(copy + count * 2);
    for (uint64_t i = 0; i < count * 2; i++) {
        size_t length = strlen(pairs[i]) + 1;
        copy[i] = memcpy(text, pairs[i], length);
        text += length;
    }
    acre_annotation annotation = {
        .time_us = ticks_now(), .pair_count = count, .pairs = (const char *const *)copy};
    history_grow(&history->annotations, history->max_entries, HISTORY_ANNOTATIONS);
    ring_append(&history->annotations, &annotation);
    return ACRE_OK;
}

/* ---- Reading ----------------------------------------------------------------- */

/* Events gathered for sorting; index, the order of gathering, decides between
 * equal ticks. */
struct gathering {
    struct pending_stack {
        struct history_event event;
        uint64_t index;
    } * items;
    uint64_t count;
};

static void history_gather(void *arg, const struct history_event *event)
{
    struct gathering *to = arg;

    to->items[to->count] = (struct pending_stack){*event, to->count};
    to->count++;
}

static int by_time(const void *a, const void *b)
{
    const struct pending_stack *first = a, *second = b;

    if (first->event.ticks != second->event.ticks)
        return first->event.ticks < second->event.ticks ? -1 : 1;
    return first->index < second->index ? -1 : first->index > second->index;
}

/* All there is, in order of time. */
static bool gather_all(const struct history *history, struct gathering *to)
{
    size_t count = history->ring.count + (size_t)history->note_count * 2;
    bool has_pages = history->pages.next && !list_empty(&history->pages);

    to->count = 0;
    to->items = heap_array(count + 1, sizeof *to->items);
    if (!to->items)
        return false;
    for (size_t i = 0; i < history->ring.count; i++)
        history_gather(to, ring_at(&history->ring, i));
    if (has_pages)
        LIST_FOR_EACH(link, &history->pages) {
            const struct note_page *page = CONTAINER_OF(link, struct note_page, link);
            for (size_t i = 0; i < page->count; i++)
                note_expand(page, &page->notes[i], history_gather, to);
        }
    for (uint64_t i = 1; i < to->count; i++)
        if (to->items[i].event.ticks < to->items[i - 1].event.ticks) {
            qsort(to->items, to->count, sizeof *to->items, by_time);
            break;
        }
    return true;
}

static bool copy_entries(const struct history *history, const struct ticks_mark *now,
                         acre_history *out)
{
    struct gathering all;

    if (!gather_all(history, &all))
        return false;
    uint64_t skip = all.count > history->max_entries ? all.count - history->max_entries : 0;
    out->entries = heap_array((size_t)(all.count - skip) + 1, sizeof *out->entries);
    for (uint64_t i = skip; i < all.count && out->entries; i++) {
        const struct history_event *event = &all.items[i].event;
        out->entries[out->entry_count++] =
            (acre_history_entry){.action = (acre_action)event->action,
                                 .stack = event->stack,
                                 .address = event->address,
                                 .bytes = event->bytes,
                                 .stream = event->stream,
                                 .pool = {event->pool[0], event->pool[1]},
                                 .time_us = ticks_date_us(&history->mark, now, event->ticks),
                                 .compile_context = label_compile(event->label.compile),
                                 .user_metadata = label_metadata(event->label.metadata)};
    }
    heap_free(all.items);
    return out->entries;
}

static bool copy_stacks(const struct stacks *stacks, acre_history *out)
{
    size_t count = stacks_count(stacks), words = 0, length;

    for (uint32_t i = 0; i < count; i++) {
        stacks_frames(stacks, i, &length);
        words += length;
    }
    /* Frames stand behind the stacks, in one piece. */
    out->stacks = heap_alloc(count * sizeof *out->stacks + words * sizeof(uint64_t));
    if (!out->stacks)
        return false;
    uint64_t *at = (uint64_t *)(out->stacks + count);
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t *frames = stacks_frames(stacks, i, &length);
        if (length)
            memcpy(at, frames, length * sizeof *at);
        out->stacks[i] = (acre_stack){at, length};
        at += length;
    }
    out->stack_count = count;
    return true;
}

/* The objects behind stacks, with a reference each. */
static bool copy_objects(const struct stacks *stacks, acre_history *out)
{
    size_t count = stacks_count(stacks);

    if (!stacks->objects.take)
        return true;
    out->objects = heap_array(count, sizeof *out->objects);
    if (!out->objects)
        return false;
    out->object_source = stacks->objects;
    for (uint32_t i = 0; i < count; i++) {
        out->objects[i] = stacks_object(stacks, i);
        if (out->objects[i])
            stacks->objects.retain(stacks->objects.arg, out->objects[i]);
    }
    return true;
}

static size_t annotation_bytes(const acre_annotation *annotation)
{
    size_t bytes = 0;

    for (uint64_t i = 0; i < annotation->pair_count * 2; i++)
        bytes += strlen(annotation->pairs[i]) + 1 + sizeof(char *);
    return bytes;
}

/* Annotations, then their arrays of strings, then the characters, in one piece. */
static bool copy_annotations(const struct history *history, const struct ticks_mark *now,
                             acre_history *out)
{
    size_t count = history->annotations.count, bytes = (count + 1) * sizeof *out->annotations;
    uint64_t strings = 0;

    for (size_t i = 0; i < count; i++) {
        const acre_annotation *annotation = ring_at(&history->annotations, i);
        bytes += annotation_bytes(annotation);
        strings += annotation->pair_count * 2;
    }
    out->annotations = heap_alloc(bytes);
    if (!out->annotations)
        return false;
    char **pointers = (char **)(out->annotations + count);
    char *text = (char *)(pointers + strings);
    for (size_t i = 0; i < count; i++) {
        const acre_annotation *from = ring_at(&history->annotations, i);
        out->annotations[i] =
            (acre_annotation){.time_us = ticks_date_us(&history->mark, now, from->time_us),
                              .pair_count = from->pair_count,
                              .pairs = (const char *const *)pointers};
        for (uint64_t k = 0; k < from->pair_count * 2; k++) {
            size_t length = strlen(from->pairs[k]) + 1;
            *pointers++ = memcpy(text, from->pairs[k], length);
            text += length;
        }
    }
    out->annotation_count = count;
    return true;
}

acre_history *history_copy(const struct history *history)
{
    struct ticks_mark now = ticks_mark();
    acre_history *copy = heap_zalloc(sizeof *copy);

    if (!copy)
        return NULL;
    copy->struct_size = sizeof *copy;
    copy->source = history->source;
    if (copy_entries(history, &now, copy) && copy_stacks(&history->stacks, copy) &&
        copy_objects(&history->stacks, copy) && copy_annotations(history, &now, copy))
        return copy;
    acre_history_destroy(copy);
    return NULL;
}

void acre_history_destroy(acre_history *history)
{
    if (!history)
        return;
    for (uint64_t i = 0; history->objects && i < history->stack_count; i++)
        if (history->objects[i])
            history->object_source.release(history->object_source.arg, history->objects[i]);
    heap_free(history->objects);
    heap_free(history->entries);
    heap_free(history->stacks);
    heap_free(history->annotations);
    heap_free(history);
}
