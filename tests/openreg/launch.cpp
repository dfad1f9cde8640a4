/* SPDX-License-Identifier: MIT */
/* The two C++ entry points: closures and kernels on streams. */
#include "tests/openreg/support.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

TEST(D34_addTaskToStream_refuses_null_and_empty)
{
    orStream_t stream = new_stream(0);
    std::atomic<int> number(0);

    REFUSED(openreg::addTaskToStream(nullptr, [&] { number++; }));
    REFUSED(openreg::addTaskToStream(stream, std::function<void()>()));
    REFUSED(orLaunchKernel(nullptr, [&] { number++; }));
    OK(orStreamDestroy(stream));
    REFUSED(openreg::addTaskToStream(stream, [&] { number++; }));
    REFUSED(orLaunchKernel(stream, [&](int) { number++; }, 3));
    EXPECT_EQ(number.load(), 0);
}

TEST(D32_closures_run_in_order)
{
    orStream_t stream = new_stream(1);
    std::vector<int> seen;

    for (int i = 0; i < 1000; i++)
        OK(openreg::addTaskToStream(stream, [&seen, i] { seen.push_back(i); }));
    OK(orStreamSynchronize(stream));
    REQUIRE_EQ(seen.size(), 1000);
    for (int i = 0; i < 1000; i++)
        EXPECT_EQ(seen[static_cast<size_t>(i)], i);
    OK(orStreamDestroy(stream));
}

/* What a closure holds is let go of after it ran, and when it is refused. */
TEST(closures_are_let_go_of)
{
    orStream_t stream = new_stream(0);
    std::shared_ptr<int> held = std::make_shared<int>(3);
    std::atomic<int> sum(0);

    OK(openreg::addTaskToStream(stream, [held, &sum] { sum += *held; }));
    OK(orLaunchKernel(stream, [&sum](std::shared_ptr<int> p) { sum += *p; }, held));
    OK(orStreamSynchronize(stream));
    EXPECT_EQ(sum.load(), 6);
    OK(orStreamDestroy(stream));
    REFUSED(orLaunchKernel(stream, [](std::shared_ptr<int>) {}, held));
    REFUSED(openreg::addTaskToStream(stream, [held] {}));
    EXPECT_EQ(held.use_count(), 1);
}

static void add_kernel(const int *a, const int *b, int *sum, int count)
{
    for (int i = 0; i < count; i++)
        sum[i] = a[i] + b[i];
}

TEST(a_kernel_works_on_open_device_memory)
{
    orStream_t stream = new_stream(0);
    int a[100], b[100], sum[100];
    void *block[3];

    for (int i = 0; i < 100; i++) {
        a[i] = i;
        b[i] = 1000 * i;
    }
    for (int i = 0; i < 3; i++)
        OK(orMalloc(&block[i], sizeof a));
    OK(orMemcpyAsync(block[0], a, sizeof a, orMemcpyHostToDevice, stream));
    OK(orMemcpyAsync(block[1], b, sizeof b, orMemcpyHostToDevice, stream));
    for (int i = 0; i < 3; i++)
        OK(orMemoryUnprotect(block[i]));
    OK(orLaunchKernel(stream, add_kernel, static_cast<int *>(block[0]),
                      static_cast<int *>(block[1]), static_cast<int *>(block[2]), 100));
    OK(orMemcpyAsync(sum, block[2], sizeof sum, orMemcpyDeviceToHost, stream));
    OK(orStreamSynchronize(stream));
    for (int i = 0; i < 100; i++)
        EXPECT_EQ(sum[i], 1001 * i);
    for (int i = 0; i < 3; i++) {
        OK(orMemoryProtect(block[i]));
        OK(orFree(block[i]));
    }
    OK(orStreamDestroy(stream));
}

TEST(D41_kernel_arguments_are_copied_at_launch)
{
    struct door door = DOOR_INITIALIZER;
    orStream_t stream = new_stream(0);
    std::string text = "before", seen;
    int value = 1, value_seen = 0;

    OK(orLaunchHostFunc(stream, door_pass, &door));
    OK(orLaunchKernel(
        stream,
        [&seen, &value_seen](const std::string &given, int number) {
            seen = given;
            value_seen = number;
        },
        text, value));
    text = "after";
    value = 2;
    door_open(&door);
    OK(orStreamSynchronize(stream));
    EXPECT_STR_EQ(seen.c_str(), "before");
    EXPECT_EQ(value_seen, 1);
    OK(orStreamDestroy(stream));
}

static int twice(int value)
{
    return 2 * value;
}

TEST(kernels_of_every_shape)
{
    orStream_t stream = new_stream(0);
    std::atomic<int> sum(0);
    std::unique_ptr<int> owned(new int(5));
    auto add = [&sum](int value) { sum += value; };

    OK(orLaunchKernel(stream, add, 1));
    OK(orLaunchKernel(stream, [&sum] { sum += 10; }));
    OK(orLaunchKernel(stream, [&sum](std::unique_ptr<int> p) { sum += 20 * *p; },
                      std::move(owned)));
    OK(orLaunchKernel(stream, [&sum](int &own) { sum += ++own; }, 999));
    OK(orLaunchKernel(stream, twice, 4)); /* a result is dropped */
    OK(orLaunchKernel(stream, std::function<void(int)>(add), 10000));
    OK(orStreamSynchronize(stream));
    EXPECT_EQ(sum.load(), 11111);
    OK(orStreamDestroy(stream));
}
