/* SPDX-License-Identifier: MIT */
/* Stores in a file; processes are forked where it matters. */
#include "tests/unit/symm/store/store_suite.h"

#include <fcntl.h>
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

T_MAIN()
