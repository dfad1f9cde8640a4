/* SPDX-License-Identifier: MIT */
/* acre run: starts a program several times, as ranks that find each other.
 *
 * Each rank is a process group of its own. What it prints comes out in whole lines with the
 * rank before them. The store is served here unless one is named, with a secret that only
 * the ranks know. When one rank fails the others are told to end, and after two seconds made
 * to. Signals that this command gets go to all ranks. Should it die, the ranks die with it.
 */
#include "cli/commands.h"
#include "cli/run/job.h"
#include "cli/text/options.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DRAIN_MS = 200, DRAIN_MS_MAX = 2000, LATE_SECONDS = 10, STORE_MS = 1000 };

/* ---- Starting ---------------------------------------------------------------------- */

static void set_number(const char *name, long number)
{
    char text[24];

    snprintf(text, sizeof text, "%ld", number);
    setenv(name, text, 1);
}

/* Binds a rank to one of the processors that this command may use, in turn. */
static void run_bind(int rank)
{
    cpu_set_t allowed, set;

    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    int before = rank % CPU_COUNT(&allowed);
    size_t at = 0;
    while (!CPU_ISSET(at, &allowed) || before-- > 0)
        at++;
    CPU_ZERO(&set);
    CPU_SET(at, &set);
    sched_setaffinity(0, sizeof set, &set);
}

/* In the child: becomes the program. Only returns by leaving. */
static void run_become(const struct job *job, int rank, pid_t parent, const int pipes[2])
{
    sigset_t none;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    if (job->is_bound)
        run_bind(rank);
    set_number("ACRE_RANK", rank);
    set_number("RANK", rank);
    set_number("LOCAL_RANK", rank);
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

    if (pipe2(out, O_CLOEXEC) != 0)
        return false;
    if (pipe2(err, O_CLOEXEC) != 0) {
        close(out[0]);
        close(out[1]);
        return false;
    }
    process->pid = fork();
    if (process->pid == 0)
        run_become(job, rank, parent, (int[]){out[1], err[1]});
    if (process->pid > 0)
        setpgid(process->pid, process->pid); /* whoever of the two comes first */
    close(out[1]);
    close(err[1]);
    bool is_open = output_open(&process->outputs[0], out[0], STDOUT_FILENO);
    is_open = output_open(&process->outputs[1], err[0], STDERR_FILENO) && is_open;
    if (process->pid < 0) {
        process->pid = 0;
        return false;
    }
    job->running++;
    return is_open;
}

/* ---- The loop -------------------------------------------------------------------------- */

static int fill_polls(const struct job *job, struct pollfd *polls)
{
    int count = 0;

    polls[count++] = (struct pollfd){job->signals, POLLIN, 0};
    for (int i = 0; i < job->count; i++)
        for (int k = 0; k < 2; k++)
            if (job->processes[i].outputs[k].fd >= 0)
                polls[count++] = (struct pollfd){job->processes[i].outputs[k].fd, POLLIN, 0};
    return count;
}

static bool read_outputs(struct job *job, const struct pollfd *polls, int count)
{
    bool has_read = false;
    int at = 1;

    for (int i = 0; i < job->count; i++)
        for (int k = 0; k < 2 && at < count; k++)
            if (job->processes[i].outputs[k].fd == polls[at].fd && polls[at++].revents != 0) {
                output_read(job, i, &job->processes[i].outputs[k]);
                has_read = true;
            }
    return has_read;
}

/* How long to sleep at most, so that nothing that is due is late. */
static int watch_ms(const struct job *job)
{
    int64_t left = job->kill_at_ms ? job->kill_at_ms - job_now_ms() : 1000;
    int64_t look = job->late_ms && !job->kill_at_ms ? job->look_at_ms - job_now_ms() : 1000;

    left = look < left ? look : left;
    if (job->running == 0)
        left = 20;
    return left < 1 ? 1 : left > 1000 ? 1000 : (int)left;
}

static void run_watch(struct job *job)
{
    struct pollfd *polls = calloc((size_t)job->count * 2 + 1, sizeof *polls);
    int64_t ended_ms = 0, quiet_ms = 0;

    while (polls) {
        int count = fill_polls(job, polls);
        if (count == 1 && job->running == 0)
            break;
        bool has_read = false;
        if (poll(polls, (nfds_t)count, watch_ms(job)) > 0) {
            if (polls[0].revents)
                job_take_signal(job);
            has_read = read_outputs(job, polls, count);
        }
        job_look(job);
        straggler_look(job);
        int64_t now = job_now_ms();
        if (job->kill_at_ms && now >= job->kill_at_ms)
            job_tell_all(job, SIGKILL);
        /* Processes that ranks left behind may hold the pipes, and even write for ever. */
        ended_ms = job->running > 0 ? 0 : ended_ms ? ended_ms : now;
        quiet_ms = job->running > 0 || has_read || !quiet_ms ? now : quiet_ms;
        /* Once asked to end they have until kill_at_ms, as the ranks have. */
        bool is_over = job->kill_at_ms
                           ? now >= job->kill_at_ms
                           : now - quiet_ms >= DRAIN_MS || now - ended_ms >= DRAIN_MS_MAX;
        if (job->running == 0 && is_over)
            break;
    }
    free(polls);
    if (job->kill_at_ms) /* also what ended ranks left behind */
        job_tell_all(job, SIGKILL);
    job_reap(job);
}

static int run_report(struct job *job)
{
    const char *others = job->count > 1 ? "; the others were stopped" : "";
    int status = job->failed_rank >= 0 ? job->processes[job->failed_rank].status : 0;

    if (job->signal_got == SIGPIPE)
        return CLI_NO;
    if (job->signal_got) {
        output_say(job, "stopped by signal %d (%s)", job->signal_got, strsignal(job->signal_got));
        return CLI_NO;
    }
    if (job->failed_rank < 0) {
        if (job->lost_error)
            output_say(job, "not all that the ranks printed could be written: %s",
                       strerror(job->lost_error));
        return job->lost_error || job->lacks_ranks ? CLI_NO : CLI_DONE;
    }
    if (WIFSIGNALED(status))
        output_say(job, "rank %d was killed by signal %d (%s)%s", job->failed_rank,
                   WTERMSIG(status), strsignal(WTERMSIG(status)), others);
    else
        output_say(job, "rank %d ended with status %d%s", job->failed_rank, WEXITSTATUS(status),
                   others);
    return CLI_NO;
}

/* ---- The store ------------------------------------------------------------------------------ */

/* Serves a store with a fresh secret, connects to it and tells the ranks where. Without that
 * connection, for which there may be no descriptor, nobody is told who is late. */
static bool run_serve(struct job *job, acre_store_server **out)
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
    uint16_t port = acre_store_server_port(*out);
    if (acre_store_connect("127.0.0.1", port, secret, STORE_MS, &job->store) == ACRE_OK)
        acre_store_set_timeout(job->store, STORE_MS);
    snprintf(address, sizeof address, "tcp:127.0.0.1:%u", port);
    setenv("ACRE_STORE", address, 1);
    setenv("ACRE_STORE_SECRET", secret, 1);
    return true;
}

/* Tells the ranks a port of this machine on which one of them may listen, as PyTorch's rank 0
 * does. The descriptor that is given back holds the port: nobody else gets it by chance, and
 * who names it and allows the reuse of addresses may listen there. -1: none was to be had. */
static int run_reserve_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t bytes = sizeof address;
    int one = 1, descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (descriptor < 0)
        return -1;
    if (setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(descriptor, (struct sockaddr *)&address, sizeof address) != 0 ||
        getsockname(descriptor, (struct sockaddr *)&address, &bytes) != 0) {
        close(descriptor);
        return -1;
    }
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    set_number("MASTER_PORT", ntohs(address.sin_port));
    return descriptor;
}

static bool is_ignored(int number)
{
    struct sigaction action;

    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* Signals come through a descriptor from now on. What is ignored, as nohup and shells have it,
 * stays so, but for the ends of children: the kernel would throw away how they ended. */
static bool take_signals(struct job *job)
{
    static const int all[] = {SIGCHLD, SIGINT,  SIGTERM, SIGHUP,   SIGQUIT, SIGUSR1,
                              SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH, SIGALRM, SIGPIPE};
    sigset_t set;

    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!is_ignored(all[i]))
            sigaddset(&set, all[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    job->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return job->signals >= 0;
}

static int run_run(struct job *job, const char *store)
{
    acre_store_server *server = NULL;

    job->processes = calloc((size_t)job->count, sizeof *job->processes);
    if (!take_signals(job) || !job->processes) {
        perror("acre run");
        return CLI_BAD;
    }
    set_number("ACRE_WORLD_SIZE", job->count);
    set_number("WORLD_SIZE", job->count);
    set_number("LOCAL_WORLD_SIZE", job->count);
    if (store)
        setenv("ACRE_STORE", store, 1);
    else if (!run_serve(job, &server))
        return CLI_BAD;
    int started = 0, port = run_reserve_port();
    while (started < job->count && run_start(job, started))
        started++;
    if (started < job->count) {
        output_say(job, "rank %d: %s", started, strerror(errno));
        job->count = job->processes[started].pid > 0 ? started + 1 : started;
        job->lacks_ranks = true;
        job_stop(job);
    }
    run_watch(job);
    for (int i = 0; i < job->count; i++)
        for (int k = 0; k < 2; k++)
            output_close(job, i, &job->processes[i].outputs[k]);
    int status = started == 0 ? CLI_BAD : run_report(job);
    acre_store_destroy(job->store);
    acre_store_server_destroy(server);
    free(job->processes);
    if (port >= 0)
        close(port);
    close(job->signals);
    return status;
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
          "  --plain        no rank before the lines\n"
          "  --late SECONDS after SECONDS, report which ranks the others wait for and which one\n"
          "                 ended first; default 10, 0 for never\n\n"
          "SIGINT, SIGTERM, SIGHUP and SIGQUIT go to all ranks and end the job; what stays is\n"
          "killed after two seconds, or at once when the signal comes twice. SIGUSR1, SIGUSR2,\n"
          "SIGTSTP, SIGCONT, SIGWINCH and SIGALRM are passed on. What is ignored when it starts,\n"
          "as under nohup, stays ignored. Processes that a rank leaves behind get the signals of\n"
          "its rank, and do not keep this command from ending. The job also ends when nobody\n"
          "reads its output any more.\n\n"
          "The ranks get ACRE_RANK, ACRE_WORLD_SIZE, ACRE_STORE and ACRE_STORE_SECRET; and, as\n"
          "torchrun sets them, RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, MASTER_ADDR and\n"
          "MASTER_PORT, a port that is kept free for rank 0. Exit status: 0 all ranks ended with\n"
          "0, 1 one did not or its lines could not be written, 2 bad use.\n\n"
          "Example: three greetings\n"
          "  acre run -n 3 -- sh -c 'echo rank $ACRE_RANK of $ACRE_WORLD_SIZE'\n",
          stdout);
}

/* Whether it is file:PATH or tcp:HOST:PORT. */
static bool store_is_written_well(const char *store)
{
    const char *port = strrchr(store, ':');
    char *end = NULL;

    if (strncmp(store, "file:", 5) == 0)
        return store[5] != '\0';
    if (strncmp(store, "tcp:", 4) != 0 || port <= store + 4)
        return false;
    long number = strtol(port + 1, &end, 10);
    return port[1] && !*end && number > 0 && number < 65536;
}

int cmd_run(int argc, char **argv)
{
    struct options options = {argc, argv, "run", 0, false, false};
    struct job job = {.failed_rank = -1, .first_rank = -1};
    const char *store = NULL, *program;
    uint64_t count = 0, late = LATE_SECONDS;

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
        else if (!options_number(&options, "-n", 1, RUN_RANKS_MAX, &count) &&
                 !options_number(&options, "--late", 0, 1000000, &late) &&
                 !options_value(&options, "--store", &store))
            options_refuse(&options);
    }
    if (options.is_bad)
        return CLI_BAD;
    if (store && !store_is_written_well(store)) {
        fprintf(stderr, "acre run: --store %s: write file:PATH or tcp:HOST:PORT\n", store);
        return CLI_BAD;
    }
    if (count == 0 || !job.command) {
        fprintf(stderr, "acre run: say how many (-n N) and what; see acre run --help\n");
        return CLI_BAD;
    }
    job.count = (int)count;
    job.late_ms = (int64_t)late * 1000;
    return run_run(&job, store);
}
