/* SPDX-License-Identifier: MIT */
/* Joining a group; see link.h. */
#include "symm/link/link.h"

#include "base/heap.h"
#include "base/log.h"
#include "base/process/fork.h"
#include "base/process/fork_fd.h"
#include "base/status.h"
#include "base/text.h"
#include "symm/far/far.h"
#include "symm/link/meet.h"
#include "symm/store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOOK_MS    300 /* that naming who is missing may take at most                     */
#define LOOK_RANKS 16  /* whose lines are looked for between two looks at who has died */

void ranks_text(char *buffer, size_t bytes, const bool *is_missing, int count)
{
    struct text text;
    int found = 0;

    text_init(&text, buffer, bytes);
    for (int i = 0; i < count; i++)
        found += is_missing[i];
    text_add(&text, found == 1 ? "rank" : "ranks");
    for (int i = 0, at = 0; i < count; i++)
        if (is_missing[i])
            text_add(&text, "%s %d", at++ ? "," : "", i);
}

/* ---- Processes -------------------------------------------------------------------- */

int process_open(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

/* What the system tells of a process in /proc; state 0 when it does not. */
struct facts {
    char state;
    int threads;
    long long born; /* in ticks of the clock since the machine started */
};

static struct facts process_look(pid_t pid)
{
    struct facts facts = {0};
    char path[32], text[512];
    ssize_t bytes;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return facts;
    bytes = read(fd, text, sizeof text - 1);
    close(fd);
    text[bytes > 0 ? bytes : 0] = 0;
    const char *end = strrchr(text, ')'); /* of the name, which may hold anything */
    if (!end || sscanf(end + 1,
                       " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s "
                       "%d %*s %lld",
                       &facts.state, &facts.threads, &facts.born) != 3)
        facts = (struct facts){0};
    return facts;
}

/* For where there is no pidfd: kill() also finds what ended and nobody has waited for. A process
 * whose first thread alone has ended looks like one of those, but for its threads. */
static bool process_has_ended(pid_t pid)
{
    if (kill(pid, 0) != 0 && errno == ESRCH)
        return true;
    struct facts facts = process_look(pid);
    return (facts.state == 'Z' || facts.state == 'X') && facts.threads < 2;
}

bool process_is_gone(pid_t pid)
{
    int fd = process_open(pid);
    struct pollfd poll_fd = {fd, POLLIN, 0};

    if (fd < 0)
        return errno == ESRCH || process_has_ended(pid);
    bool is_gone = poll(&poll_fd, 1, 0) > 0;
    close(fd);
    return is_gone;
}

/* As far as the system tells. */
bool process_is_stopped(pid_t pid)
{
    char state = process_look(pid).state;

    return state == 'T' || state == 't';
}

int64_t process_born_ns(void)
{
    return (int64_t)(process_look(getpid()).born * (1000 * NS_PER_MS / sysconf(_SC_CLK_TCK)));
}

bool link_is_dead(const struct link *link, int rank)
{
    const struct peer *peer = &link->peers[rank];
    struct pollfd poll_fd = {peer->pidfd, POLLIN, 0};

    if (peer->is_far)
        return far_is_dead(peer->wire_rank);
    if (peer->pidfd >= 0)
        return poll(&poll_fd, 1, 0) > 0;
    return peer->fd >= 0 && peer->pid != getpid() && process_has_ended(peer->pid);
}

bool link_dies_within(const struct link *link, int rank, int ms)
{
    const struct peer *peer = &link->peers[rank];
    bool may_end = !peer->is_far && peer->fd >= 0 && peer->pid != getpid();
    int64_t deadline = deadline_in_ms(ms);

    while (!link_is_dead(link, rank)) {
        struct pollfd poll_fd = {peer->pidfd, POLLIN, 0};

        if (!may_end || deadline_left_ns(deadline) == 0)
            return false;
        poll(&poll_fd, 1, peer->pidfd >= 0 ? deadline_poll_ms(deadline) : 1);
    }
    return true;
}

static int link_dead(const struct link *link)
{
    for (int i = 0; i < link->count; i++)
        if (link_is_dead(link, i))
            return i;
    return -1;
}

acre_status join_fail_dead(const struct joining *join, int rank, pid_t pid)
{
    return status_fail(ACRE_ERR_PEER, "rendezvous of group \"%s\": rank %d (process %d) is gone",
                       join->group, rank, (int)pid);
}

/* ---- Lines in the store ----------------------------------------------------------- */

/* Looks for lines of the next few ranks, in turn: who once wrote a line has come, although
 * it may give up and take the line away before this rank tells who is missing. */
static void join_look(struct joining *join)
{
    int64_t limit = deadline_in_ms(JOIN_SLICE_MS);
    char key[MEMBER_KEY];

    for (int i = 0; i < LOOK_RANKS && i < join->self.count; i++) {
        int rank = join->looked++ % join->self.count;
        bool is_there = false;
        member_key(join->group, rank, key, sizeof key);
        if (!join->has_come[rank] && deadline_left_ns(limit) > 0 &&
            store_check_until(join->store, key, limit, &is_there) == ACRE_OK && is_there)
            join->has_come[rank] = true;
    }
}

/* The store itself does not answer: its own sentence, with the group before it. */
static acre_status fail_store(const struct joining *join, acre_status status)
{
    char text[512];

    snprintf(text, sizeof text, "%s", acre_last_error());
    return status_fail(status, "rendezvous of group \"%s\": %s", join->group, text);
}

/* All ranks that neither joined nor ever wrote a line; from is one of them for certain. */
acre_status join_fail_missing(struct joining *join, int from)
{
    bool *is_missing = heap_array((size_t)join->self.count, sizeof *is_missing);
    int64_t limit = deadline_in_ms(LOOK_MS);
    char list[256], key[MEMBER_KEY];

    if (!is_missing)
        return ACRE_ERR_HOST_MEMORY;
    member_key(join->group, from, key, sizeof key);
    acre_status status = store_check_until(join->store, key, limit, &(bool){false});
    if (status != ACRE_OK) {
        heap_free(is_missing);
        return fail_store(join, status);
    }
    for (int i = 0; i < join->self.count; i++) {
        bool is_there = true;
        member_key(join->group, i, key, sizeof key);
        if (i == join->self.rank || join->link->peers[i].fd >= 0 || join->has_come[i])
            continue;
        /* A store that does not answer knows nothing against a rank. */
        is_missing[i] = deadline_left_ns(limit) > 0 &&
                        store_check_until(join->store, key, limit, &is_there) == ACRE_OK &&
                        !is_there;
    }
    is_missing[from] = true;
    ranks_text(list, sizeof list, is_missing, join->self.count);
    heap_free(is_missing);
    status = status_fail(ACRE_ERR_TIMEOUT,
                         "rendezvous of group \"%s\": %s did not come before the "
                         "deadline",
                         join->group, list);
    return join_add_stopped(join, status);
}

acre_status join_add_stopped(struct joining *join, acre_status status)
{
    int64_t limit = deadline_in_ms(LOOK_MS);
    struct status_saved saved;
    struct text text;
    struct member member;

    status_save(&saved);
    text_init(&text, saved.text, sizeof saved.text);
    text_add(&text, "%s", acre_last_error());
    for (int i = 0; i < join->self.count && deadline_left_ns(limit) > 0; i++) {
        const struct peer *peer = &join->link->peers[i];
        pid_t pid = peer->fd >= 0 ? peer->pid : 0;
        if (i == join->self.rank || peer->is_far)
            continue;
        if (!pid && join_peek_line(join, i, &member) && member_is_near(&join->self, &member))
            pid = member.pid;
        if (pid && process_is_stopped(pid))
            text_add(&text, "; rank %d (process %d) is stopped", i, (int)pid);
    }
    status_restore(&saved);
    return status;
}

acre_status join_check_alive(const struct joining *join)
{
    int dead = link_dead(join->link);

    return dead < 0 ? ACRE_OK : join_fail_dead(join, dead, join->link->peers[dead].pid);
}

/* Waits for the line of a rank. */
acre_status join_read_line(struct joining *join, int rank, struct member *out)
{
    char key[MEMBER_KEY];
    acre_blob blob;
    acre_status status;

    member_key(join->group, rank, key, sizeof key);
    for (;;) {
        int64_t slice = deadline_sooner(join->deadline, deadline_in_ms(JOIN_SLICE_MS));
        status = store_get_until(join->store, key, slice, &blob);
        if (status != ACRE_ERR_TIMEOUT)
            break;
        join_look(join);
        status = join_check_alive(join);
        if (status != ACRE_OK)
            return status;
        if (deadline_left_ns(join->deadline) == 0)
            return join_fail_missing(join, rank);
    }
    if (status != ACRE_OK)
        return status;
    join->has_come[rank] = true;
    status = member_parse(&blob, rank, out);
    acre_blob_free(&blob);
    return status == ACRE_OK ? member_check(join->group, &join->self, out) : status;
}

/* The line of a rank, if it is there and in order. */
bool join_peek_line(struct joining *join, int rank, struct member *out)
{
    char key[MEMBER_KEY];
    acre_blob blob;
    bool is_there = false;
    int64_t slice = deadline_in_ms(JOIN_SLICE_MS);

    member_key(join->group, rank, key, sizeof key);
    if (store_check_until(join->store, key, slice, &is_there) != ACRE_OK || !is_there ||
        store_get_until(join->store, key, slice, &blob) != ACRE_OK)
        return false;
    join->has_come[rank] = true;
    acre_status status = member_parse(&blob, rank, out);
    acre_blob_free(&blob);
    return status == ACRE_OK;
}

/* ---- Ranks on other hosts ---------------------------------------------------------- */

/* Reads who is where, if there is a wire to other hosts. Hosts are numbered by the lowest of
 * their ranks, so that all ranks number them alike. */
static acre_status far_find(struct joining *join)
{
    struct member *members;
    acre_status status = ACRE_OK;

    if (!member_has_wire(&join->self))
        return ACRE_OK;
    members = heap_array((size_t)join->self.count, sizeof *members);
    if (!members)
        return ACRE_ERR_HOST_MEMORY;
    for (int i = 0; i < join->self.count && status == ACRE_OK; i++) {
        struct peer *peer = &join->link->peers[i];
        members[i] = join->self;
        if (i != join->self.rank)
            status = join_read_line(join, i, &members[i]);
        if (status != ACRE_OK)
            break;
        for (peer->host = 0; !member_is_near(&members[peer->host], &members[i]);)
            peer->host++;
        peer->is_far = !member_is_near(&join->self, &members[i]);
        join->link->has_far = join->link->has_far || peer->is_far;
    }
    heap_free(members);
    return status;
}

/* A key under which a rank tells another that it has read its line. */
static void greeting_key(const struct joining *join, int from, int to, uint64_t token,
                         char out[MEMBER_KEY])
{
    snprintf(out, MEMBER_KEY, "acre/greet/%s/%d/%d/%016" PRIx64, join->group, from, to, token);
}

/* What a greeting says about its sender. */
struct greeting {
    uint64_t token;
    int64_t pid, wire_rank;
};

static acre_status greeting_write(struct joining *join, int rank, uint64_t token)
{
    const struct member *self = &join->self;
    struct greeting greeting = {self->token, self->pid, self->wire_rank};
    char key[MEMBER_KEY];

    greeting_key(join, self->rank, rank, token, key);
    return store_set_until(join->store, key, &greeting, sizeof greeting, join->deadline);
}

/* Waits a little for the greeting of a rank. ACRE_ERR_NOT_READY: none yet. */
static acre_status greeting_take(struct joining *join, int rank, struct greeting *out)
{
    char key[MEMBER_KEY];
    acre_blob blob;

    greeting_key(join, rank, join->self.rank, join->self.token, key);
    acre_status status = store_get_until(
        join->store, key, deadline_sooner(join->deadline, deadline_in_ms(JOIN_SLICE_MS)), &blob);
    if (status != ACRE_OK)
        return status == ACRE_ERR_TIMEOUT ? ACRE_ERR_NOT_READY : status;
    if (blob.bytes == sizeof *out)
        memcpy(out, blob.data, sizeof *out);
    else
        status =
            status_fail(ACRE_ERR_FORMAT, "rendezvous: the greeting of rank %d is damaged", rank);
    acre_blob_free(&blob);
    return status == ACRE_OK ? store_delete_until(join->store, key, join->deadline) : status;
}

/* Exchanges greetings with a far rank. Its line may be of a process before, which never
 * answers, and be replaced meanwhile; whoever greets has read this rank's own line. */
static acre_status far_greet(struct joining *join, int rank)
{
    struct greeting greeting = {0};
    struct member member = {0};
    acre_status status = join_read_line(join, rank, &member);
    uint64_t told = 0;

    while (status == ACRE_OK) {
        if (told != member.token)
            status = greeting_write(join, rank, told = member.token);
        if (status == ACRE_OK)
            status = greeting_take(join, rank, &greeting);
        if (status != ACRE_ERR_NOT_READY)
            break;
        if (deadline_left_ns(join->deadline) == 0)
            return join_fail_missing(join, rank);
        status = ACRE_OK;
        join_peek_line(join, rank, &member);
    }
    if (status == ACRE_OK && told != greeting.token)
        status = greeting_write(join, rank, greeting.token);
    if (status != ACRE_OK)
        return status;
    join->link->peers[rank].wire_rank = (int)greeting.wire_rank;
    join->link->peers[rank].pid = (pid_t)greeting.pid;
    join->link->token += greeting.token;
    return ACRE_OK;
}

/* ---- The whole -------------------------------------------------------------------- */

static acre_status link_create(int rank, int count, struct link **out)
{
    struct link *link = heap_zalloc(sizeof *link + (size_t)count * sizeof *link->peers);

    if (!link)
        return ACRE_ERR_HOST_MEMORY;
    link->rank = rank;
    link->count = count;
    link->generation = fork_generation();
    for (int i = 0; i < count; i++)
        link->peers[i] = (struct peer){.fd = -1, .pidfd = -1};
    *out = link;
    return ACRE_OK;
}

void link_destroy(struct link *link)
{
    if (!link)
        return;
    for (int i = 0; i < link->count; i++) {
        if (link->generation == fork_generation()) /* else they are closed already */
            fork_fd_close(link->peers[i].fd);
        if (link->peers[i].pidfd >= 0)
            close(link->peers[i].pidfd);
    }
    heap_free(link);
}

static acre_status self_describe(struct joining *join, int rank, int count)
{
    struct member *self = &join->self;
    const char *wire = "";
    int wire_rank = 0;
    acre_status status = far_open(join->deadline, &wire, &wire_rank);

    if (status != ACRE_OK)
        return status;
    member_describe(rank, count, wire, wire_rank, self);
    if (getrandom(&self->token, sizeof self->token, 0) != sizeof self->token)
        return status_fail_native(ACRE_ERR_IO, errno, "rendezvous: no random bytes");
    join->link->token = self->token;
    join->born_ns = process_born_ns();
    return channel_listen(self->name, &join->listener);
}

static acre_status join_all(struct joining *join)
{
    acre_status status = far_find(join);

    for (int i = 0; i < join->self.rank && status == ACRE_OK; i++)
        if (!join->link->peers[i].is_far)
            status = join_connect_to(join, i);
    if (status == ACRE_OK)
        status = join_accept_all(join);
    for (int i = 0; i < join->self.count && status == ACRE_OK; i++)
        if (join->link->peers[i].is_far)
            status = far_greet(join, i);
    return status;
}

acre_status link_join(acre_store *store, const char *name, int rank, int count, int64_t deadline,
                      struct link **out)
{
    struct joining join = {.store = store, .group = name, .listener = -1, .deadline = deadline};
    acre_status status = link_create(rank, count, &join.link);

    if (status != ACRE_OK || count == 1) {
        if (status == ACRE_OK)
            *out = join.link;
        return status;
    }
    join.has_come = heap_array((size_t)count, sizeof *join.has_come);
    status = join.has_come ? self_describe(&join, rank, count) : ACRE_ERR_HOST_MEMORY;
    if (status == ACRE_OK)
        status = member_write(join.store, name, &join.self, deadline);
    if (status == ACRE_OK) {
        status = join_all(&join);
        if (status != ACRE_ERR_UNSUPPORTED) /* the others are to find out as well */
            member_remove(join.store, name, rank);
    }
    heap_free(join.has_come);
    if (join.listener >= 0)
        close(join.listener);
    if (status != ACRE_OK)
        link_destroy(join.link);
    else
        *out = join.link;
    return status;
}
