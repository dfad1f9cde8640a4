/* SPDX-License-Identifier: MIT */
/* Processes that share blocks of their caches, and are killed at any moment.
 *
 * Processes are forked before this one starts any thread, and its devices end before
 * the next fork. */
#include "tests/support/share_bed.h"

#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* ---- Words between processes ------------------------------------------------------ */

static void say(int channel, const void *bytes, size_t size)
{
    REQUIRE(send(channel, bytes, size, MSG_NOSIGNAL) == (ssize_t)size);
}

/* False: the other end is gone. */
static bool hear(int channel, void *bytes, size_t size)
{
    return recv(channel, bytes, size, 0) == (ssize_t)size;
}

static void say_word(int channel, char word)
{
    say(channel, &word, 1);
}

static void hear_word(int channel, char word)
{
    char byte = 0;

    REQUIRE(hear(channel, &byte, 1));
    EXPECT_EQ(byte, word);
}

typedef void (*role)(int channel);

/* Forks a process for a role, with a channel to it. */
static pid_t start(role fn, int *out_channel)
{
    int ends[2];

    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
    fflush(NULL);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        close(ends[0]);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        fn(ends[1]);
        _exit(0);
    }
    close(ends[1]);
    *out_channel = ends[0];
    return pid;
}

/* Waits for the end of a process and expects that it found nothing wrong. Channels
 * stay open until the bed, which counts descriptors, is closed. */
static void expect_success(pid_t pid)
{
    int status = -1;

    REQUIRE(waitpid(pid, &status, 0) == pid);
    EXPECT_EQ(status, 0);
}

/* Kills a process, unless it has just ended, content. */
static void expect_killed(pid_t pid)
{
    int status = -1;

    kill(pid, SIGKILL);
    REQUIRE(waitpid(pid, &status, 0) == pid);
    EXPECT(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
}

/* In a role: ends the process with what it found. */
#define ROLE_EXPECT(fact)                                                      \
    do {                                                                       \
        if (!(fact)) {                                                         \
            fprintf(stderr, "%s:%d: %s (%s)\n", __FILE__, __LINE__, #fact,     \
                    acre_last_error());                                        \
            _exit(1);                                                          \
        }                                                                      \
    } while (0)

/* Kinds of memory: plain under both policies, pages. */
enum kind { PLAIN_TORCH, PLAIN_ACRE, PAGES_TORCH, KIND_COUNT };

static struct share_bed role_bed(enum kind kind)
{
    return share_bed_open("memory:128MiB",
                          kind == PLAIN_ACRE ? ACRE_POLICY_ACRE : ACRE_POLICY_TORCH,
                          kind == PAGES_TORCH ? "expandable_segments:True" : NULL);
}

static void *role_open(struct share_bed *bed, const struct parcel *parcel)
{
    void *base = NULL;
    uint64_t bytes;

    ROLE_EXPECT(acre_share_open(bed->device, parcel->handle, parcel->bytes, &base, &bytes) ==
                ACRE_OK);
    return base;
}

/* ---- Two processes ------------------------------------------------------------------- */

#define SIZE (3 * MIB)

/* Sees 'a', writes 'b', sees 'c' after the exporter has freed the block. */
static void importer(int channel)
{
    struct share_bed bed = role_bed(PLAIN_ACRE);
    struct parcel parcel;

    ROLE_EXPECT(hear(channel, &parcel, sizeof parcel));
    char *base = role_open(&bed, &parcel), *there = base + parcel.offset;
    ROLE_EXPECT(share_bed_has(&bed, there, 'a', SIZE));
    share_bed_fill(&bed, there, 'b', SIZE);
    say_word(channel, 'b');
    hear_word(channel, 'c');
    ROLE_EXPECT(share_bed_has(&bed, there, 'c', SIZE));
    ROLE_EXPECT(acre_share_close(bed.device, base) == ACRE_OK);
    acre_cache_destroy(bed.cache);
    acre_backend_unregister(bed.sim.backend);
    say_word(channel, 'd');
}

static void exchange(enum kind kind)
{
    int channel;
    pid_t pid = start(importer, &channel);
    struct share_bed bed = role_bed(kind);
    char *a = share_bed_alloc(&bed, SIZE, 'a');
    struct parcel parcel = share_bed_export(&bed, a);

    say(channel, &parcel, sizeof parcel);
    hear_word(channel, 'b');
    EXPECT(share_bed_has(&bed, a, 'b', SIZE));
    share_bed_users(&bed, a, 1);
    share_bed_fill(&bed, a, 'c', SIZE);
    REQUIRE_OK(acre_cache_free(bed.cache, a));
    /* Not even with the whole cache emptied does anybody else write there. */
    REQUIRE_OK(acre_cache_empty(bed.cache));
    char *b = share_bed_alloc(&bed, SIZE, 'z');
    EXPECT(b != a);
    EXPECT_EQ(share_bed_active(&bed), 2);
    say_word(channel, 'c');
    hear_word(channel, 'd');
    expect_success(pid);
    REQUIRE_OK(acre_cache_free(bed.cache, b));
    share_bed_settle(&bed, 0);
    share_bed_close(&bed);
    close(channel);
}

TEST(two_processes_see_each_others_writes_torch)
{
    exchange(PLAIN_TORCH);
}

TEST(two_processes_see_each_others_writes_acre)
{
    exchange(PLAIN_ACRE);
}

TEST(two_processes_see_each_others_writes_in_pages)
{
    exchange(PAGES_TORCH);
}

/* ---- An exporter that goes ------------------------------------------------------------ */

static void short_exporter(int channel)
{
    struct share_bed bed = role_bed(PLAIN_ACRE);
    char *a = share_bed_alloc(&bed, SIZE, 'a');
    struct parcel parcel = share_bed_export(&bed, a);

    say(channel, &parcel, sizeof parcel);
    hear_word(channel, 'k');
    raise(SIGKILL);
}

TEST(who_has_it_open_keeps_it_when_the_exporter_dies)
{
    int channel, status;
    pid_t pid = start(short_exporter, &channel);
    struct share_bed bed = role_bed(PLAIN_TORCH);
    struct parcel parcel;
    void *base, *again;
    uint64_t bytes;

    REQUIRE(hear(channel, &parcel, sizeof parcel));
    char *there = share_bed_import(&bed, &parcel, &base);
    say_word(channel, 'k');
    REQUIRE(waitpid(pid, &status, 0) == pid);
    EXPECT(share_bed_has(&bed, there, 'a', SIZE));
    /* The bare bytes are another entry, so they have to be asked for anew. */
    EXPECT_EQ(acre_share_open(bed.device, parcel.handle + 2, 64, &again, &bytes), ACRE_ERR_PEER);
    EXPECT_HAS(acre_last_error(), "gone");
    REQUIRE_OK(acre_share_close(bed.device, base));
    EXPECT_EQ(acre_share_open(bed.device, parcel.handle, 66, &again, &bytes), ACRE_ERR_PEER);
    share_bed_close(&bed);
    close(channel);
}

/* ---- Kills at random moments ------------------------------------------------------------- */

/* Opens and closes what it was told of, until it is killed or told to stop. */
static void restless(int channel)
{
    struct share_bed bed = role_bed(PLAIN_ACRE);
    struct parcel parcels[4];
    char byte;

    ROLE_EXPECT(hear(channel, parcels, sizeof parcels));
    for (int i = 0;; i++) {
        const struct parcel *parcel = &parcels[i % 4];
        void *base = NULL;
        uint64_t bytes;
        acre_status status = acre_share_open(bed.device, parcel->handle, parcel->bytes, &base,
                                             &bytes);
        if (status == ACRE_ERR_PEER || status == ACRE_ERR_NOT_FOUND)
            break; /* the exporter was faster */
        ROLE_EXPECT(status == ACRE_OK);
        ROLE_EXPECT(share_bed_has(&bed, (char *)base + parcel->offset, 'A' + i % 4, 4096));
        ROLE_EXPECT(acre_share_close(bed.device, base) == ACRE_OK);
        if (recv(channel, &byte, 1, MSG_DONTWAIT) == 0)
            break;
    }
    acre_cache_destroy(bed.cache);
    acre_backend_unregister(bed.sim.backend);
}

/* Whether the service that a handle names has a socket. */
static bool has_socket(const struct parcel *parcel)
{
    FILE *file = fopen("/proc/net/unix", "r");
    char name[64] = "acre-share-", line[512];
    bool has = false;

    for (int i = 0; i < 16; i++)
        snprintf(name + 11 + 2 * i, 3, "%02x", parcel->handle[10 + i]);
    while (file && fgets(line, sizeof line, file))
        has |= strstr(line, name) != NULL;
    if (file)
        fclose(file);
    return has;
}

/* Blocks for the others, each with a letter. */
static void export_four(struct share_bed *bed, char *blocks[4], struct parcel parcels[4])
{
    for (int i = 0; i < 4; i++) {
        blocks[i] = share_bed_alloc(bed, 4096 + (size_t)i * MIB, 'A' + i);
        parcels[i] = share_bed_export(bed, blocks[i]);
    }
}

/* Importers die; the exporter is this process, whose every count must return. */
static void importers_round(enum kind kind, uint64_t *seed, int count)
{
    struct parcel parcels[4];
    char *blocks[4];
    pid_t pids[3];
    int channels[3];

    for (int i = 0; i < count; i++)
        pids[i] = start(restless, &channels[i]);
    struct share_bed bed = role_bed(kind);
    export_four(&bed, blocks, parcels);
    for (int i = 0; i < count; i++)
        say(channels[i], parcels, sizeof parcels);
    usleep((useconds_t)(t_random(seed) % 4000));
    /* Some blocks go while the others are at it. */
    int freed = (int)(t_random(seed) % 5);
    for (int i = 0; i < freed; i++)
        REQUIRE_OK(acre_cache_free(bed.cache, blocks[i]));
    for (int i = 0; i < count; i++)
        expect_killed(pids[i]);
    for (int i = freed; i < 4; i++)
        REQUIRE_OK(acre_cache_free(bed.cache, blocks[i]));
    share_bed_settle(&bed, 0);
    share_bed_close(&bed);
    for (int i = 0; i < count; i++)
        close(channels[i]);
}

static void importers_rounds(uint64_t rounds, int count)
{
    uint64_t seed = t_seed();
    int fds = t_fd_count();

    for (uint64_t i = 0; i < rounds; i++)
        importers_round((enum kind)(i % KIND_COUNT), &seed, count);
    EXPECT_EQ(t_fd_count(), fds);
}

TEST(one_importer_killed_at_any_moment)
{
    importers_rounds(t_count(16, 1000), 1);
}

TEST(three_importers_killed_at_any_moment)
{
    importers_rounds(t_count(10, 500), 3);
}

/* Exports, tells, and is killed. */
static void doomed_exporter(int channel)
{
    struct share_bed bed = role_bed((enum kind)(getpid() % KIND_COUNT));
    struct parcel parcels[4];
    char *blocks[4], byte;

    for (;;) {
        export_four(&bed, blocks, parcels);
        say(channel, parcels, sizeof parcels);
        if (!hear(channel, &byte, 1))
            _exit(0);
        for (int i = 0; i < 4; i++)
            ROLE_EXPECT(acre_cache_free(bed.cache, blocks[i]) == ACRE_OK);
    }
}

TEST(an_exporter_killed_at_any_moment)
{
    uint64_t seed = t_seed(), rounds = t_count(10, 500);
    int fds = t_fd_count();

    for (uint64_t i = 0; i < rounds; i++) {
        struct parcel parcels[4];
        int exporter_channel, channels[2], status;
        pid_t exporter = start(doomed_exporter, &exporter_channel), pids[2];

        for (int j = 0; j < 2; j++)
            pids[j] = start(restless, &channels[j]);
        REQUIRE(hear(exporter_channel, parcels, sizeof parcels));
        EXPECT(has_socket(&parcels[0]));
        for (int j = 0; j < 2; j++)
            say(channels[j], parcels, sizeof parcels);
        usleep((useconds_t)(t_random(&seed) % 4000));
        expect_killed(exporter);
        EXPECT(!has_socket(&parcels[0]));
        close(exporter_channel);
        for (int j = 0; j < 2; j++) { /* they notice by themselves */
            REQUIRE(waitpid(pids[j], &status, 0) == pids[j]);
            EXPECT_EQ(status, 0);
            close(channels[j]);
        }
    }
    EXPECT_EQ(t_fd_count(), fds);
}

/* ---- Another user --------------------------------------------------------------------------- */

static void stranger(int channel)
{
    struct parcel parcel;
    void *base;
    uint64_t bytes;

    ROLE_EXPECT(setresuid(65534, 65534, 65534) == 0);
    struct share_bed bed = role_bed(PLAIN_ACRE);
    ROLE_EXPECT(hear(channel, &parcel, sizeof parcel));
    ROLE_EXPECT(acre_share_open(bed.device, parcel.handle, parcel.bytes, &base, &bytes) ==
                ACRE_ERR_INVALID);
    ROLE_EXPECT(strstr(acre_last_error(), "another user"));
    acre_cache_destroy(bed.cache);
    acre_backend_unregister(bed.sim.backend);
    say_word(channel, 'n');
}

TEST(another_users_process_cannot_open_it)
{
    int channel;

    if (geteuid() != 0)
        T_SKIP("only root can become another user");
    pid_t pid = start(stranger, &channel);
    struct share_bed bed = role_bed(PLAIN_TORCH);
    char *a = share_bed_alloc(&bed, 4096, 'a');
    struct parcel parcel = share_bed_export(&bed, a);

    say(channel, &parcel, sizeof parcel);
    hear_word(channel, 'n');
    expect_success(pid);
    share_bed_users(&bed, a, 0);
    REQUIRE_OK(acre_cache_free(bed.cache, a));
    share_bed_close(&bed);
    close(channel);
}

T_MAIN()
