/* SPDX-License-Identifier: MIT */
/** @file output.h
 *  @brief Files that appear whole or not at all.
 *
 * Everything that Acre writes into files goes through this writer. Bytes go to a file without a
 * name in the folder of the wanted one; it takes its name when it is whole. A failure, a full
 * disk or a signal leaves what was there before, and nothing else.
 *
 *     acre_output *output;
 *     if (acre_output_open("table.csv", &output) == ACRE_OK) {
 *         fprintf(acre_output_stream(output), "a,b\n");
 *         if (acre_output_finish(output) != ACRE_OK)
 *             puts(acre_last_error());
 *     }
 *
 * The mode of a new file follows the umask; the mode of an existing file is kept. A symbolic
 * link is followed to its target if nobody else may write the folder of the link, or only a group
 * may and the link is the user's own; it is refused otherwise. Pipes, terminals and devices are
 * written to directly. A name that ends with ".gz" is compressed only where the caller of another
 * function asks for that, never here.
 *
 * Threads: one at a time per output.
 *
 * Fork: an output is the parent's; a child must neither write to it nor finish it.
 */
#ifndef ACRE_OUTPUT_H
#define ACRE_OUTPUT_H

#include <acre/base.h>

#include <stddef.h>
#include <stdio.h>

ACRE_BEGIN_DECLS

/** A file being written. */
typedef struct acre_output acre_output;

/** Begins a file; "-" is standard output.
 *
 *  Errors: ACRE_ERR_INVALID, ACRE_ERR_HOST_MEMORY, ACRE_ERR_IO, ACRE_ERR_REJECTED (a link, pipe
 *  or device that may be another user's).
 */
ACRE_API acre_status acre_output_open(const char *path, acre_output **out);

/** The stream to print to. It belongs to the output and must not be closed. Failures of it need
 *  no look: acre_output_finish reports the first. */
ACRE_API FILE *acre_output_stream(acre_output *output);

/** Writes what is left and gives the file its name. The output is gone in any case.
 *
 *  Errors: ACRE_ERR_IO (a full disk is named as such), ACRE_ERR_LIMIT (acre_output_limit_set); then
 *  what was there before stays.
 */
ACRE_API acre_status acre_output_finish(acre_output *output);

/** Drops the output. What was there before stays. NULL is fine. */
ACRE_API void acre_output_abandon(acre_output *output);

/** Removes the temporary names of all outputs under way, for a handler of signals that end the
 *  process; async-signal-safe. Only file systems without O_TMPFILE need it. */
ACRE_API void acre_output_abandon_all(void);

/** Limits what is written into each file from now on, in bytes before compression; 0: no limit
 *  (default).
 *
 * For programs that convert files of strangers: a pickle that refers to one long string many times
 * becomes a JSON file thousands of times as large. A file that would be larger than the limit
 * fails with ACRE_ERR_LIMIT, and what was there before stays.
 * Threads: any.
 */
ACRE_API void acre_output_limit_set(uint64_t bytes);

/** Refuses an output that is one of the inputs, under whatever name.
 *
 *  Errors: ACRE_ERR_INVALID (they are one file), with a sentence that names both.
 */
ACRE_API acre_status acre_output_check(const char *output, const char *const *inputs,
                                       size_t count);

ACRE_END_DECLS

#endif
