/* SPDX-License-Identifier: MIT */
/* Texts of a result, all freed together: one chain of pieces of memory. */
#ifndef SRC_EXPLAIN_NOTES_H
#define SRC_EXPLAIN_NOTES_H

#include <stddef.h>

struct explain_note {
    struct explain_note *next;
    max_align_t bytes[];
};

struct notes {
    struct explain_note *first;
};

/* Cleared memory that lives as long as the notes; NULL when there is none. */
void *notes_take(struct notes *notes, size_t bytes);
/* A formatted text; NULL when there is no memory. */
char *notes_text(struct notes *notes, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void notes_fini(struct notes *notes);

#endif
