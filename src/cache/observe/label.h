/* SPDX-License-Identifier: MIT */
/* Texts that the entries of a thread carry: what its user set, and the compiled
 * region it is in.
 *
 * Every different text is kept once, until the process ends, and known by a
 * number; so an entry needs two numbers, and copies of entries need no copies of
 * texts. Number 0 is the text of a thread that set nothing.
 *
 * The texts of a thread are thread-local; the table has a lock of its own.
 */
#ifndef SRC_CACHE_LABEL_H
#define SRC_CACHE_LABEL_H

#include <acre/base.h>

#include <stdint.h>

enum {
    LABEL_DEPTH_MAX = 64,       /* nested regions of a thread                    */
    LABEL_TEXT_MAX = 1 << 20,   /* different texts of a process                  */
};

/* Both texts of a thread, as numbers. */
struct label {
    uint32_t metadata; /* 0: ""    */
    uint32_t compile;  /* 0: "N/A" */
};

/* The labels of the calling thread. */
struct label label_current(void);

/* Change them. The caller sees to it that entries made before keep theirs.
 * Errors: ACRE_ERR_HOST_MEMORY, ACRE_ERR_LIMIT; nothing has changed then. */
acre_status label_metadata_set(const char *text);
acre_status label_compile_push(const char *text);
void label_compile_pop(void);

/* Adds a line to the metadata for a while; without memory it stays as it is. Give
 * what it returns to label_restore. */
struct label label_extend(const char *line);
void label_restore(struct label label);

/* The texts of numbers; they stay. */
const char *label_metadata(uint32_t number);
const char *label_compile(uint32_t number);

#endif
