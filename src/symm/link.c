/* SPDX-License-Identifier: MIT */
/* Joining a group; see link.h. */
#include "symm/link.h"

#include "base/heap.h"
#include "base/log.h"
#include "base/status.h"
#include "base/text.h"
#include "symm/channel.h"
#include "symm/deadline.h"
#include "symm/record.h"
#include "symm/store.h"

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

#define SLICE_MS 100       /* between looks at who has died              */
#define HELLO_MS 2000      /* that a connection has to say who it is     */
#define STALE_MS 400       /* a dead process's line may still be replaced */

/* What the line of a rank says. */
struct member {
    int rank, count;
    pid_t pid;
    uid_t uid;
    char host[40];               /* boot id: one per running kernel      */
    uint64_t network, processes; /* namespaces                           */
    uint64_t token;
    char name[CHANNEL_NAME_BYTES];
};

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

static uint64_t namespace_of(const char *path)
{
    struct stat stat_buffer;

    return stat(path, &stat_buffer) == 0 ? (uint64_t)stat_buffer.st_ino : 0;
}

static void host_read(char out[40])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, out, 36);

    if (fd >= 0)
        close(fd);
    out[got == 36 ? 36 : 0] = 0;
    if (!*out)
        snprintf(out, 40, "unknown");
}

static void key_of(const struct joining *join, int rank, char *out, size_t bytes)
{
    snprintf(out, bytes, "acre/join/%s/%d", join->group, rank);
}

static acre_status line_write(struct joining *join)
{
    struct member *self = &join->self;
    char key[600], line[256];

    key_of(join, self->rank, key, sizeof key);
    int length = snprintf(line, sizeof line, "ACREJOIN1 %d %d %d %u %s %" PRIu64 " %" PRIu64
                          " %" PRIu64 " %s", self->rank, self->count, (int)self->pid,
                          (unsigned)self->uid, self->host, self->network, self->processes,
                          self->token, self->name);
    return acre_store_set(join->store, key, line, (size_t)length);
}

static void line_remove(struct joining *join)
{
    struct status_saved saved;
    char key[600];

    status_save(&saved);
    key_of(join, join->self.rank, key, sizeof key);
    acre_store_delete(join->store, key, NULL);
    status_restore(&saved);
}

static acre_status line_parse(const acre_blob *blob, int rank, struct member *out)
{
    int pid;
    unsigned uid;
    char rest;

    if (sscanf(blob->data, "ACREJOIN1 %d %d %d %u %39s %" SCNu64 " %" SCNu64 " %" SCNu64
               " %31s%c", &out->rank, &out->count, &pid, &uid, out->host, &out->network,
               &out->processes, &out->token, out->name, &rest) != 9 || out->rank != rank)
        return status_fail(ACRE_ERR_FORMAT, "rendezvous: what the store says about rank %d is "
                           "damaged", rank);
    out->pid = pid;
    out->uid = uid;
    return ACRE_OK;
}

/* Whether a rank can be met from here. */
static acre_status member_check(const struct joining *join, const struct member *member)
{
    const struct member *self = &join->self;

    if (member->count != self->count)
        return status_fail(ACRE_ERR_INVALID, "rendezvous of group \"%s\": rank %d has %d ranks, "
                           "rank %d has %d", join->group, self->rank, self->count, member->rank,
                           member->count);
    if (strcmp(member->host, self->host) != 0 || member->network != self->network ||
        member->processes != self->processes)
        return status_fail(ACRE_ERR_UNSUPPORTED, "rendezvous of group \"%s\": ranks %d and %d "
                           "are on different hosts or in different containers", join->group,
                           self->rank, member->rank);
    if (member->uid != self->uid)
        return status_fail(ACRE_ERR_REJECTED, "rendezvous of group \"%s\": rank %d belongs to "
                           "user %u, rank %d to user %u", join->group, self->rank,
                           (unsigned)self->uid, member->rank, (unsigned)member->uid);
    return ACRE_OK;
}

/* All ranks that neither joined nor wrote a line. */
static acre_status fail_missing(const struct joining *join, int from)
{
    bool *is_missing = heap_array((size_t)join->self.count, sizeof *is_missing);
    char list[256], key[600];
    const char *keys = key;

    if (!is_missing)
        return ACRE_ERR_HOST_MEMORY;
    for (int i = 0; i < join->self.count; i++) {
        bool is_there = true;
        key_of(join, i, key, sizeof key);
        if (i != join->self.rank && join->link->peers[i].fd < 0 &&
            (acre_store_check(join->store, &keys, 1, &is_there) != ACRE_OK || !is_there))
            is_missing[i] = true;
    }
    is_missing[from] = true;
    ranks_text(list, sizeof list, is_missing, join->self.count);
    heap_free(is_missing);
    return status_fail(ACRE_ERR_TIMEOUT, "rendezvous of group \"%s\": %s did not come before the "
                       "deadline", join->group, list);
}

static acre_status check_alive(const struct joining *join)
{
    int dead = link_dead(join->link);

    return dead < 0 ? ACRE_OK : fail_dead(join, dead, join->link->peers[dead].pid);
}

/* Waits for the line of a rank. */
static acre_status line_read(struct joining *join, int rank, struct member *out)
{
    char key[600];
    acre_blob blob;
    acre_status status;

    key_of(join, rank, key, sizeof key);
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
    status = line_parse(&blob, rank, out);
    acre_blob_free(&blob);
    return status == ACRE_OK ? member_check(join, out) : status;
}

/* ---- Greetings -------------------------------------------------------------------- */

static acre_status hello_send(const struct joining *join, int fd, uint64_t token)
{
    struct record record = {.type = RECORD_HELLO, .rank = (uint32_t)join->self.rank,
                            .token = token};
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
    *peer = (struct peer){fd, pidfd, member->pid};
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
        status = status_fail(ACRE_ERR_REJECTED, "rendezvous: process %d comes as rank %d instead "
                             "of process %d", (int)pid, rank, (int)member.pid);
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
        if (join->link->peers[i].fd < 0)
            return i;
    return -1;
}

/* A rank above that wrote its line and died before it came. */
static acre_status check_lines(struct joining *join, int64_t *dead_since)
{
    char key[600];
    acre_blob blob;
    struct member member;
    bool is_gone = false;

    for (int i = join->self.rank + 1; i < join->self.count && !is_gone; i++) {
        const char *keys = key;
        bool is_there = false;
        key_of(join, i, key, sizeof key);
        if (join->link->peers[i].fd >= 0 ||
            acre_store_check(join->store, &keys, 1, &is_there) != ACRE_OK || !is_there ||
            store_get_until(join->store, key, deadline_in_ms(SLICE_MS), &blob) != ACRE_OK)
            continue;
        acre_status status = line_parse(&blob, i, &member);
        acre_blob_free(&blob);
        if (status == ACRE_OK)
            status = member_check(join, &member);
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

/* ---- The whole -------------------------------------------------------------------- */

static acre_status link_create(int rank, int count, struct link **out)
{
    struct link *link = heap_zalloc(sizeof *link + (size_t)count * sizeof *link->peers);

    if (!link)
        return ACRE_ERR_HOST_MEMORY;
    link->rank = rank;
    link->count = count;
    for (int i = 0; i < count; i++)
        link->peers[i] = (struct peer){-1, -1, 0};
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

    *self = (struct member){.rank = rank, .count = count, .pid = getpid(), .uid = geteuid(),
                            .network = namespace_of("/proc/self/ns/net"),
                            .processes = namespace_of("/proc/self/ns/pid")};
    host_read(self->host);
    if (getrandom(&self->token, sizeof self->token, 0) != sizeof self->token)
        return status_fail_native(ACRE_ERR_IO, errno, "rendezvous: no random bytes");
    join->link->token = self->token;
    return channel_listen(self->name, &join->listener);
}

acre_status link_join(acre_store *store, const char *name, int rank, int count,
                      int64_t deadline, struct link **out)
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
        status = line_write(&join);
    if (status == ACRE_OK) {
        for (int i = 0; i < rank && status == ACRE_OK; i++)
            status = connect_to(&join, i);
        if (status == ACRE_OK)
            status = accept_all(&join);
        line_remove(&join);
    }
    if (join.listener >= 0)
        close(join.listener);
    if (status != ACRE_OK)
        link_destroy(join.link);
    else
        *out = join.link;
    return status;
}
