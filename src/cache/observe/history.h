/* SPDX-License-Identifier: MIT */
/* What happened in one cache, as far back as its bound allows.
 *
 *   ring       events, appended under the owner's lock. It grows until it holds
 *              max_entries and the slack, then the oldest leave.
 *   pages      of notes that lanes wrote without the lock, 24 bytes each: an
 *              allocation, or a free that was complete at once. A lane's page
 *              comes here when it is full or somebody reads; the oldest page
 *              leaves when those behind it hold max_entries and the slack.
 *
 * Since pages come late, neither is in the order of time as a whole; reading sorts
 * and gives the newest max_entries. The slack is what can be on its way in lanes,
 * so whatever left had max_entries newer ones behind it.
 *
 * Not thread-safe: the owner's lock is held around every call.
 */
#ifndef SRC_CACHE_HISTORY_H
#define SRC_CACHE_HISTORY_H

#include "base/list.h"
#include "base/ring.h"
#include "cache/observe/label.h"
#include "cache/observe/stacks.h"
#include "cache/observe/ticks.h"

#include <acre/history.h>

#include <stdatomic.h>

/* An entry as it is kept. */
struct history_event {
    uint64_t ticks;
    uint64_t address;
    uint64_t bytes;
    void *stream;
    uint64_t pool[2];
    uint32_t stack;
    uint32_t action; /* acre_action */
    struct label label;
};

/* What a lane writes. */
struct note {
    uint64_t ticks;
    uint64_t address;
    uint64_t bytes; /* of an allocation; of a free, all bits turned */
};

enum { HISTORY_PAGE = 1024 }; /* notes of a page */

/* Notes of one lane with what they have in common. */
struct note_page {
    struct list link; /* in history.pages, oldest first */
    void *stream;
    uint64_t pool[2];
    struct label label;
    size_t count;     /* notes written */
    struct note notes[HISTORY_PAGE];
};

struct history {
    struct ring ring;       /* of struct history_event; no slots before the first    */
    uint64_t max_entries;   /* UINT64_MAX: no bound                                  */
    uint64_t slack;         /* see above                                             */
    struct list pages;      /* initialised with the ring                             */
    uint64_t note_count;    /* in pages                                              */
    struct ring annotations; /* of acre_annotation; time_us holds ticks, pairs owned */
    struct stacks stacks;
    acre_context_source source;
    uint32_t skip;          /* bit per action that is not kept                       */
    bool is_on;             /* the ring is written                                   */
    bool is_armed;          /* is_on, or there are trackers                          */
    _Atomic uint8_t level;  /* acre_context_level; read without the lock             */
    struct ticks_mark mark; /* when it was last started                              */
};

/* Switches off and forgets everything; a zeroed one is off and empty. */
void history_clear(struct history *history);

/* Copies a user's configuration, complete, and which actions are skipped. call names
 * the public call. Errors: ACRE_ERR_INVALID. */
acre_status history_config_read(const char *call, const acre_history_config *config,
                                acre_history_config *out, uint32_t *out_skip);

/* Refuses objects behind entries, for histories that keep frames only.
 * Errors: ACRE_ERR_UNSUPPORTED. */
acre_status history_objects_refuse(const char *call, const acre_history_config *config);

/* Whether any history of the process is on; regions are only kept then. */
bool history_any_is_on(void);

/* Switches on, or changes how. Errors: ACRE_ERR_HOST_MEMORY, nothing changed. */
acre_status history_start(struct history *history, const acre_history_config *config,
                          uint32_t skip);

/* Appends an event unless its action is skipped. Never fails: without memory to
 * grow the oldest leaves early. */
void history_append(struct history *history, const struct history_event *event);

/* Takes a page of notes in and gives an empty one for it, perhaps the same. */
struct note_page *history_turn(struct history *history, struct note_page *page);

/* Makes room for the notes of a number of lanes at once. */
void history_slack_for(struct history *history, uint64_t lanes);

/* Appends an annotation; pairs become the history's. */
acre_status history_annotate(struct history *history, const char *const *pairs, uint64_t count);

/* Whether lanes may write notes: every note is an entry that is kept. */
bool history_takes_notes(const struct history *history);

/* Bit per action named in a list; false, and which, when one is unknown. */
bool history_skip_read(const char *names, uint32_t *out, char unknown[64]);

/* Copies all: the newest max_entries in order of time. NULL: no memory. */
acre_history *history_copy(const struct history *history);

#endif
