/* SPDX-License-Identifier: MIT */
/* What the demo tells, twice: as text on standard output and as a page, the one
 * of "acre view" with the text below its pictures. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include <acre/view.h>

#include <stdbool.h>

struct report;

/* Begins FOLDER/report.html; NULL, with a sentence on standard error, when the
 * file cannot be written. */
struct report *report_open(const char *folder, const char *title);

/* Where events of memory go. */
acre_view *report_view(struct report *report);

/* A numbered heading. */
void report_section(struct report *report, const char *title);

/* A paragraph of explanation. */
void report_say(struct report *report, const char *text);

/* A fact: what was looked at, and the figure or answer. */
void report_fact(struct report *report, const char *what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Ends the page; NULL is accepted. False when it could not be written whole. */
bool report_close(struct report *report);

/* Where the page is. */
const char *report_path(const struct report *report);

#endif
