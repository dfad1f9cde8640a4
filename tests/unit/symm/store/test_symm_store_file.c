/* SPDX-License-Identifier: MIT */
/* Stores in a file; processes are forked where it matters. */
#include "tests/unit/symm/store/store_suite.h"

#include "symm/store/store.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char path[64];

static void store_begin(void)
{
    snprintf(path, sizeof path, "/tmp/acre-store-%d", (int)getpid());
    unlink(path);
}

static acre_store *store_open(void)
{
    acre_store *store;

    REQUIRE_OK(acre_store_open_file(path, 0, &store));
    return store;
}

static void store_end(void)
{
    unlink(path);
    EXPECT_EQ(heap_live_count(), 0);
}

TEST(S82_add_of_several_processes_sums_exactly)
{
    expect_processes_sum();
}

static void child(void *arg)
{
    acre_store *store;

    (void)arg;
    REQUIRE_OK(acre_store_open_file(path, 2, &store));
    expect_text(store, "from parent", "1");
    set_text(store, "from child", "2");
    set_text(store, "gone", "3");
    REQUIRE_OK(acre_store_delete(store, "gone", NULL));
    acre_store_destroy(store);
}

TEST(S86_two_processes_see_each_other_and_the_last_removes_the_file)
{
    acre_store *store;
    acre_blob blob;
    struct stat stat_buffer;

    store_begin();
    REQUIRE_OK(acre_store_open_file(path, 2, &store));
    set_text(store, "from parent", "1");
    EXPECT_EQ(t_child(child, NULL), 0);
    expect_text(store, "from child", "2");
    REQUIRE_OK(acre_store_set_timeout(store, 10));
    EXPECT_EQ(acre_store_get(store, "gone", &blob), ACRE_ERR_TIMEOUT);
    EXPECT_EQ(stat(path, &stat_buffer), 0);
    EXPECT_EQ(stat_buffer.st_mode & 0777, 0600);
    acre_store_destroy(store);
    EXPECT(stat(path, &stat_buffer) != 0);
    store_end();
}

static void store_leave(void *store)
{
    acre_store_destroy(store);
}

TEST(a_child_that_destroys_what_it_inherits_counts_for_nothing)
{
    acre_store *store;

    store_begin();
    REQUIRE_OK(acre_store_open_file(path, 2, &store));
    EXPECT_EQ(t_child(store_leave, store), 0);
    acre_store_destroy(store); /* the first of two */
    EXPECT(access(path, F_OK) == 0);
    store_end();
}

TEST(S86_a_record_that_is_cut_short_is_an_error)
{
    struct stat stat_buffer;
    acre_store *second;

    store_begin();
    acre_store *store = store_open();
    set_text(store, "k", "value");
    EXPECT_EQ(stat(path, &stat_buffer), 0);
    for (off_t bytes = stat_buffer.st_size - 1; bytes > 8; bytes--) {
        REQUIRE(truncate(path, bytes) == 0);
        EXPECT_EQ(acre_store_open_file(path, 0, &second), ACRE_ERR_FORMAT);
    }
    REQUIRE(truncate(path, 5) == 0);
    EXPECT_EQ(acre_store_open_file(path, 0, &second), ACRE_ERR_FORMAT);
    acre_store_destroy(store);
    store_end();
}

TEST(a_file_that_is_cut_under_those_who_read_it_is_an_error)
{
    struct stat stat_buffer;
    acre_blob blob;

    store_begin();
    acre_store *store = store_open();
    set_text(store, "k", "value");
    EXPECT_EQ(stat(path, &stat_buffer), 0);
    for (off_t bytes = stat_buffer.st_size - 1; bytes >= 0; bytes -= 7) {
        REQUIRE(truncate(path, bytes) == 0);
        EXPECT_EQ(acre_store_get(store, "k", &blob), ACRE_ERR_FORMAT);
        EXPECT_HAS(acre_last_error(), "somebody cut it");
        EXPECT_EQ(acre_store_set(store, "k", "x", 1), ACRE_ERR_FORMAT);
        EXPECT_EQ(stat(path, &stat_buffer), 0);
        EXPECT_EQ(stat_buffer.st_size, bytes); /* no hole that others take for records */
    }
    acre_store_destroy(store);
    store_end();
}

static void fill_up(void *arg)
{
    static char large[3000];
    struct rlimit limit = {5000, 5000};
    struct stat stat_buffer;
    int64_t sum;

    (void)arg;
    store_begin();
    acre_store *store = store_open();
    REQUIRE_OK(acre_store_set(store, "a", large, sizeof large));
    signal(SIGXFSZ, SIG_IGN);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    EXPECT_EQ(stat(path, &stat_buffer), 0);
    EXPECT_EQ(acre_store_set(store, "b", large, sizeof large), ACRE_ERR_IO);
    EXPECT_HAS(acre_last_error(), "File too large");
    off_t before = stat_buffer.st_size;
    EXPECT_EQ(stat(path, &stat_buffer), 0);
    EXPECT_EQ(stat_buffer.st_size, before);
    REQUIRE_OK(acre_store_add(store, "n", 1, &sum));
    EXPECT_EQ(sum, 1);
    acre_store_destroy(store);
    store_end();
}

TEST(a_write_that_fits_in_part_says_why_and_leaves_nothing)
{
    EXPECT_EQ(t_child(fill_up, NULL), 0);
}

TEST(links_and_folders_are_refused)
{
    acre_store *store;
    char link[80];

    store_begin();
    snprintf(link, sizeof link, "%s-link", path);
    unlink(link);
    REQUIRE(symlink(path, link) == 0);
    EXPECT_EQ(acre_store_open_file(link, 0, &store), ACRE_ERR_IO);
    unlink(link);
    EXPECT_EQ(acre_store_open_file("/tmp", 0, &store), ACRE_ERR_IO);
    EXPECT_EQ(acre_store_open_file("/dev/zero", 0, &store), ACRE_ERR_REJECTED);
    store_end();
}

/* A rank that was stopped while it holds the lock: here another descriptor of the test. */
static int lock_hold(void)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);

    REQUIRE(fd >= 0 && flock(fd, LOCK_EX) == 0);
    return fd;
}

TEST(a_lock_that_is_never_given_back_ends_at_the_deadline_and_is_named)
{
    acre_store *second;
    char text[64];

    store_begin();
    acre_store *store = store_open();
    set_text(store, "k", "value");
    int fd = lock_hold();
    REQUIRE_OK(acre_store_set_timeout(store, 30));
    EXPECT_EQ(acre_store_set(store, "k", "x", 1), ACRE_ERR_TIMEOUT);
    snprintf(text, sizeof text, "process %d held the lock", (int)getpid());
    EXPECT_HAS(acre_last_error(), text);
    EXPECT_EQ(acre_store_delete(store, "k", NULL), ACRE_ERR_TIMEOUT);
    REQUIRE_OK(acre_store_open_file(path, 0, &second)); /* opening needs no lock */
    close(fd);
    expect_text(store, "k", "value");
    expect_text(second, "k", "value");
    acre_store_destroy(second);
    acre_store_destroy(store);
    store_end();
}

/* The descriptor by which this process has the file open. */
static int descriptor_of_file(void)
{
    char link[64], target[256];

    for (int fd = 3; fd < 256; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t bytes = readlink(link, target, sizeof target - 1);
        target[bytes > 0 ? bytes : 0] = 0;
        if (strcmp(target, path) == 0)
            return fd;
    }
    return -1;
}

static int stay[2]; /* children of fork stay until its writing end is closed */

static void child_stays(void *arg)
{
    char byte;

    (void)arg;
    close(stay[1]);
    EXPECT_EQ(read(stay[0], &byte, 1), 0);
}

/* Is killed while it has the lock and a child. */
static void lock_and_die(void *arg)
{
    acre_store *store = store_open();
    int fd = descriptor_of_file();

    (void)arg;
    set_text(store, "k", "value");
    REQUIRE(fd >= 0 && flock(fd, LOCK_EX) == 0);
    REQUIRE(t_start(child_stays, NULL) > 0);
    raise(SIGKILL);
}

TEST(the_child_of_a_killed_process_does_not_hold_its_lock)
{
    store_begin();
    REQUIRE(pipe(stay) == 0);
    int status = t_child(lock_and_die, NULL);
    EXPECT(WIFSIGNALED(status));
    acre_store *store = store_open();
    REQUIRE_OK(acre_store_set_timeout(store, 20000));
    expect_text(store, "k", "value");
    acre_store_destroy(store);
    close(stay[0]);
    close(stay[1]);
    store_end();
}

static void *patient_set(void *store)
{
    return acre_store_set(store, "k", "2", 1) == ACRE_OK ? store : NULL;
}

TEST(a_patient_thread_does_not_hold_an_impatient_one)
{
    pthread_t thread;
    void *result;
    bool is_there;
    const char *key = "k";

    store_begin();
    acre_store *store = store_open();
    int fd = lock_hold();
    REQUIRE(pthread_create(&thread, NULL, patient_set, store) == 0);
    EXPECT_EQ(acre_store_wait(store, &key, 1, 50), ACRE_ERR_TIMEOUT);
    EXPECT_EQ(store_check_until(store, key, 0, &is_there), ACRE_ERR_TIMEOUT);
    close(fd);
    REQUIRE(pthread_join(thread, &result) == 0);
    EXPECT_PTR_EQ(result, store);
    acre_store_destroy(store);
    store_end();
}

TEST(a_store_that_is_locked_closes_anyway)
{
    acre_store *store;

    store_begin();
    REQUIRE_OK(acre_store_open_file(path, 1, &store));
    int fd = lock_hold();
    acre_store_destroy(store);
    EXPECT_EQ(access(path, F_OK), 0); /* nobody could count the workers */
    close(fd);
    store_end();
}

T_MAIN()
