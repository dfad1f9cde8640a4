/* SPDX-License-Identifier: MIT */
/* Files that a test writes: all in one folder, which goes at the end. */
#ifndef TESTS_SUPPORT_FILES_H
#define TESTS_SUPPORT_FILES_H

#include <stddef.h>

/* Writes bytes to a file of the test's own folder; gives its path, valid until
 * the eighth call after. */
const char *files_write(const char *name, const void *bytes, size_t count);
/* The path of a file there that need not exist. */
const char *files_path(const char *name);
/* Compresses bytes into a gzip file there by the gzip command; NULL without it. */
const char *files_gzip(const char *name, const void *bytes, size_t count);
/* Reads a whole file into a static buffer of 1 MiB; gives the count. */
size_t files_read(const char *path, const unsigned char **out);

#endif
