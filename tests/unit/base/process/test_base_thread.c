/* SPDX-License-Identifier: MIT */
/* Threads of the library leave signals to those of the application. */
#include "base/process/thread.h"

#include "tests/support/t.h"

#include <acre/acre.h>

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

/* Signals that a fault raises may be handled; all others are blocked. */
static void expect_blocked(const sigset_t *set)
{
    for (int number = 1; number < 32; number++) {
        bool is_fault = number == SIGSEGV || number == SIGBUS || number == SIGFPE ||
                        number == SIGILL || number == SIGTRAP;
        if (number != SIGKILL && number != SIGSTOP)
            EXPECT_EQ(sigismember(set, number), !is_fault);
    }
}

static void *look(void *arg)
{
    pthread_sigmask(SIG_SETMASK, NULL, arg);
    return NULL;
}

TEST(a_thread_has_signals_blocked)
{
    sigset_t before, after, inside;
    pthread_t thread;

    pthread_sigmask(SIG_SETMASK, NULL, &before);
    REQUIRE(thread_start(&thread, look, &inside) == 0);
    pthread_join(thread, NULL);
    expect_blocked(&inside);
    pthread_sigmask(SIG_SETMASK, NULL, &after);
    EXPECT_EQ(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
}

/* The masks of all threads but this one, as the kernel shows them. */
static int threads_check(void)
{
    DIR *folder = opendir("/proc/self/task");
    int count = 0;

    REQUIRE(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char path[300], line[256];
        unsigned long long mask = 0;
        if (entry->d_name[0] == '.' || atol(entry->d_name) == getpid())
            continue;
        snprintf(path, sizeof path, "/proc/self/task/%s/status", entry->d_name);
        FILE *file = fopen(path, "r");
        while (file && fgets(line, sizeof line, file))
            if (sscanf(line, "SigBlk: %llx", &mask) == 1)
                break;
        if (file)
            fclose(file);
        EXPECT(mask >> (SIGTERM - 1) & 1 && mask >> (SIGINT - 1) & 1 && mask >> (SIGUSR1 - 1) & 1);
        count++;
    }
    closedir(folder);
    return count;
}

TEST(every_thread_of_the_library_has_signals_blocked)
{
    acre_store_server *server;
    acre_device *device;
    void *stream;

    REQUIRE_OK(acre_store_server_create("127.0.0.1", 0, NULL, &server));
    REQUIRE_OK(acre_device_get(ACRE_DEVICE_PRIVATE, 0, &device));
    REQUIRE_OK(acre_stream_native_create(device, 0, 0, &stream));
    REQUIRE_OK(acre_stream_native_synchronize(device, stream));
    EXPECT_GE(threads_check(), 2);
    REQUIRE_OK(acre_stream_native_destroy(device, stream));
    acre_store_server_destroy(server);
}

T_MAIN()
