/* SPDX-License-Identifier: MIT */
/* Joining a group; see link.h. */
#include "symm/link/link.h"

#include "base/heap.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "symm/link/channel.h"
#include "symm/deadline.h"
#include "symm/far/far.h"
#include "symm/link/member.h"
#include "symm/link/record.h"
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

#define SLICE_MS 100  /* between looks at who has died              */
#define HELLO_MS 2000 /* that a connection has to say who it is     */
#define STALE_MS 400  /* a dead process's line may still be replaced */

/* One join under way. */
struct joining {
    acre_store *store;
    const char *group;
    struct member self;
    struct link *link;
    int listener;
    int64_t deadline;
};

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

static int process_open(pid_t pid)
{
    return (int)syscall(SYS_pidfd_open, pid, 0);
}

static bool process_is_gone(pid_t pid)
{
    int fd = process_open(pid);
    struct pollfd poll_fd = {fd, POLLIN, 0};

    if (fd < 0)
        return errno == ESRCH || (errno == ENOSYS && kill(pid, 0) != 0 && errno == ESRCH);
    bool is_gone = poll(&poll_fd, 1, 0) > 0;
    close(fd);
    return is_gone;
}

bool link_is_dead(const struct link *link, int rank)
{
    const struct peer *peer = &link->peers[rank];
    struct pollfd poll_fd = {peer->pidfd, POLLIN, 0};

    if (peer->is_far)
        return far_is_dead(peer->wire_rank);
    if (peer->pidfd >= 0)
        return poll(&poll_fd, 1, 0) > 0;
    return peer->fd >= 0 && peer->pid != getpid() && kill(peer->pid, 0) != 0 && errno == ESRCH;
}

static int link_dead(const struct link *link)
{
    for (int i = 0; i < link->count; i++)
        if (link_is_dead(link, i))
            return i;
    return -1;
}

static acre_status fail_dead(const struct joining *join, int rank, pid_t pid)
{
    return status_fail(ACRE_ERR_PEER, "rendezvous of group \"%s\": rank %d (process %d) is gone",
                       join->group, rank, (int)pid);
}

/* ---- Lines in the store ----------------------------------------------------------- */

/* All ranks that neither joined nor wrote a line. */
static acre_status fail_missing(const struct joining *join, int from)
{
    bool *is_missing = heap_array((size_t)join->self.count, sizeof *is_missing);
    char list[256], key[MEMBER_KEY];
    const char *keys = key;

    if (!is_missing)
        return ACRE_ERR_HOST_MEMORY;
    for (int i = 0; i < join->self.count; i++) {
        bool is_there = true;
        member_key(join->group, i, key, sizeof key);
        if (i != join->self.rank && join->link->peers[i].fd < 0 &&
            (acre_store_check(join->store, &keys, 1, &is_there) != ACRE_OK || !is_there))
            is_missing[i] = true;
    }
    is_missing[from] = true;
    ranks_text(list, sizeof list, is_missing, join->self.count);
    heap_free(is_missing);
    return status_fail(ACRE_ERR_TIMEOUT,
                       "rendezvous of group \"%s\": %s did not come before the "
                       "deadline",
                       join->group, list);
}

static acre_status check_alive(const struct joining *join)
{
    int dead = link_dead(join->link);

    return dead < 0 ? ACRE_OK : fail_dead(join, dead, join->link->peers[dead].pid);
}

/* Waits for the line of a rank. */
static acre_status line_read(struct joining *join, int rank, struct member *out)
{
    char key[MEMBER_KEY];
    acre_blob blob;
    acre_status status;

    member_key(join->group, rank, key, sizeof key);
    for (;;) {
        int64_t slice = deadline_sooner(join->deadline, deadline_in_ms(SLICE_MS));
        status = store_get_until(join->store, key, slice, &blob);
        if (status != ACRE_ERR_TIMEOUT)
            break;
        status = check_alive(join);
        if (status != ACRE_OK)
            return status;
        if (deadline_left_ns(join->deadline) == 0)
            return fail_missing(join, rank);
    }
    if (status != ACRE_OK)
        return status;
    status = member_parse(&blob, rank, out);
    acre_blob_free(&blob);
    return status == ACRE_OK ? member_check(join->group, &join->self, out) : status;
}

/* The line of a rank, if it is there and in order. */
static bool line_peek(struct joining *join, int rank, struct member *out)
{
    char key[MEMBER_KEY];
    const char *keys = key;
    acre_blob blob;
    bool is_there = false;

    member_key(join->group, rank, key, sizeof key);
    if (acre_store_check(join->store, &keys, 1, &is_there) != ACRE_OK || !is_there ||
        store_get_until(join->store, key, deadline_in_ms(SLICE_MS), &blob) != ACRE_OK)
        return false;
    acre_status status = member_parse(&blob, rank, out);
    acre_blob_free(&blob);
    return status == ACRE_OK;
}

/* ---- Greetings -------------------------------------------------------------------- */

static acre_status hello_send(const struct joining *join, int fd, uint64_t token)
{
    struct record record = {
        .type = RECORD_HELLO, .rank = (uint32_t)join->self.rank, .token = token};
    uint8_t bytes[RECORD_BYTES];

    record_encode(&record, bytes);
    return channel_send(fd, bytes, sizeof bytes, NULL, 0, join->deadline);
}

/* Waits a little for a greeting that carries this rank's token. */
static acre_status hello_take(const struct joining *join, int fd, int64_t deadline, int *out)
{
    struct pollfd poll_fd = {fd, POLLIN, 0};
    struct record record;
    uint8_t bytes[RECORD_BYTES];
    int fds[CHANNEL_FDS];
    acre_status status;

    deadline = deadline_sooner(deadline, join->deadline);
    while ((status = channel_take(fd, bytes, sizeof bytes, fds)) == ACRE_ERR_NOT_READY) {
        if (deadline_left_ns(deadline) == 0)
            return status_fail(ACRE_ERR_TIMEOUT, "rendezvous: a connection stays silent");
        poll(&poll_fd, 1, deadline_poll_ms(deadline));
    }
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
        return fail_dead(join, member->rank, member->pid);
    }
    *peer = (struct peer){.fd = fd, .pidfd = pidfd, .pid = member->pid, .host = peer->host};
    join->link->token += member->token;
    return ACRE_OK;
}

/* One attempt at a rank below. */
static acre_status connect_once(struct joining *join, const struct member *member)
{
    int fd, rank = -1;
    acre_status status = channel_connect(member->name, member->pid, member->uid, &fd);

    if (status != ACRE_OK)
        return status;
    status = hello_send(join, fd, member->token);
    if (status == ACRE_OK)
        status = hello_take(join, fd, join->deadline, &rank);
    if (status == ACRE_OK && rank != member->rank)
        status = status_fail(ACRE_ERR_REJECTED, "rendezvous: rank %d says it is rank %d",
                             member->rank, rank);
    if (status == ACRE_OK)
        status = peer_accept(join, member, fd);
    if (status != ACRE_OK)
        close(fd);
    return status;
}

/* Tries until it works: the line may be an old one that is about to be replaced. */
static acre_status connect_to(struct joining *join, int rank)
{
    int64_t dead_since = 0;

    for (;;) {
        struct member member;
        acre_status status = line_read(join, rank, &member);
        if (status == ACRE_OK)
            status = connect_once(join, &member);
        if (status != ACRE_ERR_PEER)
            return status;
        status = check_alive(join);
        if (status != ACRE_OK)
            return status;
        if (!process_is_gone(member.pid))
            dead_since = 0;
        else if (dead_since == 0)
            dead_since = clock_ns();
        if (deadline_left_ns(join->deadline) == 0 ||
            (dead_since && clock_ns() - dead_since > STALE_MS * NS_PER_MS))
            return fail_dead(join, rank, member.pid);
        nanosleep(&(struct timespec){0, 2 * NS_PER_MS}, NULL);
    }
}

/* ---- Being connected to ----------------------------------------------------------- */

/* Greets one connection; a wrong one is hung up and only logged. */
static void accept_one(struct joining *join, int fd, pid_t pid)
{
    struct member member = {0};
    int rank = -1;
    acre_status status = hello_take(join, fd, deadline_in_ms(HELLO_MS), &rank);

    if (status == ACRE_OK && (rank <= join->self.rank || join->link->peers[rank].fd >= 0))
        status = status_fail(ACRE_ERR_REJECTED, "rendezvous: rank %d comes twice", rank);
    if (status == ACRE_OK)
        status = line_read(join, rank, &member);
    if (status == ACRE_OK && member.pid != pid)
        status = status_fail(ACRE_ERR_REJECTED,
                             "rendezvous: process %d comes as rank %d instead "
                             "of process %d",
                             (int)pid, rank, (int)member.pid);
    if (status == ACRE_OK)
        status = hello_send(join, fd, member.token);
    if (status == ACRE_OK)
        status = peer_accept(join, &member, fd);
    if (status != ACRE_OK)
        close(fd);
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
            !line_peek(join, i, &member))
            continue;
        acre_status status = member_check(join->group, &join->self, &member);
        if (status != ACRE_OK)
            return status;
        is_gone = process_is_gone(member.pid);
    }
    if (!is_gone)
        *dead_since = 0;
    else if (*dead_since == 0)
        *dead_since = clock_ns();
    else if (clock_ns() - *dead_since > STALE_MS * NS_PER_MS)
        return fail_dead(join, member.rank, member.pid);
    return ACRE_OK;
}

static acre_status accept_all(struct joining *join)
{
    struct pollfd poll_fd = {join->listener, POLLIN, 0};
    int64_t dead_since = 0;
    int missing;

    while ((missing = first_missing(join)) >= 0) {
        int fd;
        pid_t pid;
        acre_status status = channel_accept(join->listener, &fd, &pid);
        if (status == ACRE_OK) {
            accept_one(join, fd, pid);
            continue;
        }
        if (status == ACRE_ERR_REJECTED)
            continue;
        if (status != ACRE_ERR_NOT_READY)
            return status;
        if (poll(&poll_fd, 1, SLICE_MS) > 0)
            continue;
        status = check_alive(join);
        if (status == ACRE_OK)
            status = check_lines(join, &dead_since);
        if (status != ACRE_OK)
            return status;
        if (deadline_left_ns(join->deadline) == 0)
            return fail_missing(join, missing);
    }
    return ACRE_OK;
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
            status = line_read(join, i, &members[i]);
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
    return acre_store_set(join->store, key, &greeting, sizeof greeting);
}

/* Waits a little for the greeting of a rank. ACRE_ERR_NOT_READY: none yet. */
static acre_status greeting_take(struct joining *join, int rank, struct greeting *out)
{
    char key[MEMBER_KEY];
    acre_blob blob;

    greeting_key(join, rank, join->self.rank, join->self.token, key);
    acre_status status = store_get_until(
        join->store, key, deadline_sooner(join->deadline, deadline_in_ms(SLICE_MS)), &blob);
    if (status != ACRE_OK)
        return status == ACRE_ERR_TIMEOUT ? ACRE_ERR_NOT_READY : status;
    if (blob.bytes == sizeof *out)
        memcpy(out, blob.data, sizeof *out);
    else
        status =
            status_fail(ACRE_ERR_FORMAT, "rendezvous: the greeting of rank %d is damaged", rank);
    acre_blob_free(&blob);
    return status == ACRE_OK ? acre_store_delete(join->store, key, NULL) : status;
}

/* Exchanges greetings with a far rank. Its line may be of a process before, which never
 * answers, and be replaced meanwhile; whoever greets has read this rank's own line. */
static acre_status far_greet(struct joining *join, int rank)
{
    struct greeting greeting = {0};
    struct member member = {0};
    acre_status status = line_read(join, rank, &member);
    uint64_t told = 0;

    while (status == ACRE_OK) {
        if (told != member.token)
            status = greeting_write(join, rank, told = member.token);
        if (status == ACRE_OK)
            status = greeting_take(join, rank, &greeting);
        if (status != ACRE_ERR_NOT_READY)
            break;
        if (deadline_left_ns(join->deadline) == 0)
            return fail_missing(join, rank);
        status = ACRE_OK;
        line_peek(join, rank, &member);
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
        if (link->peers[i].fd >= 0)
            close(link->peers[i].fd);
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
    return channel_listen(self->name, &join->listener);
}

static acre_status join_all(struct joining *join)
{
    acre_status status = far_find(join);

    for (int i = 0; i < join->self.rank && status == ACRE_OK; i++)
        if (!join->link->peers[i].is_far)
            status = connect_to(join, i);
    if (status == ACRE_OK)
        status = accept_all(join);
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
    status = self_describe(&join, rank, count);
    if (status == ACRE_OK)
        status = member_write(join.store, name, &join.self);
    if (status == ACRE_OK) {
        status = join_all(&join);
        if (status != ACRE_ERR_UNSUPPORTED) /* the others are to find out as well */
            member_remove(join.store, name, rank);
    }
    if (join.listener >= 0)
        close(join.listener);
    if (status != ACRE_OK)
        link_destroy(join.link);
    else
        *out = join.link;
    return status;
}
