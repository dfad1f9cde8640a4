/* SPDX-License-Identifier: MIT */
#include "base/process/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>

static _Atomic bool is_refusing; /* for tests */

void thread_refuse(bool refuse)
{
    is_refusing = refuse;
}

int thread_start(pthread_t *out, void *(*run)(void *), void *arg)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP};
    sigset_t blocked, before;

    if (is_refusing)
        return EAGAIN;
    sigfillset(&blocked);
    for (unsigned i = 0; i < sizeof faults / sizeof faults[0]; i++)
        sigdelset(&blocked, faults[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    int code = pthread_create(out, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return code;
}
