/* SPDX-License-Identifier: MIT */
/* Stacks of Python where there is no Python; tests/python has the other case. */
#include "tests/unit/hostmem/heap_make.h"

TEST(a_process_without_python_has_no_source)
{
    EXPECT_PTR_EQ(acre_context_python(), NULL);
}
T_MAIN()
