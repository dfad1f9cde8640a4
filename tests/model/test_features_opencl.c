/* SPDX-License-Identifier: MIT */
/* The table of features on OpenCL; see test_features.c. */
#include "tests/support/features/table.h"
#include "tests/support/t.h"

TEST(every_cell_on_opencl)
{
    table_section("opencl");
}

T_MAIN()
