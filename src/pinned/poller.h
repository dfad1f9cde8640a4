/* SPDX-License-Identifier: MIT */
/* A thread that looks at events while some are pending, every 100 microseconds. */
#ifndef SRC_PINNED_POLLER_H
#define SRC_PINNED_POLLER_H

#include "base/lock.h"

#include <acre/base.h>

#include <stdbool.h>

/* Looks once; whether anything is pending still. */
typedef bool (*poller_fn)(void *arg);

struct poller {
    struct lock lock;
    pthread_cond_t changed;
    pthread_t thread;
    poller_fn fn;      /* constant */
    void *arg;
    unsigned generation; /* fork_generation() when it was started: a child has no such
                          thread                                                       */
    bool is_running;   /* there is a thread; written by its starter, under the owner's
                          lock                                                         */
    bool has_work;     /* by lock: something was queued since it last looked           */
    bool is_over;      /* by lock: the thread has to end                               */
};

void poller_init(struct poller *poller, poller_fn fn, void *arg);
/* Ends the thread, if there is one, and waits for it; no other call runs. */
void poller_fini(struct poller *poller);

/* Starts the thread if there is none; without threads events are looked at by callers,
 * as if the option were off. The owner's lock is held, here and below. */
void poller_start(struct poller *poller);
/* Whether the thread is there: not in a child of fork, before it is started there too. */
bool poller_is_there(const struct poller *poller);
/* Something was queued. */
void poller_notify(struct poller *poller);

#endif
