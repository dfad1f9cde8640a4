/* SPDX-License-Identifier: MIT */
/* How the ranks of a group connect; see meet.h. Each connects to those below it and waits for
 * those above. Whoever else connects costs a bounded piece of work a turn, and every turn looks
 * at the deadline, so that a flood of strangers delays nobody past it. */
#include "symm/link/meet.h"

#include "base/process/fork_fd.h"
#include "base/status.h"
#include "symm/link/channel.h"
#include "symm/link/record.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define HELLO_MS    2000 /* that a connection has to say who it is      */
#define STALE_MS    400  /* a dead process's line may still be replaced */
#define CALLERS_MAX 64   /* connections that have not said who they are */

/* ---- Greetings -------------------------------------------------------------------- */

static acre_status hello_send(const struct joining *join, int fd, uint64_t token)
{
    struct record record = {
        .type = RECORD_HELLO, .rank = (uint32_t)join->self.rank, .token = token};
    uint8_t bytes[RECORD_BYTES];

    record_encode(&record, bytes);
    return channel_send(fd, bytes, sizeof bytes, NULL, 0, join->deadline);
}

/* Takes a greeting that carries this rank's token, if it is there: ACRE_ERR_NOT_READY without a
 * recorded failure otherwise. */
static acre_status hello_take(const struct joining *join, int fd, int *out)
{
    struct record record;
    uint8_t bytes[RECORD_BYTES];
    int fds[CHANNEL_FDS];
    acre_status status = channel_take(fd, bytes, sizeof bytes, fds);

    if (status != ACRE_OK)
        return status;
    for (int i = 0; i < CHANNEL_FDS; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    status = record_decode(bytes, sizeof bytes, &record);
    if (status == ACRE_OK && (record.type != RECORD_HELLO || record.token != join->self.token ||
                              record.rank >= (uint32_t)join->self.count))
        status = status_fail(ACRE_ERR_REJECTED, "rendezvous: a greeting is forged");
    if (status == ACRE_OK)
        *out = (int)record.rank;
    return status;
}

static acre_status fail_silent(struct joining *join, const struct member *member)
{
    acre_status status =
        status_fail(ACRE_ERR_TIMEOUT,
                    "rendezvous of group \"%s\": rank %d (process %d) is there but did not "
                    "answer before the deadline; it is stopped, or busy with something else",
                    join->group, member->rank, (int)member->pid);

    return join_add_stopped(join, status);
}

/* Waits for the answer of a rank below, until the deadline; looks meanwhile who has died. A
 * child that a rank forked may hold the socket of one that is gone, and never answers. */
static acre_status hello_await(struct joining *join, int fd, const struct member *member)
{
    struct pollfd poll_fd = {fd, POLLIN, 0};
    int rank = -1;
    acre_status status;

    while ((status = hello_take(join, fd, &rank)) == ACRE_ERR_NOT_READY) {
        int64_t slice = deadline_sooner(join->deadline, deadline_in_ms(JOIN_SLICE_MS));
        if (deadline_left_ns(join->deadline) == 0)
            return fail_silent(join, member);
        if (poll(&poll_fd, 1, deadline_poll_ms(slice)) > 0)
            continue;
        status = join_check_alive(join);
        if (status == ACRE_OK && process_is_gone(member->pid))
            status = join_fail_dead(join, member->rank, member->pid);
        if (status != ACRE_OK)
            return status;
    }
    if (status == ACRE_OK && rank != member->rank)
        status = status_fail(ACRE_ERR_REJECTED, "rendezvous: rank %d says it is rank %d",
                             member->rank, rank);
    return status;
}

/* In a child of fork it is closed. Were there no place to note that, the others would hear that
 * this rank has left when the child ends, or at their deadlines. */
static void connection_note(int fd)
{
    struct status_saved saved;

    status_save(&saved);
    fork_fd_note(fd);
    status_restore(&saved);
}

/* Takes a greeted connection over. The process lived after its pidfd was made, since it
 * has not hung up; so the pidfd is its own. */
static acre_status peer_accept(struct joining *join, const struct member *member, int fd)
{
    struct peer *peer = &join->link->peers[member->rank];
    struct pollfd poll_fd = {fd, POLLRDHUP, 0};
    int pidfd = member->pid == getpid() ? -1 : process_open(member->pid);

    if (poll(&poll_fd, 1, 0) > 0 || (pidfd < 0 && errno == ESRCH && member->pid != getpid())) {
        if (pidfd >= 0)
            close(pidfd);
        return join_fail_dead(join, member->rank, member->pid);
    }
    connection_note(fd);
    *peer = (struct peer){.fd = fd, .pidfd = pidfd, .pid = member->pid, .host = peer->host};
    join->link->token += member->token;
    return ACRE_OK;
}

/* One attempt at a rank below. ACRE_ERR_PEER: it may be worth another. */
static acre_status connect_once(struct joining *join, const struct member *member)
{
    int fd;
    acre_status status = channel_connect(member->name, member->pid, member->uid, &fd);

    if (status != ACRE_OK)
        return status;
    status = hello_send(join, fd, member->token);
    if (status == ACRE_ERR_TIMEOUT)
        status = fail_silent(join, member);
    if (status == ACRE_OK)
        status = hello_await(join, fd, member);
    if (status == ACRE_OK)
        status = peer_accept(join, member, fd);
    if (status != ACRE_OK)
        close(fd);
    return status;
}

/* Whether a line was written before this process started: by a job before, if its process is gone.
 * The rank of this job may come at any time until the deadline. */
static bool line_is_old(const struct joining *join, const struct member *member)
{
    return member->written_ns < join->born_ns && member_is_near(&join->self, member);
}

/* Tries until it works: the line may be an old one that is about to be replaced. */
acre_status join_connect_to(struct joining *join, int rank)
{
    int64_t dead_since = 0;

    for (;;) {
        struct member member;
        acre_status status = join_read_line(join, rank, &member);
        if (status == ACRE_OK)
            status = connect_once(join, &member);
        if (status != ACRE_ERR_PEER)
            return status;
        status = join_check_alive(join);
        if (status != ACRE_OK)
            return status;
        bool is_gone = process_is_gone(member.pid), is_old = is_gone && line_is_old(join, &member);
        if (is_old && deadline_left_ns(join->deadline) == 0)
            return join_fail_missing(join, rank);
        if (!is_gone || is_old)
            dead_since = 0;
        else if (dead_since == 0)
            dead_since = clock_ns();
        if (dead_since && (deadline_left_ns(join->deadline) == 0 ||
                           clock_ns() - dead_since > STALE_MS * NS_PER_MS))
            return join_fail_dead(join, rank, member.pid);
        if (deadline_left_ns(join->deadline) == 0)
            return fail_silent(join, &member);
        nanosleep(&(struct timespec){0, (is_old ? 20 : 2) * NS_PER_MS}, NULL);
    }
}

/* ---- Being connected to ----------------------------------------------------------- */

/* A connection that has not said yet who it is. */
struct caller {
    int fd;
    pid_t pid;
    int64_t until; /* when it is hung up, in ns */
};

/* Connections of processes that may be ranks. Strangers are hung up as they come, a few a turn;
 * when silent ones fill the list, the oldest makes room. */
struct callers {
    int count;
    struct caller list[CALLERS_MAX]; /* oldest first */
};

static void caller_drop(struct callers *callers, int index, bool is_open)
{
    if (is_open)
        close(callers->list[index].fd);
    callers->count--;
    memmove(&callers->list[index], &callers->list[index + 1],
            (size_t)(callers->count - index) * sizeof *callers->list);
}

/* Accepts what has come, a bounded number of connections. */
static acre_status callers_accept(struct joining *join, struct callers *callers)
{
    for (int turn = 0; turn < CALLERS_MAX; turn++) {
        int fd;
        pid_t pid;
        acre_status status = channel_accept(join->listener, &fd, &pid);
        if (status == ACRE_ERR_NOT_READY)
            return ACRE_OK;
        if (status == ACRE_ERR_REJECTED)
            continue;
        if (status != ACRE_OK)
            return status;
        if (callers->count == CALLERS_MAX)
            caller_drop(callers, 0, true);
        callers->list[callers->count++] = (struct caller){fd, pid, deadline_in_ms(HELLO_MS)};
    }
    return ACRE_OK;
}

/* Takes over the connection of a rank above that has said who it is. */
static acre_status rank_accept(struct joining *join, const struct caller *caller, int rank)
{
    struct member member = {0};
    acre_status status;

    if (rank <= join->self.rank || join->link->peers[rank].fd >= 0)
        return status_fail(ACRE_ERR_REJECTED, "rendezvous: rank %d comes twice", rank);
    status = join_read_line(join, rank, &member);
    if (status == ACRE_OK && member.pid != caller->pid)
        status = status_fail(ACRE_ERR_REJECTED,
                             "rendezvous: process %d comes as rank %d instead "
                             "of process %d",
                             (int)caller->pid, rank, (int)member.pid);
    if (status == ACRE_OK)
        status = hello_send(join, caller->fd, member.token);
    if (status == ACRE_OK)
        status = peer_accept(join, &member, caller->fd);
    return status;
}

/* Greets those who have said who they are; a wrong one is hung up and only logged. */
static void callers_greet(struct joining *join, struct callers *callers)
{
    for (int i = 0; i < callers->count;) {
        struct caller *caller = &callers->list[i];
        int rank = -1;
        acre_status status = hello_take(join, caller->fd, &rank);
        if (status == ACRE_ERR_NOT_READY && deadline_left_ns(caller->until) > 0) {
            i++;
            continue;
        }
        if (status == ACRE_OK)
            status = rank_accept(join, caller, rank);
        caller_drop(callers, i, status != ACRE_OK);
    }
}

static void callers_wait(const struct joining *join, const struct callers *callers)
{
    struct pollfd polls[CALLERS_MAX + 1];
    int64_t slice = deadline_sooner(join->deadline, deadline_in_ms(JOIN_SLICE_MS));

    polls[0] = (struct pollfd){join->listener, POLLIN, 0};
    for (int i = 0; i < callers->count; i++)
        polls[i + 1] = (struct pollfd){callers->list[i].fd, POLLIN, 0};
    poll(polls, (nfds_t)callers->count + 1, deadline_poll_ms(slice));
}

static int first_missing(const struct joining *join)
{
    for (int i = join->self.rank + 1; i < join->self.count; i++)
        if (join->link->peers[i].fd < 0 && !join->link->peers[i].is_far)
            return i;
    return -1;
}

/* A rank above that wrote its line and died before it came. */
static acre_status check_lines(struct joining *join, int64_t *dead_since)
{
    struct member member;
    bool is_gone = false;

    for (int i = join->self.rank + 1; i < join->self.count && !is_gone; i++) {
        if (join->link->peers[i].fd >= 0 || join->link->peers[i].is_far ||
            !join_peek_line(join, i, &member))
            continue;
        acre_status status = member_check(join->group, &join->self, &member);
        if (status != ACRE_OK)
            return status;
        is_gone = process_is_gone(member.pid) && !line_is_old(join, &member);
    }
    if (!is_gone)
        *dead_since = 0;
    else if (*dead_since == 0)
        *dead_since = clock_ns();
    else if (clock_ns() - *dead_since > STALE_MS * NS_PER_MS)
        return join_fail_dead(join, member.rank, member.pid);
    return ACRE_OK;
}

acre_status join_accept_all(struct joining *join)
{
    struct callers callers = {0};
    int64_t dead_since = 0, look_at = clock_ns() + JOIN_SLICE_MS * NS_PER_MS;
    acre_status status = ACRE_OK;
    int missing;

    while (status == ACRE_OK && (missing = first_missing(join)) >= 0) {
        status = callers_accept(join, &callers);
        if (status != ACRE_OK)
            break;
        callers_greet(join, &callers);
        if ((missing = first_missing(join)) < 0)
            break;
        if (clock_ns() >= look_at) {
            status = join_check_alive(join);
            if (status == ACRE_OK)
                status = check_lines(join, &dead_since);
            look_at = clock_ns() + JOIN_SLICE_MS * NS_PER_MS;
        }
        if (status == ACRE_OK && deadline_left_ns(join->deadline) == 0)
            status = join_fail_missing(join, missing);
        if (status == ACRE_OK)
            callers_wait(join, &callers);
    }
    while (callers.count > 0)
        caller_drop(&callers, callers.count - 1, true);
    return status;
}
