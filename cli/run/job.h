/* SPDX-License-Identifier: MIT */
/* A job of acre run: the ranks, what they print, and how the job ends.
 *
 *   RUNNING ──► the first rank fails, or a signal asks: TERM to all groups ──► STOPPING
 *      │                                                                         │
 *      │ all ranks have ended                              2 s later: KILL to all groups
 *      ▼                                                                         ▼
 *   what is in the pipes is printed, for two seconds at most ──────────────────► DONE
 *
 * Each rank leads a process group. Ranks that end are not waited for until the job is done, so
 * that the number of their group cannot be given to strangers: signals also reach what an ended
 * rank left behind. What such processes do to the pipes delays the end by two seconds at most.
 */
#ifndef CLI_RUN_JOB_H
#define CLI_RUN_JOB_H

#include <acre/store.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { RUN_RANKS_MAX = 1024, RUN_LINE_BYTES = 65536 };

/* One of the two outputs of a rank. */
struct output {
    int fd;     /* -1 once it ended                        */
    int to;     /* where its lines go                      */
    char *line; /* bytes that are not a line so far        */
    size_t used;
};

struct process {
    pid_t pid;      /* 0: never started                        */
    bool has_ended;
    int status;     /* as waitpid gives it, once it has ended  */
    int64_t end_ms; /* when it ended                           */
    struct output outputs[2];
};

struct job {
    int count;
    bool is_plain; /* without ranks before lines              */
    bool is_bound; /* each rank on one processor              */
    char **command;
    struct process *processes;
    int running;
    int signals;        /* a signalfd                              */
    int lost_error;     /* errno of what could not be printed, or 0 */
    bool lacks_ranks;   /* some could not be started               */
    int first_rank;     /* the first that ended, or -1             */
    int failed_rank;    /* the first that failed, or -1            */
    int signal_got;     /* one that ends this command, or 0        */
    int64_t kill_at_ms; /* when those who stay are killed; 0: not  */
    acre_store *store;  /* the one served here, or NULL            */
    int64_t late_ms;    /* after which those who are late are told */
    int64_t look_at_ms; /* when to look for them again             */
    char told[512];     /* what was said about them last           */
    char seen[512];     /* what was found and not said so far      */
    int64_t seen_ms;    /* since when                              */
    bool has_told_first;
};

int64_t job_now_ms(void);
/* Sends a signal to the process group of every rank, ended or not, and to ranks that left it. */
void job_tell_all(const struct job *job, int number);
/* Asks all ranks to end; those who stay are killed later. */
void job_stop(struct job *job);
/* Takes one signal that this command got. */
void job_take_signal(struct job *job);
/* Notes which ranks have ended. */
void job_look(struct job *job);
/* Collects the ranks, after the last signal to their groups. */
void job_reap(struct job *job);

/* output.c: reads what has come, prints whole lines. */
bool output_open(struct output *output, int fd, int to);
void output_read(struct job *job, int rank, struct output *output);
/* Prints what is there without waiting, then closes. */
void output_close(struct job *job, int rank, struct output *output);
/* Prints a line of this command's own on standard error, as bounded as what ranks print. */
void output_say(struct job *job, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* straggler.c: tells on standard error who is missing, once the time for it has come. */
void straggler_look(struct job *job);

#endif
