/* SPDX-License-Identifier: MIT */
/* Tasks whose order a test decides: they stand before a door until it opens, so
 * that nothing depends on how long anything takes. Fit for C and C++. */
#ifndef TESTS_SUPPORT_DOOR_H
#define TESTS_SUPPORT_DOOR_H

#include <pthread.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A door that tasks wait at. */
struct door {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int is_open;
    int passed; /* tasks that went through        */
    int inside; /* tasks that reached it          */
};

#define DOOR_INITIALIZER {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0}

void door_pass(void *door);               /* the task: waits until it is open  */
void door_open(void *door);               /* also fit for a task               */
void door_close(struct door *door);       /* ready for the next use            */
void door_await(struct door *door, int inside); /* until so many tasks are at it */
int door_passed(struct door *door);

/* Opens a door from another thread a little later; join afterwards. */
pthread_t door_open_later(struct door *door);

/* Runs fn on a fresh thread and waits for it. */
void on_thread(void (*fn)(void *), void *arg);

/* A number that tasks add 1 to. */
void count_task(void *number);
int number_at(int *number);

#ifdef __cplusplus
}
#endif

#endif
