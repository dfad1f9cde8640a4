/* SPDX-License-Identifier: MIT */
/* See sim_worker.h. Tasks are run by stream_run (sim_queue.c); here is only who
 * runs which stream, and when. */
#include "sim/work/sim_worker.h"

#include "base/process/thread.h"
#include "sim/work/sim_queue.h"

#include <time.h>
#include <unistd.h>

#define LINGER_NS        100000000LL /* an idle worker ends after this                  */
#define TICK_NS          1000000LL
#define PAUSE_NS_MIN     20000LL /* between two looks at values                     */
#define PAUSE_NS_MAX     1000000LL
#define SHARE_TASKS      64 /* tasks of one stream before others have a turn   */
#define WORKERS_FREE_MIN 4

static struct sim_streams *sim_worker_owner(struct sim_workers *workers)
{
    return CONTAINER_OF(workers, struct sim_streams, workers);
}

static long long now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* ---- Workers --------------------------------------------------------------- */

static uint32_t ready_total(struct sim_workers *workers)
{
    uint32_t total = 0;

    for (int p = 0; p < WORKER_PRIORITIES; p++)
        total += atomic_load_explicit(&workers->ready_count[p], memory_order_relaxed);
    return total;
}

static struct sim_stream *ready_take_locked(struct sim_workers *workers)
{
    for (int p = WORKER_PRIORITIES - 1; p >= 0; p--) {
        if (!list_empty(&workers->ready[p])) {
            struct list *link = workers->ready[p].next;

            list_remove(link);
            atomic_fetch_sub_explicit(&workers->ready_count[p], 1, memory_order_relaxed);
            workers->picked_count++;
            return CONTAINER_OF(link, struct sim_stream, link);
        }
    }
    return NULL;
}

/* Waits to be called; false when the worker lingered long enough. */
static bool idle_locked(struct sim_workers *workers, struct worker *me)
{
    int code = 0;

    me->is_called = false;
    list_push_front(&workers->idle, &me->idle_link);
    while (!me->is_called && code == 0)
        code = lock_wait_ns(&workers->lock, &me->call, LINGER_NS);
    list_remove(&me->idle_link);
    return me->is_called;
}

/* Wakes the worker that was idle for the shortest time; false when none is idle. */
static bool call_idle_locked(struct sim_workers *workers)
{
    struct worker *worker;

    if (list_empty(&workers->idle))
        return false;
    worker = CONTAINER_OF(workers->idle.next, struct worker, idle_link);
    list_remove(&worker->idle_link);
    worker->is_called = true;
    pthread_cond_signal(&worker->call);
    return true;
}

/* Sees to it that somebody is on the way to the ready streams. Workers come one after
 * another: each that has picked a stream calls the next, so that a burst of short tasks
 * does not wake them all. True: the caller starts a worker, with the lock dropped. */
static bool call_locked(struct sim_workers *workers)
{
    if (workers->is_calling || !ready_total(workers))
        return false;
    workers->is_calling = true;
    if (call_idle_locked(workers))
        return false;
    if (workers->count < workers->count_free) {
        workers->count++;
        return true;
    }
    workers->is_calling = false;
    if (workers->is_watcher_asleep) {
        workers->is_watcher_asleep = false;
        pthread_cond_signal(&workers->watch);
    }
    return false;
}

/* The next stream to run, or NULL when the worker is to end. is_fresh: the worker has
 * just started. */
static struct sim_stream *pick_locked(struct sim_workers *workers, struct worker *me, bool is_fresh)
{
    for (bool is_called = is_fresh;; is_called = true) {
        struct sim_stream *stream = ready_take_locked(workers);

        if (is_called)
            workers->is_calling = false;
        if (stream)
            return stream;
        if (workers->is_stopping)
            return NULL;
        if (!idle_locked(workers, me) && !ready_total(workers))
            return NULL;
    }
}

/* A worker ends. Whoever stops the workers joins the last of them, and each joins the one that
 * ended before; one that merely has nothing to do is nobody's to wait for. Drops the lock. */
static void worker_end_locked(struct sim_workers *workers)
{
    bool is_joined = workers->is_stopping, has_dead = is_joined && workers->has_dead;
    pthread_t dead = workers->dead;

    if (is_joined) {
        workers->has_dead = true;
        workers->dead = pthread_self();
    }
    if (--workers->count == 0)
        pthread_cond_broadcast(&workers->ended);
    lock_drop(&workers->lock);
    if (!is_joined)
        pthread_detach(pthread_self());
    if (has_dead)
        pthread_join(dead, NULL);
}

static bool worker_start(struct sim_workers *workers);

static void *worker_main(void *arg)
{
    struct sim_workers *workers = arg;
    struct worker me = {.is_called = false};
    struct sim_stream *stream;
    bool is_fresh = true, is_starting;

    lock_condition_init(&me.call);
    list_init(&me.idle_link);
    lock_take(&workers->lock);
    list_push_back(&workers->all, &me.link);
    while ((stream = pick_locked(workers, &me, is_fresh)) != NULL) {
        is_fresh = false;
        is_starting = call_locked(workers);
        lock_drop(&workers->lock);
        if (is_starting)
            worker_start(workers);
        stream_run(sim_worker_owner(workers), stream, &me);
        lock_take(&workers->lock);
    }
    list_remove(&me.link);
    worker_end_locked(workers);
    pthread_cond_destroy(&me.call);
    return NULL;
}

/* Starts a worker that was counted already. Where that fails, the workers there are take the
 * ready streams; without any, or when all of them are stuck, the watcher does. */
static bool worker_start(struct sim_workers *workers)
{
    pthread_t thread;

    if (thread_start(&thread, worker_main, workers) == 0)
        return true;
    lock_take(&workers->lock);
    workers->is_calling = false;
    if (--workers->count == 0)
        pthread_cond_broadcast(&workers->ended);
    pthread_cond_signal(&workers->watch);
    workers->is_watcher_asleep = false;
    lock_drop(&workers->lock);
    return false;
}

void workers_ready(struct sim_workers *workers, struct sim_stream *stream)
{
    int priority = stream->priority;
    bool is_starting;

    lock_take(&workers->lock);
    list_push_back(&workers->ready[priority], &stream->link);
    atomic_fetch_add_explicit(&workers->ready_count[priority], 1, memory_order_relaxed);
    is_starting = call_locked(workers);
    lock_drop(&workers->lock);
    if (is_starting)
        worker_start(workers);
}

bool workers_wanted(struct sim_workers *workers, int priority, unsigned tasks_done)
{
    for (int p = WORKER_PRIORITIES - 1; p >= priority; p--)
        if (atomic_load_explicit(&workers->ready_count[p], memory_order_relaxed) > 0)
            return p > priority || tasks_done >= SHARE_TASKS;
    return false;
}

uint32_t workers_count(struct sim_workers *workers)
{
    uint32_t count;

    lock_take(&workers->lock);
    count = workers->count + workers->has_watcher;
    lock_drop(&workers->lock);
    return count;
}

/* ---- The watcher -------------------------------------------------------------- */

/* What the watcher remembers between two looks. */
struct worker_watch {
    long long pause_ns;    /* until the next look at values              */
    long long stuck_ns;    /* since when nothing was picked              */
    uint64_t picked_count; /* at that time                               */
};

/* Looks at all values that streams wait for. The lock is dropped meanwhile. */
static void watch_values_locked(struct sim_workers *workers, struct worker_watch *watch)
{
    struct list looked = LIST_INITIALIZER(looked), work = LIST_INITIALIZER(work);
    long long begin = now_ns();
    bool is_met = workers->is_value_written;

    workers->is_value_written = false;
    if (list_empty(&workers->values))
        return;
    looked.next = workers->values.next;
    looked.prev = workers->values.prev;
    looked.next->prev = looked.prev->next = &looked;
    list_init(&workers->values);
    lock_drop(&workers->lock);
    LIST_FOR_EACH_SAFE(link, after, &looked) {
        struct sim_stream *stream = CONTAINER_OF(link, struct sim_stream, link);

        list_remove(link);
        if (stream_retry_value(sim_worker_owner(workers), stream, &work)) {
            is_met = true;
        } else {
            list_push_back(after, link);
        }
    }
    stream_drive(sim_worker_owner(workers), &work);
    lock_take(&workers->lock);
    LIST_FOR_EACH_SAFE(link, after, &looked) {
        list_remove(link);
        list_push_back(&workers->values, link);
    }
    watch->pause_ns = is_met ? PAUSE_NS_MIN : 2 * watch->pause_ns;
    if (watch->pause_ns > PAUSE_NS_MAX)
        watch->pause_ns = PAUSE_NS_MAX;
    if (watch->pause_ns < 4 * (now_ns() - begin))
        watch->pause_ns = 4 * (now_ns() - begin); /* many waits: a fifth of a core at most */
}

/* Whether all workers are inside functions of the user. */
static bool is_stuck_locked(struct sim_workers *workers)
{
    uint32_t in_user = 0;

    LIST_FOR_EACH(link, &workers->all)
        in_user += atomic_load_explicit(&CONTAINER_OF(link, struct worker, link)->is_in_user,
                                        memory_order_relaxed);
    return in_user == workers->count;
}

/* How many workers to start: the streams that are ready are not picked. */
static uint32_t watch_stuck_locked(struct sim_workers *workers, struct worker_watch *watch)
{
    uint32_t ready = ready_total(workers), more;
    long long now = now_ns();

    if (!ready || watch->picked_count != workers->picked_count) {
        watch->picked_count = workers->picked_count;
        watch->stuck_ns = now;
        return 0;
    }
    if (now - watch->stuck_ns < workers->tick_ns || !list_empty(&workers->idle) ||
        !is_stuck_locked(workers))
        return 0;
    watch->stuck_ns = now;
    more = workers->count ? workers->count : 1;
    more = more < ready ? more : ready;
    workers->count += more;
    return more;
}

/* Sleeps until there is something to look at. */
static void watch_pause_locked(struct sim_workers *workers, struct worker_watch *watch)
{
    if (workers->is_stopping || workers->is_value_written)
        return;
    if (!list_empty(&workers->values)) {
        lock_wait_ns(&workers->lock, &workers->watch, watch->pause_ns);
    } else if (ready_total(workers)) {
        lock_wait_ns(&workers->lock, &workers->watch, workers->tick_ns);
    } else {
        watch->pause_ns = PAUSE_NS_MIN;
        workers->is_watcher_asleep = true;
        lock_wait(&workers->lock, &workers->watch);
        workers->is_watcher_asleep = false;
    }
}

/* No worker could be started: the watcher runs what is ready by itself. Meanwhile nobody looks at
 * values, which is less than that nobody goes on. */
static void watch_serve_locked(struct sim_workers *workers)
{
    struct worker me = {.is_called = false};
    struct sim_stream *stream = ready_take_locked(workers);

    if (!stream)
        return;
    lock_condition_init(&me.call);
    list_init(&me.idle_link);
    lock_drop(&workers->lock);
    stream_run(sim_worker_owner(workers), stream, &me);
    lock_take(&workers->lock);
    pthread_cond_destroy(&me.call);
}

static void *watcher_main(void *arg)
{
    struct sim_workers *workers = arg;
    struct worker_watch watch = {.pause_ns = PAUSE_NS_MIN};

    lock_take(&workers->lock);
    while (!workers->is_stopping) {
        uint32_t more, started = 0;

        watch_values_locked(workers, &watch);
        more = watch_stuck_locked(workers, &watch);
        if (more) {
            lock_drop(&workers->lock);
            for (uint32_t i = 0; i < more; i++)
                started += worker_start(workers);
            lock_take(&workers->lock);
        }
        if ((!workers->count || (more && !started)) && ready_total(workers))
            watch_serve_locked(workers);
        else
            watch_pause_locked(workers, &watch);
    }
    lock_drop(&workers->lock);
    return NULL;
}

void workers_watch(struct sim_workers *workers, struct sim_stream *stream)
{
    lock_take(&workers->lock);
    list_push_back(&workers->values, &stream->link);
    workers->is_value_written = true; /* it may have been between the look and now */
    workers->is_watcher_asleep = false;
    pthread_cond_signal(&workers->watch);
    lock_drop(&workers->lock);
}

void workers_value_written(struct sim_workers *workers)
{
    lock_take(&workers->lock);
    workers->is_value_written = true;
    if (!list_empty(&workers->values))
        pthread_cond_signal(&workers->watch);
    lock_drop(&workers->lock);
}

/* ---- Life ------------------------------------------------------------------------ */

void workers_init(struct sim_workers *workers)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    lock_init(&workers->lock, RANK_WORKER, "sim workers");
    for (int p = 0; p < WORKER_PRIORITIES; p++)
        list_init(&workers->ready[p]);
    list_init(&workers->all);
    list_init(&workers->idle);
    list_init(&workers->values);
    lock_condition_init(&workers->ended);
    lock_condition_init(&workers->watch);
    workers->tick_ns = TICK_NS;
    workers->count_free = cores > WORKERS_FREE_MIN ? (uint32_t)cores : WORKERS_FREE_MIN;
}

acre_status workers_start(struct sim_workers *workers)
{
    int code = 0;

    lock_take(&workers->lock);
    if (!workers->has_watcher) {
        code = thread_start(&workers->watcher, watcher_main, workers);
        workers->has_watcher = code == 0;
    }
    lock_drop(&workers->lock);
    if (code != 0)
        return status_fail_native(ACRE_ERR_HOST_MEMORY, code,
                                  "the first stream needs a thread, which could not be started; "
                                  "see the limit on processes (ulimit -u)");
    return ACRE_OK;
}

void workers_stop(struct sim_workers *workers)
{
    bool has_watcher;

    lock_take(&workers->lock);
    CHECK(ready_total(workers) == 0 && list_empty(&workers->values));
    workers->is_stopping = true;
    while (call_idle_locked(workers))
        ;
    pthread_cond_signal(&workers->watch);
    while (workers->count > 0)
        lock_wait(&workers->lock, &workers->ended);
    has_watcher = workers->has_watcher;
    workers->has_watcher = false;
    lock_drop(&workers->lock);
    if (workers->has_dead)
        pthread_join(workers->dead, NULL);
    if (has_watcher)
        pthread_join(workers->watcher, NULL);
}

void workers_fini(struct sim_workers *workers)
{
    pthread_cond_destroy(&workers->ended);
    pthread_cond_destroy(&workers->watch);
    lock_fini(&workers->lock);
}
