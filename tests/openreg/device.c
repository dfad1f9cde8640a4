/* SPDX-License-Identifier: MIT */
/* D1 to D5: devices and threads; configuration, fork, layout. */
#include "tests/openreg/support.h"

#include <stddef.h>
#include <sys/wait.h>

TEST(D1_there_are_two_devices)
{
    int count = -7;

    OK(orGetDeviceCount(&count));
    EXPECT_EQ(count, 2);
    REFUSED(orGetDeviceCount(NULL));
}

struct seen {
    int at_start, after_set;
};

static void look_and_set(void *arg)
{
    struct seen *seen = (struct seen *)arg;

    orGetDevice(&seen->at_start);
    orSetDevice(1);
    orGetDevice(&seen->after_set);
}

TEST(D2_a_fresh_thread_starts_on_device_0)
{
    struct seen seen = {-1, -1};
    int mine = -1;

    OK(orSetDevice(1));
    on_thread(look_and_set, &seen);
    EXPECT_EQ(seen.at_start, 0);
    EXPECT_EQ(seen.after_set, 1);
    OK(orSetDevice(0));
    on_thread(look_and_set, &seen);
    OK(orGetDevice(&mine));
    EXPECT_EQ(mine, 0);
}

TEST(D3_bad_devices_change_nothing)
{
    int mine = -1;

    OK(orSetDevice(1));
    REFUSED(orSetDevice(-1));
    REFUSED(orSetDevice(2));
    REFUSED(orSetDevice(1 << 30));
    OK(orGetDevice(&mine));
    EXPECT_EQ(mine, 1);
    REFUSED(orGetDevice(NULL));
    OK(orSetDevice(0));
}

TEST(D4_priorities_are_0_and_1)
{
    int least = -1, greatest = -1;

    OK(orDeviceGetStreamPriorityRange(&least, &greatest));
    EXPECT_EQ(least, 0);
    EXPECT_EQ(greatest, 1);
    REFUSED(orDeviceGetStreamPriorityRange(NULL, &greatest));
    REFUSED(orDeviceGetStreamPriorityRange(&least, NULL));
    REFUSED(orDeviceGetStreamPriorityRange(NULL, NULL));
}

/* Also after another task, maybe on the same thread, chose another device. */
TEST(D5_a_task_sees_device_0)
{
    orStream_t stream = new_stream(1);
    struct seen first = {-1, -1}, second = {-1, -1};
    int mine = -1;

    OK(orSetDevice(1));
    OK(orLaunchHostFunc(stream, look_and_set, &first));
    OK(orLaunchHostFunc(stream, look_and_set, &second));
    OK(orStreamSynchronize(stream));
    EXPECT_EQ(first.at_start, 0);
    EXPECT_EQ(first.after_set, 1);
    EXPECT_EQ(second.at_start, 0);
    OK(orGetDevice(&mine));
    EXPECT_EQ(mine, 1);
    OK(orSetDevice(0));
    OK(orStreamDestroy(stream));
}

TEST(values_and_layout_are_those_of_openreg)
{
    EXPECT_EQ(orSuccess, 0);
    EXPECT_EQ(orErrorUnknown, 1);
    EXPECT_EQ(orErrorNotReady, 2);
    EXPECT_EQ(orMemcpyHostToHost, 0);
    EXPECT_EQ(orMemcpyHostToDevice, 1);
    EXPECT_EQ(orMemcpyDeviceToHost, 2);
    EXPECT_EQ(orMemcpyDeviceToDevice, 3);
    EXPECT_EQ(orMemoryTypeUnmanaged, 0);
    EXPECT_EQ(orMemoryTypeHost, 1);
    EXPECT_EQ(orMemoryTypeDevice, 2);
    EXPECT_EQ(orEventDisableTiming, 0);
    EXPECT_EQ(orEventEnableTiming, 1);
    EXPECT_EQ(sizeof(orError_t), 4);
    EXPECT_EQ(sizeof(orMemcpyKind), 4);
    EXPECT_EQ(sizeof(orMemoryType), 4);
    EXPECT_EQ(offsetof(orPointerAttributes, type), 0);
    EXPECT_EQ(offsetof(orPointerAttributes, device), 4);
    EXPECT_EQ(offsetof(orPointerAttributes, pointer), 8);
    EXPECT_EQ(sizeof(orPointerAttributes), 8 + sizeof(void *));
    EXPECT_EQ(sizeof(orStream_t), sizeof(void *));
    EXPECT_EQ(sizeof(orEvent_t), sizeof(void *));
}

/* Runs one test of this program anew with another configuration. */
static int run_self(const char *test, const char *configuration)
{
    int status = -1;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        setenv("OPENREG_TEST_CHILD", "1", 1);
        setenv("OPENREG_SIM", configuration, 1);
        execl("/proc/self/exe", "openreg", test, (char *)NULL);
        _exit(99);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(OPENREG_SIM_configures_the_devices)
{
    T_NEEDS("a program that starts itself");
    void *block = NULL;
    int count = 0;

    if (!getenv("OPENREG_TEST_CHILD")) {
        EXPECT_EQ(run_self("OPENREG_SIM_configures_the_devices", "devices:3,memory:4MiB"), 0);
        return;
    }
    OK(orGetDeviceCount(&count));
    EXPECT_EQ(count, 3);
    OK(orSetDevice(2));
    REFUSED(orMalloc(&block, 5 << 20));
    OK(orMalloc(&block, 3 << 20));
    OK(orFree(block));
}

TEST(a_bad_configuration_refuses_every_call)
{
    T_NEEDS("a program that starts itself");
    void *block = NULL;
    orStream_t stream = NULL;
    int count = 7;

    if (!getenv("OPENREG_TEST_CHILD")) {
        EXPECT_EQ(run_self("a_bad_configuration_refuses_every_call", "devices:none"), 0);
        return;
    }
    REFUSED(orGetDeviceCount(&count));
    EXPECT_EQ(count, 7);
    REFUSED(orMalloc(&block, 1));
    REFUSED(orStreamCreate(&stream));
    REFUSED(orDeviceSynchronize());
}

static void use_in_child(void *arg)
{
    orStream_t stream = *(orStream_t *)arg, other = NULL;
    void *block = NULL;
    int number = 0;

    REFUSED(orMalloc(&block, 1));
    REFUSED(orStreamCreate(&other));
    REFUSED(orLaunchHostFunc(stream, count_task, &number));
    REFUSED(orStreamSynchronize(stream));
    REFUSED(orDeviceSynchronize());
}

TEST(a_child_of_fork_is_refused)
{
    orStream_t stream = new_stream(0);

    EXPECT_EQ(t_child(use_in_child, &stream), 0);
    OK(orStreamDestroy(stream));
}
