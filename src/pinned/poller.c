/* SPDX-License-Identifier: MIT */
#include "pinned/poller.h"

#include "base/process/fork.h"
#include "base/process/thread.h"

#define POLLER_PERIOD_NS 100000

static void *poller_main(void *arg)
{
    struct poller *poller = arg;

    lock_take(&poller->lock);
    while (!poller->is_over) {
        if (!poller->has_work) {
            lock_wait(&poller->lock, &poller->changed);
            continue;
        }
        poller->has_work = false;
        lock_drop(&poller->lock);
        bool is_pending = poller->fn(poller->arg);
        lock_take(&poller->lock);
        if (is_pending && !poller->is_over) {
            poller->has_work = true;
            lock_wait_ns(&poller->lock, &poller->changed, POLLER_PERIOD_NS);
        }
    }
    lock_drop(&poller->lock);
    return NULL;
}

void poller_init(struct poller *poller, poller_fn fn, void *arg)
{
    *poller = (struct poller){.fn = fn, .arg = arg};
    lock_init(&poller->lock, RANK_LEAF, "poller of events");
    lock_condition_init(&poller->changed);
}

bool poller_is_there(const struct poller *poller)
{
    return poller->is_running && poller->generation == fork_generation();
}

/* In a child of fork the thread is gone, and lock and condition are as it left them. */
static void poller_renew(struct poller *poller)
{
    if (poller->is_running && !poller_is_there(poller))
        poller_init(poller, poller->fn, poller->arg);
}

void poller_start(struct poller *poller)
{
    poller_renew(poller);
    if (poller->is_running)
        return;
    poller->is_running = thread_start(&poller->thread, poller_main, poller) == 0;
    poller->generation = fork_generation();
}

void poller_notify(struct poller *poller)
{
    if (!poller_is_there(poller))
        return;
    lock_take(&poller->lock);
    poller->has_work = true;
    pthread_cond_signal(&poller->changed);
    lock_drop(&poller->lock);
}

void poller_fini(struct poller *poller)
{
    poller_renew(poller); /* destroying a condition waits for those who wait for it */
    if (poller->is_running) {
        lock_take(&poller->lock);
        poller->is_over = true;
        pthread_cond_signal(&poller->changed);
        lock_drop(&poller->lock);
        pthread_join(poller->thread, NULL);
    }
    pthread_cond_destroy(&poller->changed);
    lock_fini(&poller->lock);
}
