/* SPDX-License-Identifier: MIT */
/* Groups that the environment describes. */
#include "symm/team/group.h"

#include "tests/support/t.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void clear(void)
{
    static const char *const names[] = {
        "ACRE_RANK", "ACRE_WORLD_SIZE", "ACRE_STORE", "RANK", "WORLD_SIZE", "MASTER_ADDR",
        "MASTER_PORT", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_SIZE"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
}

TEST(without_anything_it_is_a_world_of_one)
{
    acre_group *group;

    clear();
    REQUIRE_OK(acre_group_create_env("world", &group));
    EXPECT_EQ(acre_group_rank(group), 0);
    EXPECT_EQ(acre_group_world_size(group), 1);
    REQUIRE_OK(acre_group_barrier(group));
    acre_group_destroy(group);
}

TEST(bad_variables_are_named)
{
    acre_group *group;

    clear();
    setenv("ACRE_RANK", "two", 1);
    EXPECT_EQ(acre_group_create_env("world", &group), ACRE_ERR_CONFIG);
    EXPECT_HAS(acre_last_error(), "ACRE_RANK=two");
    setenv("ACRE_RANK", "0", 1);
    setenv("WORLD_SIZE", "2", 1);
    EXPECT_EQ(acre_group_create_env("world", &group), ACRE_ERR_CONFIG);
    EXPECT_HAS(acre_last_error(), "MASTER_ADDR");
    setenv("ACRE_STORE", "nonsense", 1);
    EXPECT_EQ(acre_group_create_env("world", &group), ACRE_ERR_CONFIG);
    setenv("ACRE_STORE", "local", 1);
    setenv("ACRE_RANK", "5", 1);
    EXPECT_EQ(acre_group_create_env("world", &group), ACRE_ERR_RANGE);
    clear();
}

/* Two children of one parent, as mpirun would start them. */
static void child(void *arg)
{
    acre_group *group;

    setenv(*(int *)arg < 2 ? "OMPI_COMM_WORLD_RANK" : "PMI_RANK", *(int *)arg % 2 ? "1" : "0", 1);
    setenv(*(int *)arg < 2 ? "OMPI_COMM_WORLD_SIZE" : "PMI_SIZE", "2", 1);
    REQUIRE_OK(acre_group_create_env("world", &group));
    EXPECT_EQ(acre_group_rank(group), *(int *)arg % 2);
    REQUIRE_OK(acre_group_barrier(group));
    acre_group_destroy(group);
}

TEST(ranks_of_mpirun_meet_by_their_parent)
{
    for (int first = 0; first < 4; first += 2) {
        int ranks[2] = {first, first + 1};
        pid_t pids[2];

        clear();
        for (int i = 0; i < 2; i++)
            pids[i] = t_start(child, &ranks[i]);
        for (int i = 0; i < 2; i++)
            EXPECT_EQ(t_join(pids[i]), 0);
    }
}

/* A rank that is killed after all have come. */
static void child_dies(void *arg)
{
    acre_group *group;

    setenv("PMI_RANK", *(int *)arg ? "1" : "0", 1);
    setenv("PMI_SIZE", "2", 1);
    REQUIRE_OK(acre_group_create_env("world", &group));
    REQUIRE_OK(acre_group_barrier(group));
    raise(SIGKILL);
}

static int file_count(const char *folder)
{
    DIR *list = opendir(folder);
    struct dirent *entry;
    int count = 0;

    REQUIRE(list != NULL);
    while ((entry = readdir(list)))
        count += entry->d_name[0] != '.';
    closedir(list);
    return count;
}

static void file_make(const char *folder, const char *name, time_t age)
{
    struct timespec times[2] = {{time(NULL) - age, 0}, {time(NULL) - age, 0}};
    char path[300];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    REQUIRE(fd >= 0 && futimens(fd, times) == 0);
    close(fd);
}

TEST(no_file_of_a_job_stays)
{
    char folder[] = "/tmp/acre-env-XXXXXX", young[80], old[80], path[200];
    int ranks[2] = {0, 1};
    pid_t pids[2];

    clear();
    REQUIRE(mkdtemp(folder) != NULL);
    setenv("XDG_RUNTIME_DIR", folder, 1);
    snprintf(young, sizeof young, "acre-job-%u-%d-1", (unsigned)geteuid(), (int)getpid());
    snprintf(old, sizeof old, "acre-job-%u-%d-2", (unsigned)geteuid(), (int)getpid());
    file_make(folder, young, 0);
    file_make(folder, old, 100000);
    for (int i = 0; i < 2; i++)
        pids[i] = t_start(child_dies, &ranks[i]);
    for (int i = 0; i < 2; i++)
        EXPECT(t_join(pids[i]) != 0);
    EXPECT_EQ(file_count(folder), 1);
    snprintf(path, sizeof path, "%s/%s", folder, young);
    EXPECT_EQ(unlink(path), 0); /* it may belong to a job that is starting */
    EXPECT_EQ(rmdir(folder), 0);
    unsetenv("XDG_RUNTIME_DIR");
}

T_MAIN()
