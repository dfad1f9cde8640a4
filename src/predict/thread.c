/* SPDX-License-Identifier: MIT */
#include "predict/thread.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static bool has_key;
static struct thread_state shared;

static void key_make(void)
{
    has_key = pthread_key_create(&key, free) == 0;
}

struct thread_state *thread_self(void)
{
    struct thread_state *state;

    pthread_once(&key_once, key_make);
    if (!has_key)
        return &shared;
    state = pthread_getspecific(key);
    if (!state) {
        state = calloc(1, sizeof *state);
        if (!state || pthread_setspecific(key, state) != 0) {
            free(state);
            return &shared;
        }
    }
    return state;
}
