/* SPDX-License-Identifier: MIT */
/* The table of texts: an array by number, with chains by hash. Its memory is the
 * process's for good, since entries anywhere may point into it. */
#include "cache/observe/label.h"

#include "base/process/fork.h"
#include "base/heap.h"
#include "base/lock.h"
#include "base/status.h"

#include <stdio.h>
#include <string.h>

enum { LABEL_SLOTS = 1 << 12 };

struct label_text {
    struct label_text *next; /* in its slot */
    uint32_t number;         /* from 1 on   */
    char text[];
};

static struct lock table_lock = LOCK_INITIALIZER(RANK_LEAF, "labels");
FORK_GUARD(table_lock);
static struct label_text *slots[LABEL_SLOTS]; /* guarded by table_lock */
static struct label_text **texts;             /* by number - 1; same   */
static uint32_t text_count, text_capacity;    /* same                  */

static _Thread_local struct label current;
static _Thread_local uint32_t regions[LABEL_DEPTH_MAX]; /* outermost first */
static _Thread_local uint32_t depth;

static struct label_text **slot_of(const char *text)
{
    uint32_t hash = 2166136261u;

    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return &slots[hash % LABEL_SLOTS];
}

static acre_status grow_locked(void)
{
    uint32_t capacity = text_capacity ? text_capacity * 2 : 64;

    if (text_count < text_capacity)
        return ACRE_OK;
    if (text_count >= LABEL_TEXT_MAX)
        return status_fail(ACRE_ERR_LIMIT,
                           "history labels: %u different texts were set already; repeat texts "
                           "instead of making each one new",
                           text_count);
    struct label_text **more = heap_realloc(texts, capacity * sizeof *more);
    if (!more)
        return ACRE_ERR_HOST_MEMORY;
    texts = more;
    text_capacity = capacity;
    return ACRE_OK;
}

static acre_status intern_locked(const char *text, uint32_t *out)
{
    struct label_text **slot = slot_of(text), *item = *slot;

    while (item && strcmp(item->text, text) != 0)
        item = item->next;
    if (!item) {
        size_t bytes = strlen(text) + 1;
        acre_status status = grow_locked();
        if (status != ACRE_OK)
            return status;
        item = heap_alloc(sizeof *item + bytes);
        if (!item)
            return ACRE_ERR_HOST_MEMORY;
        memcpy(item->text, text, bytes);
        item->next = *slot;
        texts[text_count] = item;
        item->number = ++text_count;
        *slot = item;
    }
    *out = item->number;
    return ACRE_OK;
}

static acre_status label_intern(const char *text, uint32_t *out)
{
    lock_take(&table_lock);
    acre_status status = intern_locked(text, out);
    lock_drop(&table_lock);
    return status;
}

static const char *text_of(uint32_t number, const char *none)
{
    const char *text = none;

    if (!number)
        return none;
    lock_take(&table_lock);
    if (number <= text_count)
        text = texts[number - 1]->text;
    lock_drop(&table_lock);
    return text;
}

struct label label_current(void)
{
    return current;
}

acre_status label_metadata_set(const char *text)
{
    uint32_t number = 0;
    acre_status status = text && *text ? label_intern(text, &number) : ACRE_OK;

    if (status == ACRE_OK)
        current.metadata = number;
    return status;
}

struct label label_extend(const char *line)
{
    struct label before = current;
    struct status_saved saved;
    char text[512];

    status_save(&saved);
    snprintf(text, sizeof text, "%s%s%s", label_metadata(before.metadata),
             before.metadata ? "\n" : "", line);
    label_metadata_set(text);
    status_restore(&saved);
    return before;
}

void label_restore(struct label label)
{
    current = label;
}

acre_status label_compile_push(const char *text)
{
    uint32_t number;

    if (depth == LABEL_DEPTH_MAX)
        return status_fail(ACRE_ERR_LIMIT,
                           "acre_history_compile_push: %d regions are open on this thread; each "
                           "push needs its pop",
                           LABEL_DEPTH_MAX);
    acre_status status = label_intern(text, &number);
    if (status != ACRE_OK)
        return status;
    regions[depth++] = number;
    current.compile = number;
    return ACRE_OK;
}

void label_compile_pop(void)
{
    if (depth == 0)
        return;
    depth--;
    current.compile = depth ? regions[depth - 1] : 0;
}

const char *label_metadata(uint32_t number)
{
    return text_of(number, "");
}

const char *label_compile(uint32_t number)
{
    return text_of(number, "N/A");
}
