/* SPDX-License-Identifier: MIT */
/* A progress bar on standard error: only on a terminal, only after a second. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool is_terminal;
    bool is_shown;
    int shown_percent;
    uint64_t started_ns;
    double base, span; /* this part of the work covers [base, base + span] */
};

void progress_begin(struct progress *progress);
/* What follows is the part [base, base + span] of all. */
void progress_part(struct progress *progress, double base, double span);
/* An acre_progress_fn; arg is the progress. */
void progress_tell(void *arg, double done);
/* Wipes the bar. */
void progress_end(struct progress *progress);

#endif
