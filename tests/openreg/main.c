/* SPDX-License-Identifier: MIT */
/* Runs the tests with an ACRE_SIM that would change everything if it were read,
 * and without OPENREG_SIM unless a test started this program with one. */
#include "tests/openreg/support.h"

/* The devices of libopenreg live as long as the process, and so does the record
 * of its last worker thread; ThreadSanitizer would call that a leak. */
#ifdef __cplusplus
extern "C"
#endif
const char *__tsan_default_options(void);

const char *__tsan_default_options(void)
{
    return "report_thread_leaks=0";
}

int main(int argc, char **argv)
{
    setenv("ACRE_SIM", "devices:5,memory:1MiB,fail:alloc@1", 1);
    if (!getenv("OPENREG_TEST_CHILD"))
        unsetenv("OPENREG_SIM");
    return t_main(argc, argv);
}
