/* SPDX-License-Identifier: MIT */
/* A file that takes its name when it is whole.
 *
 * Bytes go to a file without a name in the folder of the wanted one (O_TMPFILE), which a killed
 * process leaves nowhere. Where the file system has none, to a name of random letters, opened
 * exclusively; newfile_abandon_all removes those and may be called from a signal handler.
 *
 *   mode       of an existing file it is kept, of a new one it is 0666 without the umask
 *   links      are followed only in folders that nobody else may write, and replaced nowhere
 *   "-"        is standard output
 *   others     pipes, terminals and devices are written to directly and stay what they are
 */
#ifndef SRC_FORMAT_NEWFILE_H
#define SRC_FORMAT_NEWFILE_H

#include <acre/base.h>

#include <limits.h>
#include <stdbool.h>

#define NEWFILE_TEMPORARY 40 /* bytes of a temporary name */

struct newfile {
    int fd;                            /* to write to; -1: none                        */
    int folder;                        /* of the wanted file; -1: written directly     */
    char name[NAME_MAX + 1];           /* in folder                                    */
    char temporary[NEWFILE_TEMPORARY]; /* in folder; "": the file has no name          */
    int slot;                          /* of those that newfile_abandon_all knows; -1  */
};

/* Errors: ACRE_ERR_IO, ACRE_ERR_REJECTED (a link or a pipe that may be somebody else's). */
acre_status newfile_open(struct newfile *file, const char *path);
/* Gives the file its name. On failure what was there before stays. The object is gone. */
acre_status newfile_commit(struct newfile *file, const char *path);
void newfile_abandon(struct newfile *file);

/* Removes what has a temporary name, in all threads; async-signal-safe. */
void newfile_abandon_all(void);
/* For tests: behaves as on a file system without O_TMPFILE. */
void newfile_name_always(bool is_named);

#endif
