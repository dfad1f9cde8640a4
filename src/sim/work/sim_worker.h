/* SPDX-License-Identifier: MIT */
/* The threads of the reference device: workers, and one watcher.
 *
 * Workers take ready streams, those of higher priority first, and run them. An
 * idle worker lingers for a while, then ends. A stream that becomes ready wakes an
 * idle worker; when there is none, a new one starts at once while there are few of
 * them. Beyond that the watcher decides: when no stream was picked for a tick
 * and every worker is inside a function of the user, which may block for ever, it
 * starts more, at most doubling them. So thousands of streams with short tasks are
 * served by a handful of threads, and yet a stream with work always gets one: where
 * no more can be started, the watcher itself.
 *
 * The watcher starts with the first stream. While streams wait for values in memory
 * it looks at these values, at once when a stream wrote one, else with pauses that
 * grow to a bound: another process, or the host through an access window, may write
 * them. With nothing to watch it sleeps.
 *
 * A thread that ends is joined by the next one that ends, the last one by
 * workers_stop: none is left when that returns.
 */
#ifndef SRC_BACKEND_SIM_WORKER_H
#define SRC_BACKEND_SIM_WORKER_H

#include "base/list.h"
#include "base/lock.h"

#include <acre/base.h>

#include <stdatomic.h>
#include <stdbool.h>

struct sim_stream;
struct sim_streams;

#define WORKER_PRIORITIES 2

/* A worker; lives on the stack of its thread. */
struct worker {
    struct list link;      /* in sim_workers.all                               */
    struct list idle_link; /* in sim_workers.idle while idle and not called    */
    bool is_called;        /* has been taken off the idle list                 */
    pthread_cond_t call;
    atomic_bool is_in_user; /* runs a host function or kernel, which may block */
};

/* Guarded by lock unless said otherwise. */
struct sim_workers {
    struct lock lock; /* RANK_WORKER */
    struct list ready[WORKER_PRIORITIES]; /* sim_stream.link, by priority       */
    _Atomic uint32_t ready_count[WORKER_PRIORITIES]; /* written under lock      */
    struct list all;       /* struct worker                                     */
    struct list idle;      /* struct worker, the latest to become idle first    */
    uint32_t count;        /* workers, those just being started included        */
    uint32_t count_free;   /* how many start without asking the watcher         */
    long long tick_ns;     /* without a pick for this long, workers are stuck   */
    uint64_t picked_count; /* streams taken by workers so far                   */
    bool is_calling;       /* a worker was called or started, and did not look yet */
    bool is_stopping;
    pthread_cond_t ended;  /* count became 0                                    */
    bool has_dead;         /* dead is a thread that ended and is to be joined   */
    pthread_t dead;

    bool has_watcher;
    pthread_t watcher;
    bool is_watcher_asleep; /* without a timeout                                */
    pthread_cond_t watch;
    struct list values;     /* sim_stream.link: streams parked at a value       */
    bool is_value_written;  /* look at once                                     */
};

void workers_init(struct sim_workers *workers);
/* Starts the watcher if it does not run yet. Errors: ACRE_ERR_HOST_MEMORY. */
acre_status workers_start(struct sim_workers *workers);
/* Ends all threads; every stream is idle. */
void workers_stop(struct sim_workers *workers);
void workers_fini(struct sim_workers *workers);

/* Hands over a stream that can run; a worker will own it. */
void workers_ready(struct sim_workers *workers, struct sim_stream *stream);
/* Whether a worker should hand its stream on: another one waits that is of a
 * higher priority or, after a fair share of tasks, of the same. */
bool workers_wanted(struct sim_workers *workers, int priority, unsigned tasks_done);
/* Hands over a stream that waits for a value; the watcher will own it. */
void workers_watch(struct sim_workers *workers, struct sim_stream *stream);
/* A stream wrote a value, or waiting has become pointless. */
void workers_value_written(struct sim_workers *workers);
/* How many threads there are. */
uint32_t workers_count(struct sim_workers *workers);

#endif
