/* SPDX-License-Identifier: MIT */
/* The table of docs/FEATURES.md: one section for each backend.
 *
 *   table_head   what the table says       test_features
 *   ## sim       table_section("sim")      test_features
 *   ...
 *   ## opencl    table_section("opencl")   test_features_opencl
 *   table_tail   reasons                   test_features
 *
 * Each program compares its pieces with the file. With ACRE_FEATURES_WRITE=1 it writes them there
 * and leaves the others. */
#ifndef TESTS_SUPPORT_TABLE_H
#define TESTS_SUPPORT_TABLE_H

/* Runs every feature alone and every pair on every kind of memory of a backend; the section is then
 * compared. Skips the test where there is no such backend. */
void table_section(const char *backend);
/* Compares what stands before and after the sections. */
void table_head(void);
void table_tail(void);

#endif
