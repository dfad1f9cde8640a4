/* SPDX-License-Identifier: MIT */
#include "base/bits.h"

#include "base/check.h"
#include "tests/support/t.h"

#include <acre/base.h>

#include <signal.h>
#include <sys/wait.h>

TEST(powers_of_two)
{
    EXPECT(!is_power_of_two(0));
    for (unsigned i = 0; i < 64; i++) {
        uint64_t x = (uint64_t)1 << i;
        EXPECT(is_power_of_two(x));
        EXPECT(i < 2 ? 1 : !is_power_of_two(x - 1));
        EXPECT_EQ(bit_high(x), i);
        EXPECT_EQ(bit_low(x), i);
        EXPECT_EQ(bit_high(x | 1), i);
        EXPECT_EQ(bit_low(x | (uint64_t)1 << 63), i);
    }
}

TEST(rounding_never_wraps_to_something_small)
{
    EXPECT_EQ(round_up(0, 512), 0);
    EXPECT_EQ(round_up(1, 512), 512);
    EXPECT_EQ(round_up(512, 512), 512);
    EXPECT_EQ(round_up(513, 512), 1024);
    EXPECT_EQ(round_down(1023, 512), 512);
    EXPECT_EQ(round_down(511, 512), 0);
    EXPECT_EQ(round_up(UINT64_MAX - 511, 512), UINT64_MAX - 511);
    EXPECT_EQ(round_up(UINT64_MAX - 510, 512), 0);
    EXPECT_EQ(round_up(UINT64_MAX, 2 * MIB), 0);
    EXPECT_EQ(GIB, 1024 * MIB);
    EXPECT_EQ(MIB, 1024 * KIB);
}

static void fail_check(void *arg)
{
    freopen("/dev/null", "w", stderr);
    CHECK(arg);
}

TEST(a_fact_that_does_not_hold_aborts_where_checks_are_on)
{
    int status = t_child(fail_check, NULL);

    if (ACRE_CHECK >= 1)
        EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    else
        EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT_EQ(t_child(fail_check, &status), 0);
}

T_MAIN()
