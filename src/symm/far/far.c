/* SPDX-License-Identifier: MIT */
/* The thread of the wire and the jobs it is given; see far.h. */
#include "symm/far/far.h"

#include "base/heap.h"
#include "base/lock.h"
#include "base/status.h"
#include "base/process/fork.h"
#include "base/process/thread.h"
#include "symm/deadline.h"
#include "symm/far/plug.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define JOB_PIECES 256u
#define JOB_BYTES  (4u << 20)      /* of one job, so that copies stay small          */
#define HOT_NS     (2 * NS_PER_MS) /* after something happened: looks all the time   */
#define REST_NS    250000          /* between looks otherwise                        */
#define EXIT_MS    5000            /* that a call under way may take when we leave   */

enum job_type { JOB_OPEN, JOB_RUN, JOB_ATTACH, JOB_DETACH, JOB_SPREAD, JOB_LEAVE, JOB_CLOSE };

struct far_job {
    struct far_job *next;
    enum job_type type;
    size_t count;           /* of pieces                                          */
    struct wire_op *pieces; /* here is in data                                    */
    void **back;            /* where what comes is to go                          */
    void *base;             /* of memory to attach or detach                      */
    size_t bytes;
    uint64_t address;
    acre_status status;
    struct wire_error error;
    bool is_done, is_given_up; /* under the lock; the second of the two frees it     */
    _Alignas(16) char data[];
};

static struct {
    struct lock lock; /* guards what follows                                */
    pthread_cond_t more, done;
    bool is_ready; /* conditions are made                                */
    bool is_open;
    pid_t pid; /* whose thread it is; 0: there is none               */
    const struct wire_ops *ops;
    void *self;
    int rank, count;
    struct far_job *first, **last;
    struct far_job *under_way;
    _Atomic int attended; /* how many wait for something to come                */
    _Atomic int64_t hot_until;
} far = {.lock = LOCK_INITIALIZER(RANK_LEAF, "wire"), .last = &far.first};

static struct fork_guard far_guard;
__attribute__((constructor)) static void far_guard_begin(void)
{
    fork_guard_lock(&far_guard, &far.lock);
}

void far_use(const struct wire_ops *ops, void *self)
{
    lock_take(&far.lock);
    far.ops = ops;
    far.self = self;
    lock_drop(&far.lock);
}

static void far_heat(void)
{
    atomic_store_explicit(&far.hot_until, clock_ns() + HOT_NS, memory_order_relaxed);
}

void far_attend_begin(void)
{
    far_heat();
    atomic_fetch_add(&far.attended, 1);
}

void far_attend_end(void)
{
    atomic_fetch_sub(&far.attended, 1);
}

bool far_is_dead(int rank)
{
    return far.ops && far.ops->is_dead && far.ops->is_dead(far.self, rank);
}

/* ---- The thread ------------------------------------------------------------------- */

static void job_do(struct far_job *job)
{
    struct wire_error *error = &job->error;

    switch (job->type) {
    case JOB_OPEN:
        job->status = far.ops->open(far.self, &far.rank, &far.count, error);
        break;
    case JOB_RUN:
        job->status = far.ops->run(far.self, job->pieces, job->count, error);
        break;
    case JOB_ATTACH:
        job->status = far.ops->attach(far.self, job->base, job->bytes, &job->address, error);
        break;
    case JOB_DETACH:
        far.ops->detach(far.self, job->base);
        break;
    case JOB_SPREAD:
        job->status = far.ops->spread(far.self, job->data, job->bytes, error);
        break;
    case JOB_LEAVE:
        if (far.ops->leave)
            far.ops->leave(far.self);
        break;
    case JOB_CLOSE:
        far.ops->close(far.self);
        break;
    }
}

/* The next job, or NULL after a rest: time to serve. */
static struct far_job *job_next(void)
{
    lock_take(&far.lock);
    if (!far.first) {
        bool is_hot = atomic_load_explicit(&far.attended, memory_order_relaxed) &&
                      clock_ns() < atomic_load_explicit(&far.hot_until, memory_order_relaxed);
        if (!far.ops->serve)
            lock_wait(&far.lock, &far.more);
        else if (!is_hot)
            lock_wait_ns(&far.lock, &far.more, REST_NS);
    }
    struct far_job *job = far.first;
    if (job) {
        far.first = job->next;
        if (!far.first)
            far.last = &far.first;
    }
    far.under_way = job;
    lock_drop(&far.lock);
    return job;
}

static void job_finish(struct far_job *job)
{
    lock_take(&far.lock);
    job->is_done = true;
    far.under_way = NULL;
    bool is_mine = job->is_given_up;
    pthread_cond_broadcast(&far.done);
    lock_drop(&far.lock);
    if (is_mine)
        heap_free(job);
}

static void *far_main(void *arg)
{
    bool is_open = false, is_over = false;

    while (!is_over) {
        struct far_job *job = job_next();
        if (job) {
            if (job->type != JOB_OPEN || !is_open)
                job_do(job);
            is_open = is_open || (job->type == JOB_OPEN && job->status == ACRE_OK);
            is_over = job->type == JOB_CLOSE;
            far_heat();
            job_finish(job);
        }
        if (!is_over && is_open && far.ops->serve) {
            far.ops->serve(far.self);
            sched_yield();
        }
    }
    return arg;
}

/* ---- Handing over ----------------------------------------------------------------- */

static struct far_job *job_new(enum job_type type, size_t pieces, size_t bytes)
{
    size_t each = sizeof(struct wire_op) + sizeof(void *);
    struct far_job *job = heap_zalloc(sizeof *job + bytes + 16 + pieces * each);

    if (!job)
        return NULL;
    job->type = type;
    job->error.rank = -1;
    job->bytes = bytes;
    job->pieces = (struct wire_op *)(void *)(job->data + (bytes + 15) / 16 * 16);
    job->back = (void **)(void *)(job->pieces + pieces);
    return job;
}

/* Takes a job back that was not begun. */
static void job_forget_locked(struct far_job *job)
{
    struct far_job **at = &far.first;

    while (*at && *at != job)
        at = &(*at)->next;
    if (*at)
        *at = job->next;
    if (far.last == &job->next)
        far.last = at;
}

/* Gives a job to the thread and waits; on success the job stays the caller's. */
static acre_status job_run(struct far_job *job, int64_t deadline, int *out_rank)
{
    struct far_job *first;

    lock_take(&far.lock);
    *far.last = job;
    far.last = &job->next;
    pthread_cond_signal(&far.more);
    while (!job->is_done && deadline_left_ns(deadline) > 0)
        lock_wait_ns(&far.lock, &far.done,
                     deadline_sooner(deadline_left_ns(deadline), 60000 * NS_PER_MS));
    bool is_done = job->is_done, is_begun = is_done || far.under_way == job;
    job->is_given_up = !is_done;
    first = far.under_way ? far.under_way : job;
    int stuck = first->count ? first->pieces[0].rank : -1;
    if (!is_begun)
        job_forget_locked(job);
    lock_drop(&far.lock);
    if (!is_done) {
        if (!is_begun)
            heap_free(job);
        if (out_rank)
            *out_rank = stuck;
        return status_fail(ACRE_ERR_TIMEOUT, "wire %s: rank %d of it does not answer",
                           far.ops->name, stuck);
    }
    acre_status status = job->status;
    if (out_rank)
        *out_rank = job->error.rank;
    if (status != ACRE_OK) {
        status_fail(status, "wire %s: %s", far.ops->name, job->error.text);
        heap_free(job);
    }
    return status;
}

/* A process that is ready for jobs: neither before opening nor in a child of it. */
static acre_status far_check(void)
{
    if (far.pid == getpid())
        return ACRE_OK;
    return status_fail(far.pid ? ACRE_ERR_FORKED : ACRE_ERR_STATE,
                       "symmetric memory: the wire to other hosts belongs to process %d",
                       (int)far.pid);
}

/* ---- Opening and leaving ---------------------------------------------------------- */

/* Does a last job; whether it is done. A call that hangs before it does not keep us. */
static bool job_last(enum job_type type, bool may_take_long, uint32_t ms_max)
{
    struct far_job *job = job_new(type, 0, 0);
    int64_t deadline = deadline_in_ms(ms_max);

    if (!job)
        return false;
    lock_take(&far.lock);
    *far.last = job;
    far.last = &job->next;
    pthread_cond_signal(&far.more);
    while (!job->is_done &&
           ((may_take_long && far.under_way == job) || deadline_left_ns(deadline) > 0))
        lock_wait_ns(&far.lock, &far.done, 100 * NS_PER_MS);
    bool is_done = job->is_done;
    lock_drop(&far.lock);
    return is_done;
}

/* All ranks leave together, so that may take as long as the others do. What comes after it is
 * short, or hangs: over TCP, MPI_Finalize of MPICH before 4.1.2 often waits for ranks that wait
 * for it. Then this process ends without it, since the thread is inside libraries that are
 * about to be taken down; mpirun may complain. */
static void far_exit(int status, void *unused)
{
    (void)unused;
    if (far.pid != getpid() || !far.is_open)
        return;
    fflush(NULL); /* who ends first may take the others along */
    uint32_t close_ms = far.ops->close_ms_max;
    if (!job_last(JOB_LEAVE, true, EXIT_MS) ||
        !job_last(JOB_CLOSE, close_ms == 0, close_ms ? close_ms : EXIT_MS))
        _exit(status);
}

#ifdef __GLIBC__
#define far_at_exit() on_exit(far_exit, NULL)
#else
/* A libc without on_exit does not tell the exit status: leaving early is a failure. */
static void far_exit_failed(void)
{
    far_exit(EXIT_FAILURE, NULL);
}
#define far_at_exit() atexit(far_exit_failed)
#endif

static acre_status far_thread(void)
{
    pthread_t thread;

    if (!far.is_ready) {
        lock_condition_init(&far.more);
        lock_condition_init(&far.done);
        far.is_ready = true;
        far_at_exit();
    }
    if (thread_start(&thread, far_main, NULL) != 0)
        return status_fail(ACRE_ERR_HOST_MEMORY, "symmetric memory: no thread for the wire");
    pthread_detach(thread);
    far.pid = getpid();
    return ACRE_OK;
}

acre_status far_open(int64_t deadline, const char **out_name, int *out_rank)
{
    const struct wire_ops *found = NULL;
    acre_status status = ACRE_OK;

    lock_take(&far.lock);
    bool is_open = far.is_open, is_known = far.ops != NULL;
    lock_drop(&far.lock);
    if (!is_known) {
        status = plug_find(&found);
        if (status == ACRE_OK && found)
            far_use(found, NULL);
    }
    if (status == ACRE_OK && (is_known || found) && !is_open) {
        lock_take(&far.lock);
        if (far.pid != getpid())
            status = far.pid ? ACRE_OK : far_thread();
        lock_drop(&far.lock);
        if (status == ACRE_OK)
            status = far_check();
        struct far_job *job = status == ACRE_OK ? job_new(JOB_OPEN, 0, 0) : NULL;
        if (status == ACRE_OK)
            status = job ? job_run(job, deadline, NULL) : ACRE_ERR_HOST_MEMORY;
        if (status == ACRE_OK) {
            heap_free(job);
            far.is_open = true;
        }
    }
    if (status != ACRE_OK)
        return status;
    *out_name = far.ops ? far.ops->name : "";
    *out_rank = far.rank;
    return ACRE_OK;
}

/* ---- Jobs ------------------------------------------------------------------------- */

/* How far a list of pieces has been done. */
struct cursor {
    size_t op, at;
};

static size_t piece_bytes(const far_op *ops, struct cursor cursor)
{
    size_t left = ops[cursor.op].bytes - cursor.at;

    return left < WIRE_PIECE_MAX ? left : WIRE_PIECE_MAX;
}

static struct cursor cursor_next(const far_op *ops, struct cursor cursor, size_t bytes)
{
    cursor.at += bytes;
    return cursor.at < ops[cursor.op].bytes ? cursor : (struct cursor){cursor.op + 1, 0};
}

/* Takes as many pieces as one job may have. */
static struct far_job *job_of_pieces(const far_op *ops, size_t count, struct cursor *cursor)
{
    struct cursor end = *cursor;
    size_t bytes = 0, pieces = 0, at = 0;

    while (end.op < count && pieces < JOB_PIECES && bytes < JOB_BYTES) {
        size_t piece = piece_bytes(ops, end);
        bytes += (piece + 15) / 16 * 16;
        pieces++;
        end = cursor_next(ops, end, piece);
    }
    struct far_job *job = job_new(JOB_RUN, pieces, bytes);
    if (!job)
        return NULL;
    for (; job->count < pieces; job->count++) {
        const far_op *op = &ops[cursor->op];
        size_t piece = piece_bytes(ops, *cursor);
        char *user = (char *)op->here + cursor->at;
        job->pieces[job->count] = *op;
        job->pieces[job->count].bytes = piece;
        job->pieces[job->count].address += cursor->at;
        job->pieces[job->count].here = job->data + at;
        job->back[job->count] = op->kind == WIRE_PUT ? NULL : user;
        if (op->kind == WIRE_PUT)
            memcpy(job->data + at, user, piece);
        at += (piece + 15) / 16 * 16;
        *cursor = cursor_next(ops, *cursor, piece);
    }
    return job;
}

acre_status far_run(const far_op *ops, size_t count, int64_t deadline, int *out_rank)
{
    struct cursor cursor = {0, 0};
    acre_status status = far_check();

    *out_rank = -1;
    while (status == ACRE_OK && cursor.op < count) {
        struct far_job *job = job_of_pieces(ops, count, &cursor);
        if (!job)
            return ACRE_ERR_HOST_MEMORY;
        status = job_run(job, deadline, out_rank);
        if (status != ACRE_OK)
            break;
        for (size_t i = 0; i < job->count; i++)
            if (job->back[i] && job->pieces[i].bytes)
                memcpy(job->back[i], job->pieces[i].here, job->pieces[i].bytes);
        heap_free(job);
    }
    return status;
}

acre_status far_attach(void *base, size_t bytes, uint64_t *out_address)
{
    acre_status status = far_check();
    struct far_job *job = status == ACRE_OK ? job_new(JOB_ATTACH, 0, 0) : NULL;

    if (!job)
        return status == ACRE_OK ? ACRE_ERR_HOST_MEMORY : status;
    job->base = base;
    job->bytes = bytes;
    status = job_run(job, deadline_in_ms(60000), NULL);
    if (status == ACRE_OK) {
        *out_address = job->address;
        heap_free(job);
    }
    return status;
}

bool far_detach(void *base)
{
    struct far_job *job = far.pid == getpid() ? job_new(JOB_DETACH, 0, 0) : NULL;
    struct status_saved saved;

    if (!job)
        return far.pid != getpid();
    job->base = base;
    status_save(&saved);
    acre_status status = job_run(job, deadline_in_ms(EXIT_MS), NULL);
    status_restore(&saved);
    if (status == ACRE_OK)
        heap_free(job);
    return status == ACRE_OK;
}

acre_status far_spread(void *data, size_t bytes, int64_t deadline)
{
    acre_status status = far_check();
    struct far_job *job = status == ACRE_OK ? job_new(JOB_SPREAD, 0, bytes) : NULL;

    if (!job)
        return status == ACRE_OK ? ACRE_ERR_HOST_MEMORY : status;
    memcpy(job->data, data, bytes);
    status = job_run(job, deadline, NULL);
    if (status == ACRE_OK) {
        memcpy(data, job->data, bytes);
        heap_free(job);
    }
    return status;
}
