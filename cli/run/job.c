/* SPDX-License-Identifier: MIT */
/* Signals and the end of ranks; see job.h. */
#include "cli/run/job.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_MS = 2000 };

int64_t job_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void job_tell_all(const struct job *job, int number)
{
    for (int i = 0; i < job->count; i++) {
        const struct process *process = &job->processes[i];

        if (process->pid <= 0)
            continue;
        kill(-process->pid, number);
        if (!process->has_ended && getpgid(process->pid) != process->pid)
            kill(process->pid, number);
    }
}

void job_stop(struct job *job)
{
    if (job->kill_at_ms == 0) {
        job_tell_all(job, SIGTERM);
        job->kill_at_ms = job_now_ms() + PATIENCE_MS;
    }
}

/* Whether a signal asks this command to end; others are only passed on. */
static bool signal_ends(int number)
{
    return number == SIGTERM || number == SIGINT || number == SIGHUP || number == SIGQUIT;
}

void job_take_signal(struct job *job)
{
    struct signalfd_siginfo info;

    if (read(job->signals, &info, sizeof info) != sizeof info || info.ssi_signo == SIGCHLD)
        return;
    int number = (int)info.ssi_signo;
    if (number == SIGPIPE) { /* nobody reads what is printed any more; each write says so again */
        job->signal_got = job->signal_got ? job->signal_got : number;
        job_stop(job);
        return;
    }
    job_tell_all(job, number);
    if (number == SIGTSTP) /* the ranks are in groups of their own and stop separately */
        kill(getpid(), SIGSTOP);
    if (!signal_ends(number))
        return;
    if (job->signal_got == 0)
        job->signal_got = number;
    if (job->kill_at_ms == 0)
        job->kill_at_ms = job_now_ms() + PATIENCE_MS;
    else /* asked twice: at once */
        job->kill_at_ms = job_now_ms();
}

static void process_note(struct job *job, int rank, const siginfo_t *info)
{
    struct process *process = &job->processes[rank];

    process->has_ended = true;
    process->end_ms = job_now_ms();
    process->status =
        info->si_code == CLD_EXITED ? (info->si_status & 0xff) << 8 : info->si_status & 0x7f;
    job->running--;
    if (job->first_rank < 0)
        job->first_rank = rank;
    if (process->status != 0 && job->failed_rank < 0 && job->kill_at_ms == 0) {
        job->failed_rank = rank;
        job_stop(job);
    }
}

void job_look(struct job *job)
{
    for (int i = 0; i < job->count; i++) {
        siginfo_t info = {.si_pid = 0};
        if (job->processes[i].pid > 0 && !job->processes[i].has_ended &&
            waitid(P_PID, (id_t)job->processes[i].pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid != 0)
            process_note(job, i, &info);
    }
}

void job_reap(struct job *job)
{
    for (int i = 0; i < job->count; i++)
        if (job->processes[i].pid > 0)
            waitpid(job->processes[i].pid, NULL, 0);
}
