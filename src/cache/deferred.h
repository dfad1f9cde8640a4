/* SPDX-License-Identifier: MIT */
/* Blocks that were freed while other streams may still use them.
 *
 * A live block collects the streams that use it besides its own (uses). When it
 * is freed, an event is recorded on each of them and the block waits in one
 * queue per stream; the last event that completes sets it free. Queues are
 * looked at from the front only: one query per stream that is still busy.
 *
 * Another process that has a block open is a user too, one that no event tells of:
 * a hold. A freed block with holds waits until each says that it is over, which is
 * asked whenever the queues are looked at; nobody ever waits for a hold.
 *
 * An event may go bad: one that was recorded while its stream captured never answers again. Such
 * an event is set aside with its block, which is kept back.
 *
 * Events are kept for reuse, the most recently returned first. Adding a block
 * either queues all its events or changes nothing.
 *
 * Not thread-safe: the owner's lock is held around every call.
 */
#ifndef SRC_CACHE_DEFERRED_H
#define SRC_CACHE_DEFERRED_H

#include "cache/block.h"

#include <acre/base.h>

struct acre_device;
struct deferred_queue;
struct private_pool;

/* Keeps a block from being reused. */
struct hold {
    /* Whether that is over; called when the block was freed, often. */
    bool (*is_over)(struct hold *hold);
    /* Frees it; the block is over it, or given up. */
    void (*end)(struct hold *hold);
};

/* A stream that uses a block besides its own, or a hold. */
struct use {
    void *stream;
    struct hold *hold;   /* NULL for a stream */
    uint64_t capture_id; /* the capture it was part of; 0: work that runs */
    struct use *next;
};

enum { DEFERRED_PAUSE_MAX = 1024 }; /* blocks found done between two tries to ask at once */

struct deferred {
    struct acre_device *device;
    struct list queues;             /* of struct deferred_queue, in order of first wait     */
    struct list held;               /* entries of freed blocks with holds          */
    uint64_t held_count;            /* how many                                    */
    struct list bad;                /* entries whose event the device does not answer for */
    uint64_t bad_count;             /* how many                                    */
    uint64_t pending_count;         /* events in all queues, entries held, and blocks
                                  held until the capture ends */
    uint64_t capture_waiting_count; /* of these: captures keep them (capture_wait.h)       */
    void **idle_events;             /* stack of events that may be recorded anew   */
    size_t idle_count;
    size_t event_count; /* created and not destroyed; the stack has room
                                  for all of them                             */
    size_t idle_capacity;
    struct use *spare_uses;
    struct list spare_entries;
    struct deferred_queue *spare_queues;
    bool is_prompt;         /* asking at once is worth a try: events lately were complete */
    uint32_t prompt_in;     /* blocks to be found done until it is, again                */
    uint32_t prompt_pause;  /* how many the next time; doubles with each try in vain     */
};

/* Called when the last event of a block, still WAITING, has completed. */
typedef void (*deferred_done_fn)(void *arg, struct block *block);

void deferred_init(struct deferred *deferred, struct acre_device *device);
/* Destroys events and queues; blocks still waiting are forgotten. */
void deferred_fini(struct deferred *deferred);

/* Notes that stream uses a live block, as part of a capture or not (0);
 * repetitions are fine. Errors: ACRE_ERR_HOST_MEMORY. */
acre_status deferred_use(struct deferred *deferred, struct block *block, void *stream,
                         uint64_t capture_id);
/* Adds a hold to a live block, which owns it from then on.
 * Errors: ACRE_ERR_HOST_MEMORY. */
acre_status deferred_hold(struct deferred *deferred, struct block *block, struct hold *hold);
/* Ends the holds of a block about to be freed that are over already. */
void deferred_settle_holds(struct deferred *deferred, struct block *block);
/* Forgets the uses that were part of captures. */
void deferred_forget_captured(struct deferred *deferred, struct block *block);
/* Forgets the uses of a block that is given up. */
void deferred_forget_uses(struct deferred *deferred, struct block *block);

/* Records an event on every stream that uses block and lets it wait for them:
 * LIVE with uses becomes WAITING. With may_be_done, the only event may turn out to be complete
 * at once, which is asked as long as it mostly is so: then it is LIVE without uses. On failure
 * nothing has changed.
 * Errors: ACRE_ERR_HOST_MEMORY, what the device answers. */
acre_status deferred_add(struct deferred *deferred, struct block *block, bool may_be_done);
/* Looks at the front of every queue and calls done for blocks set free. An event for
 * which the device answers with an error is reported in the log and set aside: its block is
 * kept back, and nothing else waits behind it. */
void deferred_collect_slow(struct deferred *deferred, deferred_done_fn done, void *arg);
static inline void deferred_collect(struct deferred *deferred, deferred_done_fn done, void *arg)
{
    if (__builtin_expect(deferred->pending_count != 0, 0))
        deferred_collect_slow(deferred, done, arg);
}

/* Asks every hold of a freed block whether it is over, and calls done as above. */
void deferred_collect_holds(struct deferred *deferred, deferred_done_fn done, void *arg);

/* Waits for every event, or those of blocks of one private pool, never for holds;
 * done as above. An event that was set aside is recorded anew and waited for, unless its
 * stream captures. Goes on after an error and gives the first one. */
acre_status deferred_synchronize(struct deferred *deferred, const struct private_pool *pool,
                                 deferred_done_fn done, void *arg);

/* Destroys idle events. */
void deferred_trim(struct deferred *deferred);

/* Whether queues and counts agree. */
bool deferred_check(const struct deferred *deferred, const char **fact);

#endif
