/* SPDX-License-Identifier: MIT */
/* Transfers that do not go smoothly: short ones, failures at every request, no room. */
#include "exchange/transfer.h"
#include "exchange/io.h"
#include "tests/support/file_bed.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* A fault in the nth request, for every n: a short one goes on, a repeatable one is
 * repeated, any other is an error; the file works on in any case. */
static void fault_every_request(acre_file_engine engine, ssize_t result, acre_status expected)
{
    acre_file *file = file_new("fault", engine);
    bool is_hit = true;

    for (unsigned nth = 1; is_hit; nth++) {
        io_fail_nth(nth, result);
        acre_status saved = acre_file_save(file, device, memory, 6 * PAGE, 0);
        bool is_save = io_fail_disarm();
        if (is_save)
            EXPECT_EQ(saved, expected);
        REQUIRE_OK(acre_file_save(file, device, memory, 6 * PAGE, 0));
        clear_memory();
        io_fail_nth(nth, result);
        acre_status loaded = acre_file_load(file, device, memory, 6 * PAGE, 0);
        is_hit = io_fail_disarm();
        EXPECT_EQ(loaded, is_hit ? expected : ACRE_OK);
        if (loaded != ACRE_OK)
            REQUIRE_OK(acre_file_load(file, device, memory, 6 * PAGE, 0));
        expect_memory(memory, pattern, 6 * PAGE);
        bed_write(&bed, memory, pattern, RANGE);
        REQUIRE(nth < 100);
    }
    acre_file_close(file);
}

TEST(short_transfers_go_on_and_failures_are_told)
{
    start();
    for (int engine = ACRE_FILE_PLAIN; engine <= ACRE_FILE_URING; engine++) {
        acre_file_engine which = (acre_file_engine)engine;

        if (!engine_is_there(which))
            continue;
        acre_file *file = file_new("fault", which);
        bool has_small_steps = info_of(file).offset_alignment <= 512;
        acre_file_close(file);
        if (has_small_steps)
            fault_every_request(which, 1024, ACRE_OK);
        fault_every_request(which, -EINTR, ACRE_OK);
        fault_every_request(which, -EAGAIN, ACRE_OK);
        fault_every_request(which, 100, ACRE_ERR_IO);
        fault_every_request(which, 0, ACRE_ERR_IO);
        fault_every_request(which, -EIO, ACRE_ERR_IO);
        fault_every_request(which, -ENOSPC, ACRE_ERR_LIMIT);
    }
    stop();
}

/* A ring whose every submission fails: requests are made plainly, however many there are. */
TEST(a_ring_that_takes_nothing_is_done_without)
{
    start();
    if (!engine_is_there(ACRE_FILE_URING))
        T_SKIP("there is no io_uring here");
    acre_file *file = file_with_blocks("refused", ACRE_FILE_URING, PAGE);
    ring_refuse(true);
    for (int i = 0; i < 4; i++) {
        REQUIRE_OK(acre_file_save(file, device, memory, RANGE, 0));
        clear_memory();
        REQUIRE_OK(acre_file_load(file, device, memory, RANGE, 0));
        expect_memory(memory, pattern, RANGE);
    }
    ring_refuse(false);
    REQUIRE_OK(acre_file_save(file, device, memory, RANGE, 0));
    clear_memory();
    REQUIRE_OK(acre_file_load(file, device, memory, RANGE, 0));
    expect_memory(memory, pattern, RANGE);
    acre_file_close(file);
    stop();
}

TEST(failing_copies_of_the_device_end_a_transfer)
{
    const acre_sim_fault fault = {.struct_size = sizeof fault, .call = ACRE_SIM_COPY, .nth = 3};
    acre_file *file;

    start();
    file = file_new("copies", ACRE_FILE_AUTO);
    REQUIRE_OK(acre_sim_fault_arm(bed.backend, &fault));
    EXPECT_EQ(acre_file_save(file, device, memory, RANGE, 0), ACRE_ERR_DEVICE);
    EXPECT_EQ(acre_sim_fault_disarm(bed.backend), 1);
    REQUIRE_OK(acre_file_save(file, device, memory, RANGE, 0));
    REQUIRE_OK(acre_sim_fault_arm(bed.backend, &fault));
    EXPECT_EQ(acre_file_load(file, device, memory, RANGE, 0), ACRE_ERR_DEVICE);
    EXPECT_EQ(acre_sim_fault_disarm(bed.backend), 1);
    REQUIRE_OK(acre_file_load(file, device, memory, RANGE, 0));
    acre_file_close(file);
    stop();
}

/* ---- No room ---------------------------------------------------------------------- */

/* In a child of its own: files may have 16 pages. */
static void save_beyond_the_limit(void *arg)
{
    const struct rlimit limit = {16 * PAGE, 16 * PAGE};
    acre_file *file;

    (void)arg;
    start();
    signal(SIGXFSZ, SIG_IGN);
    REQUIRE_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    for (int engine = ACRE_FILE_PLAIN; engine <= ACRE_FILE_URING; engine++) {
        if (!engine_is_there((acre_file_engine)engine))
            continue;
        file = file_new("limit", (acre_file_engine)engine);
        REQUIRE_OK(acre_file_save(file, device, memory, 16 * PAGE, 0));
        EXPECT_EQ(acre_file_save(file, device, memory, 17 * PAGE, 0), ACRE_ERR_LIMIT);
        EXPECT_HAS(acre_last_error(), "limit: ");
        EXPECT_LE(info_of(file).bytes, 16 * PAGE);
        EXPECT_EQ(acre_file_load(file, device, memory, 17 * PAGE, 0), ACRE_ERR_IO);
        REQUIRE_OK(acre_file_load(file, device, memory, 16 * PAGE, 0));
        acre_file_close(file);
    }
}

TEST(a_limit_on_sizes_is_told)
{
    files_path("limit"); /* the folder is the parent's */
    EXPECT_EQ(t_child(save_beyond_the_limit, NULL), 0);
}

/* In a child with mounts of its own: a disk of 16 pages. Status 77: no right to mount. */
static void save_beyond_the_disk(void *path)
{
    const acre_file_config config = {.struct_size = sizeof config, .block_bytes = PAGE,
                                     .flags = ACRE_FILE_MAY_BUFFER};
    char name[300];
    acre_file *file;

    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("acre", path, "tmpfs", 0, "size=64k") != 0)
        _exit(77);
    start();
    snprintf(name, sizeof name, "%s/full", (char *)path);
    REQUIRE_OK(acre_file_open(name, O_RDWR | O_CREAT, &config, &file));
    REQUIRE_OK(acre_file_save(file, device, memory, 8 * PAGE, 0));
    EXPECT_EQ(acre_file_save(file, device, memory, 32 * PAGE, 8 * PAGE), ACRE_ERR_LIMIT);
    EXPECT_HAS(acre_last_error(), "nothing was written");
    EXPECT_EQ(acre_last_native(), ENOSPC);
    EXPECT_EQ(info_of(file).bytes, 8 * PAGE);
    clear_memory();
    REQUIRE_OK(acre_file_load(file, device, memory, 8 * PAGE, 0));
    expect_memory(memory, pattern, 8 * PAGE);
    acre_file_close(file);
}

TEST(a_full_disk_is_noticed_before_anything_is_written)
{
    const char *path = files_path("disk");

    REQUIRE_EQ(mkdir(path, 0700), 0);
    int state = t_child(save_beyond_the_disk, (void *)(uintptr_t)path);
    if (WIFEXITED(state) && WEXITSTATUS(state) == 77)
        T_SKIP("this user may not mount a small disk");
    EXPECT_EQ(state, 0);
}

/* ---- A system that forbids io_uring ------------------------------------------------- */

static void save_where_rings_are_forbidden(void *arg)
{
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {sizeof rules / sizeof rules[0], rules};
    const acre_file_config ring = {.struct_size = sizeof ring, .engine = ACRE_FILE_URING,
                                   .flags = ACRE_FILE_MAY_BUFFER};
    acre_file *file;

    (void)arg;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(77);
    start();
    EXPECT_EQ(acre_file_open(files_path("forbidden"), O_RDWR | O_CREAT, &ring, &file),
              ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "ACRE_FILE_PLAIN");
    file = file_new("forbidden", ACRE_FILE_AUTO);
    EXPECT_EQ(info_of(file).engine, ACRE_FILE_PLAIN);
    REQUIRE_OK(acre_file_save(file, device, memory, RANGE, 0));
    clear_memory();
    REQUIRE_OK(acre_file_load(file, device, memory, RANGE, 0));
    expect_memory(memory, pattern, RANGE);
    acre_file_close(file);
}

TEST(where_io_uring_is_forbidden_files_are_read_and_written_plainly)
{
    files_path("forbidden"); /* the folder is the parent's */
    int state = t_child(save_where_rings_are_forbidden, NULL);
    if (WIFEXITED(state) && WEXITSTATUS(state) == 77)
        T_SKIP("this system has no filters of calls");
    EXPECT_EQ(state, 0);
}

T_MAIN()
