/* SPDX-License-Identifier: MIT */
/* How much host memory a command may take for the files it reads.
 *
 * Compressed files of a few kilobytes can describe gigabytes. Without --memory the limit is 256 MiB
 * and five hundred times the size of all files that are named, and half of the machine at most.
 */
#ifndef CLI_MEMORY_H
#define CLI_MEMORY_H

#include <stdbool.h>

/* Takes --memory out of the arguments of a command that reads files, and sets the limit. False,
 * and it is said on standard error, when the size cannot be understood. */
bool memory_limit(int *argc, char **argv);

#endif
