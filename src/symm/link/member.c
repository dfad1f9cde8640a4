/* SPDX-License-Identifier: MIT */
/* Lines about ranks in the store; see member.h. */
#include "symm/link/member.h"

#include "base/status.h"
#include "base/text.h"
#include "symm/deadline.h"
#include "symm/store/store.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define REMOVE_MS 500 /* that taking a line out of the store may take at most */

static uint64_t namespace_of(const char *path)
{
    struct stat stat_buffer;

    return stat(path, &stat_buffer) == 0 ? (uint64_t)stat_buffer.st_ino : 0;
}

/* The user's word for this host, or what the kernel calls itself since it was started. */
static void host_read(char out[40])
{
    const char *given = getenv("ACRE_SYMM_HOST");
    int fd = given ? -1 : open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, out, 36);

    if (fd >= 0)
        close(fd);
    out[got == 36 ? 36 : 0] = 0;
    if (given)
        snprintf(out, 40, "%.38s", given);
    for (char *at = out; *at; at++)
        if (*at <= ' ')
            *at = '_';
    if (!*out)
        snprintf(out, 40, "unknown");
}

static int64_t boot_clock_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * 1000 * NS_PER_MS + now.tv_nsec;
}

void member_describe(int rank, int count, const char *wire, int wire_rank, struct member *out)
{
    *out = (struct member){.rank = rank,
                           .count = count,
                           .pid = getpid(),
                           .uid = geteuid(),
                           .network = namespace_of("/proc/self/ns/net"),
                           .processes = namespace_of("/proc/self/ns/pid"),
                           .wire_rank = wire_rank,
                           .written_ns = boot_clock_ns()};
    snprintf(out->wire, sizeof out->wire, "%.31s", *wire ? wire : "-");
    host_read(out->host);
}

bool member_has_wire(const struct member *member)
{
    return strcmp(member->wire, "-") != 0;
}

bool member_is_near(const struct member *a, const struct member *b)
{
    return strcmp(a->host, b->host) == 0 && a->network == b->network &&
           a->processes == b->processes;
}

acre_status member_check(const char *group, const struct member *self, const struct member *member)
{
    if (member->count != self->count)
        return status_fail(ACRE_ERR_INVALID,
                           "rendezvous of group \"%s\": rank %d was told of %d rank%s, "
                           "rank %d of %d",
                           group, self->rank, self->count, text_plural((uint64_t)self->count),
                           member->rank, member->count);
    bool is_near = member_is_near(self, member);
    if (!is_near && (!member_has_wire(self) || strcmp(self->wire, member->wire) != 0))
        return status_fail(ACRE_ERR_UNSUPPORTED,
                           "rendezvous of group \"%s\": ranks %d and %d "
                           "are on different hosts or in different containers, with no common "
                           "wire (%s and %s); start them with mpirun",
                           group, self->rank, member->rank, self->wire, member->wire);
    if (is_near && member->uid != self->uid)
        return status_fail(ACRE_ERR_REJECTED,
                           "rendezvous of group \"%s\": rank %d belongs to "
                           "user %u, rank %d to user %u",
                           group, self->rank, (unsigned)self->uid, member->rank,
                           (unsigned)member->uid);
    return ACRE_OK;
}

/* ---- As text ---------------------------------------------------------------------- */

void member_key(const char *group, int rank, char *out, size_t bytes)
{
    snprintf(out, bytes, "acre/join/%s/%d", group, rank);
}

acre_status member_write(acre_store *store, const char *group, const struct member *self,
                         int64_t deadline)
{
    char key[MEMBER_KEY], line[320];

    member_key(group, self->rank, key, sizeof key);
    int length = snprintf(
        line, sizeof line,
        "ACREJOIN3 %d %d %d %u %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %s %s %d %" PRId64,
        self->rank, self->count, (int)self->pid, (unsigned)self->uid, self->host, self->network,
        self->processes, self->token, self->name, self->wire, self->wire_rank, self->written_ns);
    return store_set_until(store, key, line, (size_t)length, deadline);
}

void member_remove(acre_store *store, const char *group, int rank)
{
    struct status_saved saved;
    char key[MEMBER_KEY];

    status_save(&saved);
    member_key(group, rank, key, sizeof key);
    store_delete_until(store, key, deadline_in_ms(REMOVE_MS));
    status_restore(&saved);
}

acre_status member_parse(const acre_blob *blob, int rank, struct member *out)
{
    static const char mark[] = "ACREJOIN"; /* and the version of lines, a digit */
    int pid;
    unsigned uid;
    char rest;

    if (blob->bytes > sizeof mark && memcmp(blob->data, mark, sizeof mark - 1) == 0 &&
        memcmp((const char *)blob->data + sizeof mark - 1, "3 ", 2) != 0)
        return status_fail(ACRE_ERR_FORMAT,
                           "rendezvous: another version of Acre wrote the line of rank %d; all "
                           "ranks need the same one, and each job a store of its own",
                           rank);
    if (sscanf(blob->data,
               "ACREJOIN3 %d %d %d %u %39s %" SCNu64 " %" SCNu64 " %" SCNu64
               " %31s %31s %d %" SCNd64 "%c",
               &out->rank, &out->count, &pid, &uid, out->host, &out->network, &out->processes,
               &out->token, out->name, out->wire, &out->wire_rank, &out->written_ns, &rest) != 12 ||
        out->rank != rank)
        return status_fail(ACRE_ERR_FORMAT,
                           "rendezvous: what the store says about rank %d is "
                           "damaged",
                           rank);
    out->pid = pid;
    out->uid = uid;
    return ACRE_OK;
}
