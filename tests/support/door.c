/* SPDX-License-Identifier: MIT */
#include "tests/support/door.h"

#include "tests/support/t.h"

#include <unistd.h>

void door_pass(void *arg)
{
    struct door *door = (struct door *)arg;

    pthread_mutex_lock(&door->mutex);
    door->inside++;
    pthread_cond_broadcast(&door->changed);
    while (!door->is_open)
        pthread_cond_wait(&door->changed, &door->mutex);
    door->passed++;
    pthread_mutex_unlock(&door->mutex);
}

void door_open(void *arg)
{
    struct door *door = (struct door *)arg;

    pthread_mutex_lock(&door->mutex);
    door->is_open = 1;
    pthread_cond_broadcast(&door->changed);
    pthread_mutex_unlock(&door->mutex);
}

void door_close(struct door *door)
{
    pthread_mutex_lock(&door->mutex);
    door->is_open = door->passed = door->inside = 0;
    pthread_mutex_unlock(&door->mutex);
}

void door_await(struct door *door, int inside)
{
    pthread_mutex_lock(&door->mutex);
    while (door->inside < inside)
        pthread_cond_wait(&door->changed, &door->mutex);
    pthread_mutex_unlock(&door->mutex);
}

int door_passed(struct door *door)
{
    int passed;

    pthread_mutex_lock(&door->mutex);
    passed = door->passed;
    pthread_mutex_unlock(&door->mutex);
    return passed;
}

static void *open_later(void *door)
{
    usleep(20000); /* long enough for a wait that does not wait to be caught */
    door_open(door);
    return NULL;
}

pthread_t door_open_later(struct door *door)
{
    pthread_t thread;

    REQUIRE_EQ(pthread_create(&thread, NULL, open_later, door), 0);
    return thread;
}

struct call {
    void (*fn)(void *);
    void *arg;
};

static void *run_call(void *arg)
{
    struct call *call = (struct call *)arg;

    call->fn(call->arg);
    return NULL;
}

void on_thread(void (*fn)(void *), void *arg)
{
    struct call call;
    pthread_t thread;

    call.fn = fn;
    call.arg = arg;
    REQUIRE_EQ(pthread_create(&thread, NULL, run_call, &call), 0);
    pthread_join(thread, NULL);
}

void count_task(void *number)
{
    __atomic_fetch_add((int *)number, 1, __ATOMIC_ACQ_REL);
}

int number_at(int *number)
{
    return __atomic_load_n(number, __ATOMIC_ACQUIRE);
}
