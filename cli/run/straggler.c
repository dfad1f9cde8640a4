/* SPDX-License-Identifier: MIT */
/* Reports which ranks are late; see job.h. Ranks that wait for each other have a line each in
 * the store under acre/join/GROUP/RANK until all have come. When lines stay for long, the ranks
 * without one are those that the others wait for. */
#include "cli/run/job.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define JOIN_PREFIX "acre/join/"

/* The ranks of the group that was listed first. */
struct waiting {
    char group[256];
    bool has_come[RUN_RANKS_MAX];
    int come;
};

static void waiting_add(void *arg, const char *key)
{
    struct waiting *waiting = arg;
    const char *slash = strrchr(key, '/');

    if (strncmp(key, JOIN_PREFIX, sizeof JOIN_PREFIX - 1) != 0 || !slash)
        return;
    const char *group = key + sizeof JOIN_PREFIX - 1;
    size_t length = slash > group ? (size_t)(slash - group) : 0;
    long rank = strtol(slash + 1, NULL, 10);
    if (length == 0 || length >= sizeof waiting->group || rank < 0 || rank >= RUN_RANKS_MAX)
        return;
    if (!*waiting->group)
        memcpy(waiting->group, group, length);
    if (strlen(waiting->group) == length && memcmp(waiting->group, group, length) == 0 &&
        !waiting->has_come[rank]) {
        waiting->has_come[rank] = true;
        waiting->come++;
    }
}

static void rank_say(const struct job *job, int rank, char *out, size_t bytes)
{
    const struct process *process = &job->processes[rank];

    if (!process->has_ended)
        snprintf(out, bytes, "rank %d (process %d)", rank, (int)process->pid);
    else if (WIFSIGNALED(process->status))
        snprintf(out, bytes, "rank %d (killed by signal %d)", rank, WTERMSIG(process->status));
    else
        snprintf(out, bytes, "rank %d (ended with status %d)", rank, WEXITSTATUS(process->status));
}

/* A sentence about the ranks that the others wait for; "" when nobody waits. */
static void missing_say(const struct job *job, char *out, size_t bytes)
{
    struct waiting waiting = {.come = 0};
    size_t used;

    *out = 0;
    if (acre_store_list(job->store, waiting_add, &waiting) != ACRE_OK || waiting.come == 0 ||
        waiting.come >= job->count)
        return;
    for (char *at = waiting.group; *at; at++)
        if ((unsigned char)*at < ' ' || (unsigned char)*at > '~')
            *at = '?';
    used = (size_t)snprintf(out, bytes, "%d of %d ranks wait in group \"%.64s\" for", waiting.come,
                            job->count, waiting.group);
    for (int i = 0, told = 0; i < job->count && used < bytes; i++)
        if (!waiting.has_come[i] && told < 8) {
            char text[64];
            rank_say(job, i, text, sizeof text);
            used += (size_t)snprintf(out + used, bytes - used, "%s %s", told++ ? "," : "", text);
        }
}

/* Tells once which rank ended first when others still run long after it. */
static void first_say(struct job *job)
{
    const struct process *first;
    char list[256] = "";
    size_t used = 0;

    if (job->has_told_first || job->first_rank < 0 || job->running == 0 || job->kill_at_ms)
        return;
    first = &job->processes[job->first_rank];
    if (job_now_ms() - first->end_ms < job->late_ms)
        return;
    for (int i = 0, told = 0; i < job->count && used < sizeof list - 16; i++)
        if (!job->processes[i].has_ended && told < 16)
            used +=
                (size_t)snprintf(list + used, sizeof list - used, "%s %d", told++ ? "," : "", i);
    output_say(job, "rank %d ended first, with status %d; still running:%s", job->first_rank,
               WEXITSTATUS(first->status), list);
    job->has_told_first = true;
}

void straggler_look(struct job *job)
{
    int64_t now = job_now_ms();
    char text[sizeof job->seen];

    if (now < job->look_at_ms || job->late_ms == 0)
        return;
    job->look_at_ms = now + (job->late_ms > 4000 ? 1000 : job->late_ms / 4 + 1);
    first_say(job);
    if (!job->store || job->kill_at_ms)
        return;
    missing_say(job, text, sizeof text);
    if (strcmp(text, job->seen) != 0) {
        snprintf(job->seen, sizeof job->seen, "%s", text);
        job->seen_ms = now;
    }
    if (*text && now - job->seen_ms >= job->late_ms && strcmp(text, job->told) != 0) {
        output_say(job, "%s", text);
        snprintf(job->told, sizeof job->told, "%s", text);
    }
}
