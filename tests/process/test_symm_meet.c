/* SPDX-License-Identifier: MIT */
/* Deadlines of a rendezvous hold whatever others do, and messages name who is late. */
#include "symm/link/channel.h"
#include "symm/link/meet.h"
#include "symm/store/store.h"
#include "symm/symm.h"
#include "symm/team/group.h"

#include "tests/support/ranks.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static void *alloc(size_t bytes)
{
    void *base;

    REQUIRE_OK(acre_symm_alloc(NULL, bytes, &base));
    return base;
}

/* The line that a rank of the group "world" wrote. */
static struct member line_of(struct rank *me, int rank)
{
    struct member member = {0};
    char key[MEMBER_KEY];
    acre_blob blob;

    member_key("world", rank, key, sizeof key);
    REQUIRE_OK(acre_store_get(me->store, key, &blob));
    REQUIRE_OK(member_parse(&blob, rank, &member));
    acre_blob_free(&blob);
    return member;
}

/* ---- Strangers ---------------------------------------------------------------------- */

/* Connects again and again until word 1 says that the rank is done. With keep, the last
 * connections stay open and silent. */
static void flood(struct rank *me, const char *name, bool is_kept)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fds[200], at = 0;

    for (int i = 0; i < 200; i++)
        fds[i] = -1;
    memcpy(address.sun_path + 1, name, strlen(name));
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    while (atomic_load(&me->shared[1]) == 0) {
        int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        REQUIRE(fd >= 0);
        if (connect(fd, (struct sockaddr *)&address, length) == 0)
            atomic_fetch_add(&me->shared[2], 1);
        else if (atomic_load(&me->shared[1]) == 0)
            usleep(50);
        if (fds[at] >= 0)
            close(fds[at]);
        fds[at] = is_kept ? fd : -1;
        at = (at + 1) % 200;
        if (!is_kept)
            close(fd);
    }
    for (int i = 0; i < 200; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

/* Rank 0 waits for rank 1, which floods it instead of joining. */
static void flooded_with(struct rank *me, bool is_kept, uid_t user)
{
    void *base = alloc(64);
    acre_symm *symm;

    if (me->rank == 0) {
        EXPECT_EQ(acre_symm_rendezvous(base, "world", &symm), ACRE_ERR_TIMEOUT);
        EXPECT_HAS(acre_last_error(), "rank 1 did not come");
        EXPECT_GT(atomic_load(&me->shared[2]), 0);
        atomic_store(&me->shared[1], 1);
    } else {
        struct member member = line_of(me, 0);
        if (user)
            REQUIRE(setresuid(user, user, user) == 0);
        flood(me, member.name, is_kept);
    }
    ranks_meet(me, 0);
    acre_symm_free(base);
}

static void flooded_by_other(struct rank *me)
{
    flooded_with(me, false, 65534);
}

static void flooded_by_silent(struct rank *me)
{
    flooded_with(me, true, 0);
}

TEST(a_flood_from_another_user_does_not_move_the_deadline)
{
    if (geteuid() != 0)
        T_SKIP("only root can become another user");
    ranks_run_with(2, flooded_by_other, 600, 0);
}

TEST(silent_connections_do_not_move_the_deadline)
{
    ranks_run_with(2, flooded_by_silent, 600, 0);
}

/* Ranks 0 and 1 meet although rank 2 of another group floods rank 0. */
static void meet_in_flood(struct rank *me)
{
    acre_group *pair = ranks_subgroup(me, "pair", 3);
    void *base = alloc(64);
    acre_symm *symm;

    if (me->rank == 2) {
        struct member member = {0};
        char key[MEMBER_KEY];
        acre_blob blob;
        member_key("pair", 0, key, sizeof key);
        REQUIRE_OK(acre_store_get(me->store, key, &blob));
        REQUIRE_OK(member_parse(&blob, 0, &member));
        acre_blob_free(&blob);
        flood(me, member.name, true);
    } else {
        while (me->rank == 1 && atomic_load(&me->shared[2]) < 300)
            usleep(100);
        REQUIRE_OK(acre_symm_rendezvous(base, "pair", &symm));
        atomic_store(&me->shared[1], 1);
        acre_symm_release(symm);
    }
    ranks_meet(me, 0);
    acre_symm_free(base);
    acre_group_destroy(pair);
}

TEST(ranks_meet_in_a_flood_of_silent_connections)
{
    ranks_run(3, meet_in_flood);
}

/* ---- Who is late -------------------------------------------------------------------- */

/* Rank 0 of count writes its line and listens, as if it had come so far in a rendezvous; its
 * process is noted in shared[1]. Gives the listener, to be closed. */
static int line_write(struct rank *me, int count)
{
    struct member self;
    int listener;

    member_describe(0, count, "", 0, &self);
    self.token = 7;
    REQUIRE_OK(channel_listen(self.name, &listener));
    REQUIRE_OK(member_write(me->store, "world", &self, 0));
    atomic_store(&me->shared[1], (uint64_t)getpid());
    return listener;
}

/* Rank 0 wrote its line and listens, and was stopped there. */
static void stopped_below(struct rank *me)
{
    void *base = alloc(64);
    acre_symm *symm;
    char text[64];

    if (me->rank == 0) {
        int listener = line_write(me, 2);

        ranks_meet(me, 0);
        close(listener);
    } else {
        EXPECT_EQ(acre_symm_rendezvous(base, "world", &symm), ACRE_ERR_TIMEOUT);
        snprintf(text, sizeof text, "rank 0 (process %d) is there but did not answer",
                 (int)atomic_load(&me->shared[1]));
        EXPECT_HAS(acre_last_error(), text);
        ranks_meet(me, 0);
    }
    acre_symm_free(base);
}

TEST(a_rank_that_was_stopped_while_joining_is_named)
{
    ranks_run_with(2, stopped_below, 500, 0);
}

/* Rank 1 is late. Rank 2 gives up first; rank 3 must not take it for late as well. */
static void gives_up_first(struct rank *me)
{
    void *base = alloc(64);
    acre_symm *symm;

    me->group->timeout_ms = me->rank == 2 ? 600 : 1500;
    if (me->rank != 1) {
        EXPECT_EQ(acre_symm_rendezvous(base, "world", &symm), ACRE_ERR_TIMEOUT);
        EXPECT_HAS(acre_last_error(), ": rank 1 did not come");
    }
    ranks_meet(me, 0);
    acre_symm_free(base);
}

TEST(a_rank_that_gave_up_is_not_called_late)
{
    ranks_run(4, gives_up_first);
}

static void group_leave(struct rank *me, acre_symm *keep, void *first)
{
    acre_symm_release(keep);
    acre_symm_free(first);
    acre_group_destroy(me->group);
    me->group = NULL;
}

static void leaves_the_group(struct rank *me)
{
    void *first, *base = alloc(64);
    acre_symm *symm, *keep = ranks_symm(me, 64, &first);

    ranks_meet(me, 0);
    if (me->rank == 1) {
        group_leave(me, keep, first);
        ranks_meet(me, 1);
    } else {
        EXPECT_EQ(acre_symm_rendezvous(base, "world", &symm), ACRE_ERR_PEER);
        EXPECT_HAS(acre_last_error(), "left the group");
        EXPECT(!strstr(acre_last_error(), "is gone"));
        ranks_meet(me, 1);
        acre_symm_release(keep);
        acre_symm_free(first);
    }
    acre_symm_free(base);
}

TEST(a_living_rank_is_not_called_gone)
{
    ranks_run(2, leaves_the_group);
}

static int stay[2]; /* a child stays until the writing end is closed */

/* Destroys the group that it inherits, at last; of its own descriptors, which have the numbers of
 * those that the group had, none is closed by that. */
static void child_stays(void *group)
{
    int fds[8];
    char byte;

    close(stay[1]);
    for (int i = 0; i < 8; i++)
        fds[i] = dup(stay[0]);
    EXPECT_EQ(read(stay[0], &byte, 1), 0);
    acre_group_destroy(group);
    for (int i = 0; i < 8; i++)
        EXPECT(fcntl(fds[i], F_GETFD) >= 0);
}

/* Rank 1 leaves; it has a child, as a loader of data has. */
static void leaves_a_child(struct rank *me)
{
    REQUIRE_OK(acre_group_barrier(me->group));
    if (me->rank == 1) {
        REQUIRE(pipe(stay) == 0);
        pid_t pid = t_start(child_stays, me->group);
        acre_group_destroy(me->group);
        me->group = NULL;
        ranks_meet(me, 0);
        close(stay[0]);
        close(stay[1]);
        EXPECT_EQ(t_join(pid), 0);
    } else {
        me->group->timeout_ms = 30000;
        EXPECT_EQ(acre_group_barrier(me->group), ACRE_ERR_PEER);
        EXPECT_HAS(acre_last_error(), "left the group");
        EXPECT(!strstr(acre_last_error(), "is gone"));
        ranks_meet(me, 0);
    }
}

TEST(a_rank_that_left_is_told_at_once_although_it_has_a_child)
{
    ranks_run(2, leaves_a_child);
}

/* Rank 1 gives up because rank 2 is late; rank 0, which hears of rank 1 only, names both. */
static void leaves_for_another(struct rank *me)
{
    void *first, *base = alloc(64);
    acre_symm *symm, *keep = ranks_symm(me, 64, &first);

    ranks_meet(me, 0);
    if (me->rank == 1) {
        group_leave(me, keep, first);
    } else if (me->rank == 0) {
        EXPECT_EQ(acre_symm_rendezvous(base, "world", &symm), ACRE_ERR_PEER);
        EXPECT_HAS(acre_last_error(), "rank 1 (process ");
        EXPECT_HAS(acre_last_error(), "left the group");
        EXPECT_HAS(acre_last_error(), "; rank 2 had not come either");
    }
    ranks_meet(me, 1);
    if (me->rank != 1) {
        acre_symm_release(keep);
        acre_symm_free(first);
    }
    acre_symm_free(base);
}

TEST(who_is_late_is_named_when_another_gave_up)
{
    ranks_run(3, leaves_for_another);
}

/* ---- Stopped processes ------------------------------------------------------------------ */

/* Rank 0 has written its line and is stopped, rank 1 waits for it, and rank 2 for rank 1:
 * rank 2 names rank 0, too. */
static void stopped_behind(struct rank *me)
{
    void *base = alloc(64);
    acre_symm *symm;
    char text[64];

    if (me->rank == 0) {
        int listener = line_write(me, 3);

        REQUIRE(raise(SIGSTOP) == 0);
        close(listener);
    } else {
        me->group->timeout_ms = me->rank == 1 ? 1000 : 500;
        EXPECT_EQ(acre_symm_rendezvous(base, "world", &symm), ACRE_ERR_TIMEOUT);
        snprintf(text, sizeof text, "rank 0 (process %d) is stopped",
                 (int)atomic_load(&me->shared[1]));
        EXPECT_HAS(acre_last_error(), text);
        if (atomic_fetch_add(&me->shared[2], 1) == 1)
            REQUIRE(kill((pid_t)atomic_load(&me->shared[1]), SIGCONT) == 0);
    }
    ranks_meet(me, 0);
    acre_symm_free(base);
}

TEST(a_stopped_process_is_named_by_those_who_wait_behind_others)
{
    ranks_run(3, stopped_behind);
}

/* ---- Lines of a job before ------------------------------------------------------------ */

/* The line of another rank, as a process wrote it that has ended. */
static void line_leave(struct rank *me, int rank, int64_t written_ns)
{
    struct member left;
    pid_t gone = fork();

    if (gone == 0)
        _exit(0);
    REQUIRE(gone > 0 && waitpid(gone, NULL, 0) == gone);
    member_describe(rank, me->count, "", 0, &left);
    left.pid = gone;
    left.token = 7;
    left.written_ns = written_ns;
    snprintf(left.name, sizeof left.name, "acre-%d", (int)gone);
    REQUIRE_OK(member_write(me->store, "world", &left, 0));
}

/* Both ranks find lines of a job before; the late one comes when its line has been there long. */
static void comes_after_old_lines(struct rank *me, int late)
{
    void *base = alloc(64);
    acre_symm *symm;

    line_leave(me, 1 - me->rank, 1);
    ranks_meet(me, 0);
    if (me->rank == late)
        nanosleep(&(struct timespec){1, 0}, NULL);
    REQUIRE_OK(acre_symm_rendezvous(base, "world", &symm));
    ranks_meet(me, 1);
    acre_symm_release(symm);
    acre_symm_free(base);
}

static void below_comes_after_old_lines(struct rank *me)
{
    comes_after_old_lines(me, 0);
}

static void above_comes_after_old_lines(struct rank *me)
{
    comes_after_old_lines(me, 1);
}

TEST(a_rank_is_not_called_gone_for_the_line_of_a_job_before)
{
    ranks_run(2, below_comes_after_old_lines);
    ranks_run(2, above_comes_after_old_lines);
}

/* Nobody replaces the old line of rank 0: it did not come, whoever wrote that line. */
static void old_line_stays(struct rank *me)
{
    void *base = alloc(64);
    acre_symm *symm;

    if (me->rank == 1) {
        line_leave(me, 0, 1);
        EXPECT_EQ(acre_symm_rendezvous(base, "world", &symm), ACRE_ERR_TIMEOUT);
        EXPECT_HAS(acre_last_error(), ": rank 0 did not come");
    }
    ranks_meet(me, 0);
    acre_symm_free(base);
}

TEST(an_old_line_that_stays_is_a_rank_that_did_not_come)
{
    ranks_run_with(2, old_line_stays, 900, 0);
}

/* Rank 0 of this job wrote its line and died: that is noticed long before the deadline. */
static void died_after_its_line(struct rank *me)
{
    void *base = alloc(64);
    acre_symm *symm;
    struct member now;

    if (me->rank == 1) {
        member_describe(1, me->count, "", 0, &now);
        EXPECT(now.written_ns > process_born_ns() && process_born_ns() > 0);
        line_leave(me, 0, now.written_ns);
        EXPECT_EQ(acre_symm_rendezvous(base, "world", &symm), ACRE_ERR_PEER);
        EXPECT_HAS(acre_last_error(), ": rank 0 (process");
    }
    ranks_meet(me, 0);
    acre_symm_free(base);
}

TEST(a_rank_that_died_after_its_line_is_gone)
{
    ranks_run(2, died_after_its_line);
}

/* Ends when nobody writes into the pipe any more. */
static void stay_until_closed(int ends[2])
{
    char byte;

    close(ends[1]);
    _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
}

/* The line of rank 0, which died while it waited for others; a child of it still has the socket
 * at which it was to be reached, until the descriptor given back is closed. */
static int line_with_orphan(struct rank *me, int64_t written_ns)
{
    struct member left;
    int names[2], ends[2], listener;

    member_describe(0, me->count, "", 0, &left);
    left.token = 7;
    left.written_ns = written_ns ? written_ns : left.written_ns;
    REQUIRE(pipe(names) == 0 && pipe(ends) == 0);
    left.pid = fork();
    REQUIRE(left.pid >= 0);
    if (left.pid == 0) {
        if (channel_listen(left.name, &listener) != ACRE_OK || fork() == 0)
            stay_until_closed(ends);
        _exit(write(names[1], left.name, sizeof left.name) == sizeof left.name ? 0 : 1);
    }
    REQUIRE(waitpid(left.pid, NULL, 0) == left.pid);
    REQUIRE(read(names[0], left.name, sizeof left.name) == sizeof left.name);
    REQUIRE_OK(member_write(me->store, "world", &left, 0));
    close(names[0]);
    close(names[1]);
    close(ends[0]);
    return ends[1];
}

static void died_beside_its_child(struct rank *me)
{
    void *base = alloc(64);
    acre_symm *symm;

    if (me->rank == 1) {
        int end = line_with_orphan(me, 0);
        EXPECT_EQ(acre_symm_rendezvous(base, "world", &symm), ACRE_ERR_PEER);
        EXPECT_HAS(acre_last_error(), ": rank 0 (process");
        close(end);
    }
    ranks_meet(me, 0);
    acre_symm_free(base);
}

static void comes_beside_an_orphan(struct rank *me)
{
    void *base = alloc(64);
    acre_symm *symm;
    int end = me->rank == 1 ? line_with_orphan(me, 1) : -1;

    ranks_meet(me, 0);
    if (me->rank == 0)
        nanosleep(&(struct timespec){1, 0}, NULL);
    REQUIRE_OK(acre_symm_rendezvous(base, "world", &symm));
    ranks_meet(me, 1);
    acre_symm_release(symm);
    acre_symm_free(base);
    if (end >= 0)
        close(end);
}

TEST(a_dead_rank_is_gone_although_a_child_has_its_socket)
{
    ranks_run_with(2, died_beside_its_child, 20000, 0);
    ranks_run_with(2, comes_beside_an_orphan, 20000, 0);
}

static void other_version_joined(struct rank *me)
{
    static const char line[] = "ACREJOIN2 0 2 1 0 host 1 1 7 acre-1 - 0", cut[] = "ACREJOIN3 0";
    struct member member;
    char key[MEMBER_KEY];
    acre_symm *symm;
    void *base;

    EXPECT_EQ(member_parse(&(acre_blob){(void *)(uintptr_t)cut, strlen(cut)}, 0, &member),
              ACRE_ERR_FORMAT);
    EXPECT_HAS(acre_last_error(), "rank 0 is damaged");
    if (me->rank == 1) {
        base = alloc(64);
        member_key("world", 0, key, sizeof key);
        REQUIRE_OK(acre_store_set(me->store, key, line, strlen(line)));
        EXPECT_EQ(acre_symm_rendezvous(base, "world", &symm), ACRE_ERR_FORMAT);
        EXPECT_HAS(acre_last_error(), "another version of Acre wrote the line of rank 0");
        acre_symm_free(base);
    }
}

TEST(a_line_of_another_version_is_named_so)
{
    ranks_run(2, other_version_joined);
}

/* ---- A store that does not answer ----------------------------------------------------- */

static void store_is_locked(struct rank *me)
{
    void *base = alloc(64);
    acre_symm *symm;
    char path[64];

    snprintf(path, sizeof path, "/tmp/acre-ranks-%d", (int)getppid());
    int fd = open(path, O_RDWR | O_CLOEXEC);
    REQUIRE(fd >= 0);
    if (me->rank == 1)
        REQUIRE(flock(fd, LOCK_EX) == 0);
    ranks_meet(me, 0);
    if (me->rank == 0) {
        EXPECT_EQ(acre_symm_rendezvous(base, "world", &symm), ACRE_ERR_TIMEOUT);
        EXPECT_HAS(acre_last_error(), "held the lock of the file");
    }
    ranks_meet(me, 1);
    close(fd);
    acre_symm_free(base);
}

TEST(a_store_whose_lock_is_held_ends_a_rendezvous_at_its_deadline)
{
    ranks_run_with(2, store_is_locked, 300, 0);
}

T_MAIN()
