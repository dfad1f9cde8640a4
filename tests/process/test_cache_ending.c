/* SPDX-License-Identifier: MIT */
/* A child of fork, made while a thread of the parent was ending. */
#include "tests/support/t.h"

#include <acre/acre.h>

#include <pthread.h>
#include <semaphore.h>
#include <sys/wait.h>
#include <unistd.h>

static acre_cache *cache;
static pthread_key_t early_key; /* made before those of the library: its destructor is first */
static sem_t is_ending, may_end;

static void end_late(void *arg)
{
    if (!arg)
        return;
    sem_post(&is_ending);
    sem_wait(&may_end);
}

/* Keeps a lane, and ends when it is told. */
static void *end_slowly(void *arg)
{
    void *pointer = NULL;

    (void)arg;
    pthread_setspecific(early_key, &is_ending);
    if (acre_cache_alloc(cache, 4096, NULL, &pointer) != ACRE_OK)
        t_fail(__FILE__, __LINE__, "%s", acre_last_error());
    acre_cache_free(cache, pointer);
    return NULL;
}

/* A thread that has nothing of the library, on the stack of the one that was ending. */
static void *end_at_once(void *arg)
{
    sem_init(&may_end, 0, 1);
    pthread_setspecific(early_key, arg);
    return NULL;
}

/* What the C library notes for a thread stays in a child when that thread was ending. */
TEST(a_thread_of_a_child_does_not_end_one_of_its_parent)
{
    pthread_t thread;
    acre_device *device;
    void *pointer;

    T_NEEDS("fork beside threads");
#if defined(__SANITIZE_THREAD__)
    T_SKIP("ThreadSanitizer does not start threads in children of processes with threads");
#endif
    REQUIRE_EQ(pthread_key_create(&early_key, end_late), 0);
    sem_init(&is_ending, 0, 0);
    sem_init(&may_end, 0, 0);
    REQUIRE_OK(acre_device_get(ACRE_DEVICE_CPU, 0, &device));
    REQUIRE_OK(acre_cache_create(device, NULL, &cache));
    pthread_create(&thread, NULL, end_slowly, NULL);
    sem_wait(&is_ending);
    pid_t child = fork();
    if (child == 0) {
        pthread_t other;
        alarm(60);
        acre_status status = acre_cache_alloc(cache, 4096, NULL, &pointer);
        pthread_create(&other, NULL, end_at_once, &is_ending);
        pthread_join(other, NULL);
        if (status == ACRE_OK)
            status = acre_cache_free(cache, pointer);
        acre_cache_destroy(cache);
        _exit(status == ACRE_OK ? 0 : 1);
    }
    int how = -1;
    REQUIRE_EQ(waitpid(child, &how, 0), child);
    EXPECT_EQ(how, 0);
    sem_post(&may_end);
    pthread_join(thread, NULL);
    acre_cache_destroy(cache);
    pthread_key_delete(early_key);
}

T_MAIN()
