/* SPDX-License-Identifier: MIT */
/* Who has ended is known where the system makes no pidfds, too. */
#include "symm/link/meet.h"

#include "tests/support/t.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void pidfds_forbid(unsigned error)
{
    struct sock_filter steps[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof steps / sizeof *steps, steps};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(77);
}

static void *thread_wait(void *arg)
{
    char byte;

    if (read(*(int *)arg, &byte, 1) != 0)
        _exit(1);
    _exit(0);
}

/* A process whose first thread ends at once, or that ends as soon as the pipe has no writer. */
static pid_t process_start(int ends[2], bool loses_its_first)
{
    pthread_t thread;

    REQUIRE(pipe(ends) == 0);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid > 0)
        return pid;
    close(ends[1]);
    if (!loses_its_first)
        thread_wait(&ends[0]);
    if (pthread_create(&thread, NULL, thread_wait, &ends[0]) != 0)
        _exit(1);
    pthread_exit(NULL);
}

/* 0: all is as it should be. */
static int look_at_processes(unsigned error)
{
    siginfo_t info;
    int ends[2];

    pidfds_forbid(error);
    for (int i = 0; i < 2; i++) {
        pid_t pid = process_start(ends, i == 1);
        if (process_open(pid) >= 0 || process_is_gone(pid))
            return 1;
        for (int tries = 0; i == 1 && tries < 20; tries++, usleep(1000))
            if (process_is_gone(pid))
                return 2;
        close(ends[1]);
        if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) != 0 || !process_is_gone(pid))
            return 3;
        if (waitpid(pid, NULL, 0) != pid || !process_is_gone(pid))
            return 4;
        close(ends[0]);
    }
    return 0;
}

TEST(a_process_that_nobody_has_waited_for_is_gone_without_pidfds)
{
    static const unsigned errors[] = {ENOSYS, EPERM};

    T_NEEDS("seccomp");
    for (unsigned i = 0; i < 2; i++) {
        int status = -1;
        pid_t pid = fork();

        REQUIRE(pid >= 0);
        if (pid == 0)
            _exit(look_at_processes(errors[i]));
        REQUIRE(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
        if (WEXITSTATUS(status) == 77)
            T_SKIP("seccomp is not to be had");
        EXPECT_EQ(WEXITSTATUS(status), 0);
    }
}

T_MAIN()
