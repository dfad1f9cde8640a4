/* SPDX-License-Identifier: MIT */
/* Every kind of memory with every feature and every pair of features, on every backend that is
 * here: contents are verified, and each cell works or answers ACRE_ERR_UNSUPPORTED and changes
 * nothing. The table is compared with docs/FEATURES.md; ACRE_FEATURES_WRITE=1 writes it there.
 * OpenCL has a program of its own, and so have calls that fail (test_features_fault). */
#include "tests/support/features/table.h"
#include "tests/support/t.h"

TEST(the_file_says_what_the_table_means)
{
    table_head();
    table_tail();
}

TEST(every_cell_on_sim)
{
    table_section("sim");
}

TEST(every_cell_on_host)
{
    table_section("host");
}

TEST(every_cell_on_cuda)
{
    table_section("cuda");
}

TEST(every_cell_on_hip)
{
    table_section("hip");
}

T_MAIN()
