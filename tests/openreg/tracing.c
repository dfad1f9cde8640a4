/* SPDX-License-Identifier: MIT */
/* D55 to D57: activity tracing. */
#include "tests/openreg/support.h"

static uint64_t pop(void)
{
    uint64_t id = 12345;

    OK(orActivityPopExternalCorrelationId(&id));
    return id;
}

TEST(D55_the_stack_gives_back_in_reverse)
{
    OK(orActivityPushExternalCorrelationId(42));
    OK(orActivityPushExternalCorrelationId(99));
    EXPECT_EQ(pop(), 99);
    EXPECT_EQ(pop(), 42);
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(pop(), 0);
    OK(orActivityPushExternalCorrelationId(7));
    OK(orActivityPopExternalCorrelationId(NULL));
    OK(orActivityPopExternalCorrelationId(NULL));
    EXPECT_EQ(pop(), 0);
}

TEST(D55_the_stack_is_deep)
{
    for (uint64_t i = 1; i <= 1000; i++)
        OK(orActivityPushExternalCorrelationId(i | UINT64_C(1) << 63));
    for (uint64_t i = 1000; i >= 1; i--)
        REQUIRE(pop() == (i | UINT64_C(1) << 63));
    EXPECT_EQ(pop(), 0);
}

static void pop_elsewhere(void *arg)
{
    *(uint64_t *)arg = pop();
    OK(orActivityPushExternalCorrelationId(5)); /* goes with its thread */
}

TEST(D56_the_stack_is_of_the_thread)
{
    uint64_t there = 77;

    OK(orActivityPushExternalCorrelationId(42));
    on_thread(pop_elsewhere, &there);
    EXPECT_EQ(there, 0);
    EXPECT_EQ(pop(), 42);
    EXPECT_EQ(pop(), 0);
}

static void enable(void *arg)
{
    (void)arg;
    OK(orActivityEnableTracing());
}

TEST(D57_the_flag_changes_nothing)
{
    OK(orActivityEnableTracing());
    OK(orActivityEnableTracing());
    OK(orActivityPushExternalCorrelationId(1));
    OK(orActivityDisableTracing());
    OK(orActivityDisableTracing());
    OK(orActivityPushExternalCorrelationId(2));
    on_thread(enable, NULL);
    EXPECT_EQ(pop(), 2);
    EXPECT_EQ(pop(), 1);
    OK(orActivityDisableTracing());
    EXPECT_EQ(pop(), 0);
}
