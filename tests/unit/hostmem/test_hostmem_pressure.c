/* SPDX-License-Identifier: MIT */
/* Whether memory is short. */
#include "tests/unit/hostmem/heap_make.h"

#include "hostmem/pressure.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(pressure_is_told_from_the_kernels_figures)
{
    EXPECT(!pressure_of(100, 1000, 0, 0));
    EXPECT(pressure_of(10, 1000, 0, 0));
    EXPECT(pressure_of(500, 1000, 950, 1000));
    EXPECT(!pressure_of(500, 1000, 900, 1000));
}

static char folder[64];

static void file_write(const char *name, const char *text)
{
    char path[192];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    REQUIRE(file);
    fputs(text, file);
    fclose(file);
}

/* What is read of a tree of groups for a membership. */
static void expect_group(const char *membership, uint64_t want_used, uint64_t want_limit)
{
    uint64_t used, limit;
    char path[192];

    file_write("cgroup", membership);
    snprintf(path, sizeof path, "%s/cgroup", folder);
    pressure_group(folder, path, &used, &limit);
    EXPECT_EQ(used, want_used);
    EXPECT_EQ(limit, want_limit);
}

TEST(both_versions_of_control_groups_are_read)
{
    static const char *const files[] = {
        "memory.max", "memory.current", "memory.stat", "memory/a/memory.limit_in_bytes",
        "memory/a/memory.usage_in_bytes", "memory/a/memory.stat", "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes", "cgroup"};
    static const char *const folders[] = {"memory/a", "memory"};
    uint64_t used, limit;
    char path[192];

    strcpy(folder, "/tmp/acre-pressure-XXXXXX");
    REQUIRE(mkdtemp(folder));
    for (int i = 1; i >= 0; i--) {
        snprintf(path, sizeof path, "%s/%s", folder, folders[i]);
        REQUIRE_EQ(mkdir(path, 0700), 0);
    }
    file_write("memory.max", "4096000\n");
    file_write("memory.current", "81920\n");
    file_write("memory.stat", "anon 5\ninactive_file 1920\nactive_file 7\n");
    file_write("memory/a/memory.limit_in_bytes", "1000000\n");
    file_write("memory/a/memory.usage_in_bytes", "900000\n");
    file_write("memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 300000\n");
    file_write("memory/memory.limit_in_bytes", "9223372036854771712\n");
    file_write("memory/memory.usage_in_bytes", "5000\n");
    expect_group("1:x:/a\n0::/\n", 80000, 4096000);
    expect_group("4:memory:/a\n", 600000, 1000000);
    expect_group("4:memory:/a\n0::/\n", 600000, 1000000); /* the tighter of two */
    expect_group("4:memory:/\n", 0, 0);                     /* no limit */
    expect_group("4:memory:/elsewhere\n", 0, 0);            /* a container: its root counts */
    expect_group("0::/elsewhere\n", 80000, 4096000);
    expect_group("nonsense\n:\n", 0, 0);
    pressure_group(folder, "/nowhere", &used, &limit);
    EXPECT_EQ(limit, 0);
    for (int i = 0; i < 9; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        EXPECT_EQ(unlink(path), 0);
    }
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, folders[i]);
        rmdir(path);
    }
    EXPECT_EQ(rmdir(folder), 0);
}

/* ---- A real group --------------------------------------------------------------------------- */

static char group[128];

/* Makes a group of so many bytes that the calling process is in from now on. */
static bool group_join(const char *bytes)
{
    static const char *const roots[][2] = {{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
                                           {"/sys/fs/cgroup", "memory.max"}};

    for (int i = 0; i < 2; i++) {
        snprintf(group, sizeof group, "%s/acre-test-%d", roots[i][0], (int)getppid());
        if (mkdir(group, 0700) != 0)
            continue;
        char path[192], pid[16];
        snprintf(pid, sizeof pid, "%d", (int)getpid());
        const char *const names[] = {roots[i][1], "cgroup.procs"}, *const texts[] = {bytes, pid};
        bool is_done = true;
        for (int k = 0; k < 2 && is_done; k++) {
            snprintf(path, sizeof path, "%s/%s", group, names[k]);
            FILE *file = fopen(path, "r+");
            is_done = file && fputs(texts[k], file) >= 0 && fflush(file) == 0;
            if (file)
                is_done = fclose(file) == 0 && is_done;
        }
        if (is_done)
            return true;
        rmdir(group);
    }
    return false;
}

enum { GROUP_DENIED = 42 };

/* Idle memory goes back before the group is full, and a limit is an error, not a death. */
static void group_run(void *arg)
{
    acre_hostmem *heap = heap_make(0, 0);
    char *block, *other;
    void *out = NULL;
    int count = 0;

    (void)arg;
    if (!group_join("268435456"))
        _exit(GROUP_DENIED);
    block = block_make(heap, 160 << 20);
    memset(block, 1, 160 << 20);
    REQUIRE_OK(acre_hostmem_free(heap, block));
    idle_look(heap);
    EXPECT_EQ(stats_of(heap).trimmed_bytes, 0);
    other = mmap(NULL, 200 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(other != MAP_FAILED);
    memset(other, 1, 88 << 20);
    idle_look(heap);
    EXPECT(stats_of(heap).trimmed_bytes >= 150 << 20);
    memset(other, 1, 200 << 20); /* without those pages the kernel would end the process */
    munmap(other, 200 << 20);
    acre_hostmem_destroy(heap);
    heap = heap_make(200 << 20, 0);
    while (acre_hostmem_alloc(heap, 20 << 20, &out) == ACRE_OK) {
        memset(out, 1, 20 << 20);
        count++;
    }
    EXPECT_EQ(count, 10);
    EXPECT_HAS(acre_last_error(), "Out of host memory");
    acre_hostmem_destroy(heap);
}

TEST(a_control_group_is_obeyed)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    T_SKIP("sanitizers need more memory than the group has");
#endif
    int status = t_child(group_run, NULL);

    snprintf(group, sizeof group, "/sys/fs/cgroup/memory/acre-test-%d", (int)getpid());
    for (int i = 0; i < 1000 && rmdir(group) != 0 && errno == EBUSY; i++)
        usleep(1000);
    snprintf(group, sizeof group, "/sys/fs/cgroup/acre-test-%d", (int)getpid());
    rmdir(group);
    if (WIFEXITED(status) && WEXITSTATUS(status) == GROUP_DENIED)
        T_SKIP("no control group can be made here");
    EXPECT_EQ(status, 0);
}
T_MAIN()
