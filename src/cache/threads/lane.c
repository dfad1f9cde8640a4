/* SPDX-License-Identifier: MIT */
/* Lanes and the threads that own them.
 *
 * A thread finds its lanes through a list of its own, so looking needs no lock.
 * A lane ends with its thread or after its cache, whichever comes first:
 *
 *   the thread ends    thread_end drains the lane into the cache, under the
 *                      cache's lock, and frees it
 *   the cache ends     front_fini frees the lanes of the calling thread; those
 *                      of others lose their cache, and their thread frees them
 *                      when it looks for a lane again, or ends
 *
 * threads_lock orders the two; it is taken before a cache's lock. */
#include "cache/threads/lane.h"

#include "base/process/fork.h"
#include "base/heap.h"
#include "base/status.h"
#include "cache/acre/reuse.h"
#include "cache/engine.h"
#include "cache/observe/record.h"
#include "cache/pools/capture.h"
#include "cache/threads/front.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A thread that has lanes. */
struct thread {
    struct list link;  /* in threads               */
    struct list lanes; /* most recently made first */
    unsigned lane_count;
};

struct block lane_end = {.units = SIZE_MAX};
struct lane lane_none = {
    .stream = (void *)LANE_STOPPED,
    .cache = (acre_cache *)LANE_STOPPED,
    .free_cache = (acre_cache *)LANE_STOPPED,
};
_Thread_local struct lane *lane_current = &lane_none;

static _Thread_local struct thread *self;
static struct lock threads_lock = LOCK_INITIALIZER(RANK_THREADS, "threads");
FORK_GUARD(threads_lock);
static struct list threads = LIST_INITIALIZER(threads); /* guarded by threads_lock       */
static pthread_key_t thread_key;
static bool has_key;     /* guarded by threads_lock                              */
static bool has_barrier; /* set with has_key: the kernel has membarrier          */

bool lane_is_own(const struct lane *lane)
{
    return lane->thread == self;
}

void lane_count(const struct lane *lane, int64_t count[CREDIT_CLASSES])
{
    for (int i = 0; i < LANE_BINS; i++)
        for (const struct block *block = lane->bins[i]; block != &lane_end;
             block = block->cached_next)
            count[lane_class(block)]++;
}

/* ---- Stopping ------------------------------------------------------------- */

static bool barrier_register(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

/* Every running thread of the process passes a full barrier. */
static void barrier_all(void)
{
    while (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0) {
        bool is_registered = barrier_register();
        CHECK(is_registered);
        (void)is_registered;
    }
}

/* Lets a lane be used as its front says. A lane without a page for notes stays
 * closed while they are wanted: the lock serves it. Only for frees while scopes
 * concern it. */
static void lane_open(const struct front *front, struct lane *lane)
{
    size_t notes = front->is_noting ? LANE_NOTES : 0;
    char *cache = (char *)atomic_load(&lane->owner) + notes;

    if (front->is_off || front->is_central || front_is_resting(front) || (notes && !lane->page))
        return;
    atomic_store_explicit(&lane->free_cache, (acre_cache *)(void *)cache, memory_order_release);
    if (!lane->is_diverted)
        atomic_store_explicit(&lane->cache, (acre_cache *)(void *)cache, memory_order_release);
}

static void lane_close(struct lane *lane)
{
    atomic_store_explicit(&lane->free_cache, (acre_cache *)LANE_STOPPED, memory_order_relaxed);
    atomic_store_explicit(&lane->cache, (acre_cache *)LANE_STOPPED, memory_order_relaxed);
}

static void lane_wait(struct lane *lane)
{
    for (int spins = 0; atomic_load_explicit(&lane->is_busy, memory_order_acquire); spins++)
        if (spins > 100)
            sched_yield();
}

void front_stop_locked(struct front *front)
{
    bool has_others = false;

    if (front_is_resting(front))
        return; /* all stand still */
    LIST_FOR_EACH(link, &front->lanes) {
        struct lane *lane = CONTAINER_OF(link, struct lane, cache_link);
        if (lane->thread == self)
            continue;
        lane_close(lane);
        has_others = true;
    }
    if (!has_others)
        return;
    barrier_all();
    LIST_FOR_EACH(link, &front->lanes) {
        struct lane *lane = CONTAINER_OF(link, struct lane, cache_link);
        if (lane->thread != self)
            lane_wait(lane);
    }
}

void front_go_locked(struct front *front)
{
    LIST_FOR_EACH(link, &front->lanes) {
        struct lane *lane = CONTAINER_OF(link, struct lane, cache_link);
        if (lane->thread != self)
            lane_open(front, lane);
    }
}

void front_rest_locked(struct front *front, uint32_t count)
{
    atomic_store_explicit(&front->rest, count, memory_order_relaxed);
    LIST_FOR_EACH(link, &front->lanes) {
        struct lane *lane = CONTAINER_OF(link, struct lane, cache_link);
        if (count)
            lane_close(lane);
        else
            lane_open(front, lane);
    }
}

void front_enable_locked(struct front *front, bool enabled)
{
    front_stop_locked(front);
    front->is_off = !enabled;
    LIST_FOR_EACH(link, &front->lanes) {
        struct lane *lane = CONTAINER_OF(link, struct lane, cache_link);
        lane_close(lane);
        lane_open(front, lane);
    }
}

void front_divert_locked(acre_cache *cache)
{
    struct front *front = cache->front;
    bool is_other = false;

    LIST_FOR_EACH(link, &front->lanes) {
        struct lane *lane = CONTAINER_OF(link, struct lane, cache_link);
        is_other |=
            lane->thread != self &&
            lane->is_diverted != scopes_concern(&cache->scopes, lane->thread_number, lane->stream);
    }
    if (is_other)
        front_stop_locked(front);
    LIST_FOR_EACH(link, &front->lanes) {
        struct lane *lane = CONTAINER_OF(link, struct lane, cache_link);
        lane->is_diverted = scopes_concern(&cache->scopes, lane->thread_number, lane->stream);
        if (lane->thread != self)
            continue;
        lane_close(lane);
        lane_open(front, lane);
    }
    if (is_other)
        front_go_locked(front);
}

/* ---- Notes ----------------------------------------------------------------- */

/* Lets a lane write into a page, NULL: none. */
static void lane_page_set(struct lane *lane, struct note_page *page)
{
    lane->page = page;
    lane->note = page ? page->notes : NULL;
    lane->notes_end = page ? page->notes + HISTORY_PAGE : NULL;
}

/* Gives a lane a page, or takes it away. Without memory it has none. */
static void lane_page_prepare(struct front *front, struct history *history, struct lane *lane)
{
    struct status_saved before;

    if (!front->is_noting || front->is_central) {
        heap_free(lane->page);
        lane_page_set(lane, NULL);
        return;
    }
    history_slack_for(history, front->lane_count + 1);
    if (lane->page)
        return;
    status_save(&before);
    struct note_page *page = heap_zalloc(sizeof *page);
    status_restore(&before);
    if (page) {
        page->stream = lane->stream;
        page->pool[0] = lane->arenas[CREDIT_LARGE]->pool->id[0];
        page->pool[1] = lane->arenas[CREDIT_LARGE]->pool->id[1];
        page->label = lane->label;
    }
    lane_page_set(lane, page);
}

void lane_notes_collect_locked(acre_cache *cache, struct lane *lane)
{
    struct note_page *page = lane->page;

    if (!page || lane->note == page->notes)
        return;
    page->count = (size_t)(lane->note - page->notes);
    struct note_page *fresh = history_turn(&cache->history, page);
    if (fresh != page) {
        fresh->stream = page->stream;
        fresh->pool[0] = page->pool[0];
        fresh->pool[1] = page->pool[1];
        fresh->label = page->label;
    }
    lane_page_set(lane, fresh);
}

void front_notes_take_locked(acre_cache *cache)
{
    LIST_FOR_EACH(link, &cache->front->lanes)
        lane_notes_collect_locked(cache, CONTAINER_OF(link, struct lane, cache_link));
}

void front_record_locked(acre_cache *cache, bool is_on, bool is_central)
{
    struct front *front = cache->front;

    front_stop_locked(front);
    front_notes_take_locked(cache);
    front->is_noting = is_on;
    front->is_central = is_central;
    LIST_FOR_EACH(link, &front->lanes) {
        struct lane *lane = CONTAINER_OF(link, struct lane, cache_link);
        lane_close(lane);
        lane_page_prepare(front, &cache->history, lane);
        lane_open(front, lane);
    }
}

void lane_relabel(void)
{
    lock_take(&threads_lock);
    if (self) {
        LIST_FOR_EACH(link, &self->lanes) {
            struct lane *lane = CONTAINER_OF(link, struct lane, thread_link);
            acre_cache *cache = atomic_load(&lane->owner);
            if (!cache)
                continue;
            quick_lock_take(&cache->lock);
            lane_notes_collect_locked(cache, lane);
            lane->label = label_current();
            if (lane->page)
                lane->page->label = lane->label;
            quick_lock_drop(&cache->lock);
        }
    }
    lock_drop(&threads_lock);
}

/* ---- Threads --------------------------------------------------------------- */

/* Takes a lane out of its thread and frees it. Only its own thread calls this,
 * or cache destruction on that thread. */
static void lane_destroy(struct lane *lane)
{
    if (lane_current == lane)
        lane_current = &lane_none;
    list_remove(&lane->thread_link);
    lane->thread->lane_count--;
    heap_free(lane->page);
    heap_free(lane);
}

/* A thread of the parent is not there in a child of fork: its blocks and credit go back. */
static void thread_forget_forked(struct thread *thread)
{
    LIST_FOR_EACH_SAFE(link, after, &thread->lanes) {
        struct lane *lane = CONTAINER_OF(link, struct lane, thread_link);
        acre_cache *cache = atomic_load(&lane->owner);
        if (cache)
            front_detach_locked(cache, lane);
        lane_destroy(lane);
    }
    list_remove(&thread->link);
    heap_free(thread);
}

void threads_forget_others(void)
{
    LIST_FOR_EACH_SAFE(link, after, &threads) {
        struct thread *thread = CONTAINER_OF(link, struct thread, link);
        if (thread != self)
            thread_forget_forked(thread);
    }
}

void front_abandon_locked(acre_cache *cache)
{
    LIST_FOR_EACH_SAFE(link, after, &cache->front->lanes) {
        struct lane *lane = CONTAINER_OF(link, struct lane, cache_link);
        front_detach_locked(cache, lane);
        lane_destroy(lane);
    }
    cache->front->is_off = true;
}

/* The thread ends: its blocks and credit go back. In a child of fork, a new thread may have the
 * stack of one that was ending, and with it what the C library noted there. */
static void thread_end(void *arg)
{
    struct thread *thread = arg;

    if (thread != self)
        return;
    lock_take(&threads_lock);
    list_remove(&thread->link);
    LIST_FOR_EACH_SAFE(link, after, &thread->lanes) {
        struct lane *lane = CONTAINER_OF(link, struct lane, thread_link);
        acre_cache *cache = atomic_load(&lane->owner);
        if (cache) {
            quick_lock_take(&cache->lock);
            front_detach_locked(cache, lane);
            quick_lock_drop(&cache->lock);
        }
        lane_destroy(lane);
    }
    lock_drop(&threads_lock);
    self = NULL;
    heap_free(thread);
}

/* Makes this thread known, so that its end is noticed. */
static bool thread_begin_locked(void)
{
    if (self)
        return true;
    if (!has_key) {
        if (pthread_key_create(&thread_key, thread_end) != 0)
            return false;
        has_key = true;
        has_barrier = barrier_register();
    }
    if (!has_barrier)
        return false;
    struct thread *thread = heap_alloc(sizeof *thread);
    if (!thread)
        return false;
    list_init(&thread->lanes);
    thread->lane_count = 0;
    if (pthread_setspecific(thread_key, thread) != 0) {
        heap_free(thread);
        return false;
    }
    list_push_back(&threads, &thread->link);
    self = thread;
    return true;
}

/* Frees the object of a thread that has no lanes left. */
static void thread_forget(void)
{
    if (!self || !list_empty(&self->lanes))
        return;
    pthread_setspecific(thread_key, NULL);
    list_remove(&self->link);
    heap_free(self);
    self = NULL;
}

static struct lane *lane_create_locked(acre_cache *cache, void *stream)
{
    struct arena *large = reuse_arena_locked(cache, CREDIT_LARGE, stream);
    struct arena *small = reuse_arena_locked(cache, CREDIT_SMALL, stream);
    struct lane *lane = large && small ? heap_zalloc(sizeof *lane) : NULL;

    if (!lane)
        return NULL;
    for (int i = 0; i < LANE_BINS; i++)
        lane->bins[i] = &lane_end;
    lane->stream = stream;
    lane->arenas[CREDIT_SMALL] = small;
    lane->arenas[CREDIT_LARGE] = large;
    lane->key = large->key;
    lane->looks_in = LANE_LOOK_EVERY;
    lane->thread = self;
    lane->thread_number = thread_number();
    lane->is_diverted = scopes_concern(&cache->scopes, lane->thread_number, stream);
    atomic_init(&lane->owner, cache);
    lane->label = label_current();
    lane_close(lane);
    lane_page_prepare(cache->front, &cache->history, lane);
    lane_open(cache->front, lane);
    list_push_back(&cache->front->lanes, &lane->cache_link);
    cache->front->lane_count++;
    list_push_front(&self->lanes, &lane->thread_link);
    self->lane_count++;
    return lane;
}

static struct lane *lane_make(acre_cache *cache, void *stream)
{
    struct lane *lane = NULL;

    lock_take(&threads_lock);
    if (thread_begin_locked()) {
        quick_lock_take(&cache->lock);
        lane = lane_create_locked(cache, stream);
        quick_lock_drop(&cache->lock);
        thread_forget();
    }
    lock_drop(&threads_lock);
    return lane;
}

struct lane *lane_get(acre_cache *cache, void *stream)
{
    if (!self)
        return lane_make(cache, stream);
    LIST_FOR_EACH_SAFE(link, after, &self->lanes) {
        struct lane *lane = CONTAINER_OF(link, struct lane, thread_link);
        acre_cache *owner = atomic_load_explicit(&lane->owner, memory_order_acquire);
        if (owner == cache && lane->stream == stream)
            return lane;
        if (!owner)
            lane_destroy(lane);
    }
    return self->lane_count < LANE_MOST ? lane_make(cache, stream) : NULL;
}

struct lane *lane_peek(const acre_cache *cache, const struct arena *key)
{
    if (!self)
        return NULL;
    LIST_FOR_EACH(link, &self->lanes) {
        struct lane *lane = CONTAINER_OF(link, struct lane, thread_link);
        if (lane->key == key && atomic_load_explicit(&lane->owner, memory_order_acquire) == cache)
            return lane;
    }
    return NULL;
}

/* ---- Life of a front -------------------------------------------------------- */

acre_status front_init(acre_cache *cache)
{
    cache->front = heap_aligned(LINE_BYTES, round_up(sizeof *cache->front, LINE_BYTES));
    if (!cache->front)
        return ACRE_ERR_HOST_MEMORY;
    list_init(&cache->front->lanes);
    return ACRE_OK;
}

void front_fini(acre_cache *cache)
{
    lock_take(&threads_lock);
    LIST_FOR_EACH_SAFE(link, after, &cache->front->lanes) {
        struct lane *lane = CONTAINER_OF(link, struct lane, cache_link);
        list_remove(&lane->cache_link);
        lane_close(lane);
        if (lane->thread == self)
            lane_destroy(lane);
        else
            atomic_store_explicit(&lane->owner, NULL, memory_order_release);
    }
    thread_forget();
    lock_drop(&threads_lock);
    heap_free(cache->front);
    cache->front = NULL;
}

/* ---- Blocks that waited -------------------------------------------------------- */

/* Nobody uses a block any more that waited: it goes to the lane, as if it were freed now, or to
 * its arena. */
static void lane_keep_locked(void *arg, struct block *block)
{
    struct lane *lane = arg;
    acre_cache *cache = atomic_load_explicit(&lane->owner, memory_order_relaxed);
    struct amounts amounts = credit_amounts(block->units, block->requested);

    if (atomic_load_explicit(&block->key, memory_order_relaxed) != lane->key ||
        !credit_regrant(&cache->front->credit, lane_class(block), &amounts)) {
        engine_done_locked(cache, block);
        return;
    }
    record_done_locked(cache, block);
    block->state = BLOCK_LIVE;
    lane_push(lane, block);
}

bool lane_collect_locked(acre_cache *cache, struct lane *lane)
{
    if (UNLIKELY(capture_may_run_locked(cache) || cache->deferred.capture_waiting_count))
        return false;
    deferred_collect_slow(&cache->deferred, lane_keep_locked, lane);
    return true;
}

/* Puts a live block that nobody uses any more into the lane of this thread, or into its arena. */
static inline void lane_take_back(acre_cache *cache, struct block *block)
{
    struct arena *key = atomic_load_explicit(&block->key, memory_order_relaxed);
    struct lane *lane = lane_current;

    if (UNLIKELY(lane->key != key ||
                 atomic_load_explicit(&lane->owner, memory_order_relaxed) != cache))
        lane = lane_peek(cache, key);
    if (UNLIKELY(!lane)) {
        engine_done_locked(cache, block);
        return;
    }
    atomic_store_explicit(&block->tag, 0, memory_order_release);
    lane_push(lane, block);
}

/* Whether other processes may use a block, which is asked when it is freed. */
static inline bool block_is_held(const struct block *block)
{
    for (const struct use *use = block->uses; use; use = use->next)
        if (UNLIKELY(use->hold))
            return true;
    return false;
}

acre_status front_free_used(acre_cache *cache, struct block *block, void *pointer)
{
    if (UNLIKELY(cache->fork_generation != fork_generation()))
        return cache_free(cache, pointer);
    quick_lock_take(&cache->lock);
    if (UNLIKELY(atomic_load_explicit(&block->tag, memory_order_relaxed) !=
                     ((uintptr_t)pointer | BLOCK_TAG_USED) ||
                 capture_may_run_locked(cache) || cache->history.is_armed ||
                 cache->deferred.held_count || block->pool->owner || block_is_held(block))) {
        quick_lock_drop(&cache->lock);
        return cache_free(cache, pointer);
    }
    acre_status status = deferred_add(&cache->deferred, block, true);
    if (LIKELY(status == ACRE_OK && block->state == BLOCK_LIVE)) {
        lane_take_back(cache, block);
    } else if (status == ACRE_OK) {
        struct amounts amounts = credit_amounts(block->units, block->requested);
        atomic_store_explicit(&block->tag, 0, memory_order_release);
        credit_wait(&cache->front->credit, lane_class(block), &amounts);
    }
    cache_check_locked(cache);
    quick_lock_drop(&cache->lock);
    return status;
}
