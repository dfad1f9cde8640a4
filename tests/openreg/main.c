/* SPDX-License-Identifier: MIT */
/* Runs the tests with an ACRE_SIM that would change everything if it were read,
 * and without OPENREG_SIM unless a test started this program with one. */
#include "tests/openreg/support.h"

int main(int argc, char **argv)
{
    setenv("ACRE_SIM", "devices:5,memory:1MiB,fail:alloc@1", 1);
    if (!getenv("OPENREG_TEST_CHILD"))
        unsetenv("OPENREG_SIM");
    return t_main(argc, argv);
}
