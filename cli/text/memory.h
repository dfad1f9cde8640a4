/* SPDX-License-Identifier: MIT */
/* How much host memory a command may take for the files it reads, and how large files may become
 * that it writes.
 *
 * Compressed files of a few kilobytes can describe gigabytes. Without --memory the limit is 256 MiB
 * and five hundred times the size of all files that are named, and half of the machine at most.
 *
 * A pickle that refers to one long string many times is as dangerous: JSON repeats the string. So
 * each file that is written, before compression, is limited to 256 MiB and five hundred times the
 * size of all files that are named, or by --output-limit. Pipes do not tell their length; what is
 * made of them has no limit.
 */
#ifndef CLI_MEMORY_H
#define CLI_MEMORY_H

#include <stdbool.h>

/* Takes --memory and --output-limit out of the arguments of a command that reads files, and sets
 * both limits. False,
 * and it is said on standard error, when the size cannot be understood. */
bool memory_limit(int *argc, char **argv);

#endif
