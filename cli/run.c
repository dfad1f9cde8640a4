/* SPDX-License-Identifier: MIT */
/* acre run: starts a program several times, as ranks that find each other.
 *
 * Each rank is a process group of its own. What it prints comes out in whole lines with the
 * rank before them. The store is served here unless one is named, with a secret that only
 * the ranks know. When one rank fails the others are told to end, and after two seconds made
 * to. Signals that this command gets go to all ranks. Should it die, the ranks die with it.
 */
#include "cli/commands.h"
#include "cli/text/options.h"

#include <acre/store.h>

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS_MAX = 1024, LINE_MAX_BYTES = 65536, PATIENCE_MS = 2000 };

/* One of the two outputs of a rank. */
struct output {
    int fd; /* -1 once it ended                  */
    FILE *to;
    char *line; /* bytes that are not a line yet     */
    size_t used;
};

struct process {
    pid_t pid; /* 0 once it was waited for */
    struct output outputs[2];
};

struct job {
    int count;
    bool is_plain; /* without ranks before lines              */
    bool is_bound; /* each rank on one processor              */
    char **command;
    struct process *processes;
    int running;
    int failed_rank;    /* the first that failed, or -1            */
    int failed_status;  /* as waitpid gave it                      */
    int signal_got;     /* one that ends this command, or 0        */
    int64_t kill_at_ms; /* when those who stay are killed; 0: not  */
};

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- Output ------------------------------------------------------------------------ */

static void output_line(const struct job *job, int rank, const struct output *output,
                        const char *line, size_t bytes)
{
    if (!job->is_plain)
        fprintf(output->to, "[%d] ", rank);
    fwrite(line, 1, bytes, output->to);
    if (bytes == 0 || line[bytes - 1] != '\n')
        fputc('\n', output->to);
}

/* Prints the whole lines that have come; all of it at the end or when there is no room. */
static void output_flush(const struct job *job, int rank, struct output *output, bool is_all)
{
    char *at = output->line, *end = at + output->used, *newline;

    while (at < end && (newline = memchr(at, '\n', (size_t)(end - at)))) {
        output_line(job, rank, output, at, (size_t)(newline + 1 - at));
        at = newline + 1;
    }
    if (at < end && (is_all || end - at == LINE_MAX_BYTES)) {
        output_line(job, rank, output, at, (size_t)(end - at));
        at = end;
    }
    output->used = (size_t)(end - at);
    memmove(output->line, at, output->used);
    fflush(output->to);
}

static void output_read(const struct job *job, int rank, struct output *output)
{
    ssize_t got = read(output->fd, output->line + output->used, LINE_MAX_BYTES - output->used);

    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (got > 0)
        output->used += (size_t)got;
    output_flush(job, rank, output, got <= 0);
    if (got <= 0) {
        close(output->fd);
        output->fd = -1;
    }
}

/* ---- Starting ---------------------------------------------------------------------- */

static void set_number(const char *name, long number)
{
    char text[24];

    snprintf(text, sizeof text, "%ld", number);
    setenv(name, text, 1);
}

/* In the child: becomes the program. Only returns by leaving. */
static void run_become(const struct job *job, int rank, pid_t parent, const int pipes[2])
{
    sigset_t none;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    if (job->is_bound) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET((size_t)(rank % sysconf(_SC_NPROCESSORS_ONLN)), &set);
        sched_setaffinity(0, sizeof set, &set);
    }
    set_number("ACRE_RANK", rank);
    set_number("RANK", rank);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dup2(pipes[0], STDOUT_FILENO);
    dup2(pipes[1], STDERR_FILENO);
    execvp(job->command[0], job->command);
    fprintf(stderr, "acre run: %s: %s\n", job->command[0], strerror(errno));
    _exit(127);
}

static bool run_start(struct job *job, int rank)
{
    struct process *process = &job->processes[rank];
    int out[2], err[2];
    pid_t parent = getpid();

    if (pipe(out) != 0 || pipe(err) != 0)
        return false;
    fflush(NULL);
    process->pid = fork();
    if (process->pid == 0) {
        int writers[2] = {out[1], err[1]};
        close(out[0]);
        close(err[0]);
        for (int i = 0; i < rank; i++)
            for (int k = 0; k < 2; k++)
                close(job->processes[i].outputs[k].fd);
        run_become(job, rank, parent, writers);
    }
    if (process->pid > 0)
        setpgid(process->pid, process->pid); /* whoever of the two comes first */
    close(out[1]);
    close(err[1]);
    process->outputs[0] = (struct output){out[0], stdout, malloc(LINE_MAX_BYTES), 0};
    process->outputs[1] = (struct output){err[0], stderr, malloc(LINE_MAX_BYTES), 0};
    if (process->pid < 0) {
        process->pid = 0;
        return false;
    }
    job->running++;
    return process->outputs[0].line && process->outputs[1].line;
}

/* ---- Ending ------------------------------------------------------------------------- */

static void tell_all(const struct job *job, int number)
{
    for (int i = 0; i < job->count; i++)
        if (job->processes[i].pid > 0)
            kill(-job->processes[i].pid, number);
}

static void stop_all(struct job *job)
{
    if (job->kill_at_ms == 0) {
        tell_all(job, SIGTERM);
        job->kill_at_ms = now_ms() + PATIENCE_MS;
    }
}

static void run_reap(struct job *job)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (int i = 0; i < job->count; i++) {
            if (job->processes[i].pid != pid)
                continue;
            job->processes[i].pid = 0;
            job->running--;
            if (status != 0 && job->failed_rank < 0 && job->kill_at_ms == 0) {
                job->failed_rank = i;
                job->failed_status = status;
                stop_all(job);
            }
        }
}

static void take_signal(struct job *job, int fd)
{
    struct signalfd_siginfo info;

    if (read(fd, &info, sizeof info) != sizeof info || info.ssi_signo == SIGCHLD)
        return;
    tell_all(job, (int)info.ssi_signo);
    if (job->signal_got == 0)
        job->signal_got = (int)info.ssi_signo;
    if (job->kill_at_ms == 0)
        job->kill_at_ms = now_ms() + PATIENCE_MS;
}

/* ---- The loop -------------------------------------------------------------------------- */

static int fill_polls(const struct job *job, int signals, struct pollfd *polls)
{
    int count = 0;

    polls[count++] = (struct pollfd){signals, POLLIN, 0};
    for (int i = 0; i < job->count; i++)
        for (int k = 0; k < 2; k++)
            if (job->processes[i].outputs[k].fd >= 0)
                polls[count++] = (struct pollfd){job->processes[i].outputs[k].fd, POLLIN, 0};
    return count;
}

static void read_outputs(const struct job *job, const struct pollfd *polls, int count)
{
    int at = 1;

    for (int i = 0; i < job->count; i++)
        for (int k = 0; k < 2 && at < count; k++)
            if (job->processes[i].outputs[k].fd == polls[at].fd && polls[at++].revents != 0)
                output_read(job, i, &job->processes[i].outputs[k]);
}

static void run_watch(struct job *job, int signals)
{
    struct pollfd *polls = calloc((size_t)job->count * 2 + 1, sizeof *polls);

    while (polls) {
        int count = fill_polls(job, signals, polls);
        if (count == 1 && job->running == 0)
            break;
        /* A grandchild may keep an output open after all ranks have ended. */
        int ready = poll(polls, (nfds_t)count, job->running == 0 ? 200 : 1000);
        if (ready == 0 && job->running == 0)
            break;
        if (ready > 0 && polls[0].revents)
            take_signal(job, signals);
        read_outputs(job, polls, count);
        run_reap(job);
        if (job->kill_at_ms && now_ms() >= job->kill_at_ms)
            tell_all(job, SIGKILL);
    }
    free(polls);
}

static int run_report(const struct job *job)
{
    int status = job->failed_status;

    if (job->signal_got) {
        fprintf(stderr, "acre run: stopped by signal %d (%s)\n", job->signal_got,
                strsignal(job->signal_got));
        return CLI_NO;
    }
    if (job->failed_rank < 0)
        return CLI_DONE;
    if (WIFSIGNALED(status))
        fprintf(stderr, "acre run: rank %d was killed by signal %d (%s)", job->failed_rank,
                WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        fprintf(stderr, "acre run: rank %d ended with status %d", job->failed_rank,
                WEXITSTATUS(status));
    fputs(job->count > 1 ? "; the others were stopped\n" : "\n", stderr);
    return CLI_NO;
}

/* ---- The store ------------------------------------------------------------------------------ */

/* Serves a store with a fresh secret and tells the ranks where. */
static bool run_serve(acre_store_server **out)
{
    uint8_t bytes[16];
    char secret[33], address[48];

    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(secret + 2 * i, 3, "%02x", bytes[i]);
    if (acre_store_server_create(NULL, 0, secret, out) != ACRE_OK) {
        fprintf(stderr, "acre run: %s\n", acre_last_error());
        return false;
    }
    snprintf(address, sizeof address, "tcp:127.0.0.1:%u", acre_store_server_port(*out));
    setenv("ACRE_STORE", address, 1);
    setenv("ACRE_STORE_SECRET", secret, 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    set_number("MASTER_PORT", acre_store_server_port(*out));
    return true;
}

static int run_run(struct job *job, const char *store)
{
    acre_store_server *server = NULL;
    sigset_t set;

    sigemptyset(&set);
    for (const int *it = (const int[]){SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, 0}; *it;
         it++)
        sigaddset(&set, *it);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int signals = signalfd(-1, &set, SFD_CLOEXEC);
    job->processes = calloc((size_t)job->count, sizeof *job->processes);
    if (signals < 0 || !job->processes) {
        perror("acre run");
        return CLI_BAD;
    }
    set_number("ACRE_WORLD_SIZE", job->count);
    set_number("WORLD_SIZE", job->count);
    if (store)
        setenv("ACRE_STORE", store, 1);
    else if (!run_serve(&server))
        return CLI_BAD;
    int started = 0;
    while (started < job->count && run_start(job, started))
        started++;
    if (started < job->count) {
        fprintf(stderr, "acre run: rank %d: %s\n", started, strerror(errno));
        job->count = started;
        stop_all(job);
    }
    run_watch(job, signals);
    acre_store_server_destroy(server);
    for (int i = 0; i < job->count; i++)
        for (int k = 0; k < 2; k++)
            free(job->processes[i].outputs[k].line);
    free(job->processes);
    close(signals);
    return started == 0 ? CLI_BAD : run_report(job);
}

static void run_help(void)
{
    fputs("usage: acre run -n N [OPTION...] -- PROGRAM [ARGUMENT...]\n\n"
          "Starts a program N times, as ranks that find each other through a store, and shows\n"
          "what they print with the rank before each line. When one fails the others are\n"
          "stopped, and the first to fail is named.\n\n"
          "  -n N           number of ranks, 1 to 1024\n"
          "  --store STORE  file:PATH or tcp:HOST:PORT instead of one served here\n"
          "  --bind         each rank on one processor, in turn\n"
          "  --plain        no rank before the lines\n\n"
          "The ranks get ACRE_RANK, ACRE_WORLD_SIZE, ACRE_STORE and ACRE_STORE_SECRET, and RANK,\n"
          "WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Exit status: 0 all ranks ended with 0, 1 one\n"
          "did not, 2 bad use.\n\n"
          "Example: three greetings\n"
          "  acre run -n 3 -- sh -c 'echo rank $ACRE_RANK of $ACRE_WORLD_SIZE'\n",
          stdout);
}

int cmd_run(int argc, char **argv)
{
    struct options options = {argc, argv, "run", 0, false, false};
    struct job job = {.failed_rank = -1};
    const char *store = NULL, *program;
    uint64_t count = 0;

    while (!job.command && options_next(&options)) {
        if (options_is(&options, "--help") || options_is(&options, "-h")) {
            run_help();
            return CLI_DONE;
        }
        if (options_is(&options, "--plain"))
            job.is_plain = true;
        else if (options_is(&options, "--bind"))
            job.is_bound = true;
        else if (options_operand(&options, &program))
            job.command = argv + options.at;
        else if (!options_number(&options, "-n", 1, RANKS_MAX, &count) &&
                 !options_value(&options, "--store", &store))
            options_refuse(&options);
    }
    if (options.is_bad)
        return CLI_BAD;
    if (count == 0 || !job.command) {
        fprintf(stderr, "acre run: say how many (-n N) and what; see acre run --help\n");
        return CLI_BAD;
    }
    job.count = (int)count;
    return run_run(&job, store);
}
