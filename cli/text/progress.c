/* SPDX-License-Identifier: MIT */
#include "cli/text/progress.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define WIDTH    40
#define AFTER_NS 1000000000u

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void progress_begin(struct progress *progress)
{
    *progress = (struct progress){.is_terminal = isatty(STDERR_FILENO),
                                  .shown_percent = -1,
                                  .started_ns = now_ns(),
                                  .span = 1};
}

void progress_part(struct progress *progress, double base, double span)
{
    progress->base = base;
    progress->span = span;
}

void progress_tell(void *arg, double done)
{
    struct progress *progress = arg;
    char bar[WIDTH + 1];

    if (!progress->is_terminal || now_ns() - progress->started_ns < AFTER_NS)
        return;
    double share = progress->base + progress->span * done;
    int percent = (int)(share * 100), filled = (int)(share * WIDTH);
    if (percent == progress->shown_percent)
        return;
    memset(bar, ' ', WIDTH);
    memset(bar, '#', (size_t)(filled < WIDTH ? filled : WIDTH));
    bar[WIDTH] = '\0';
    dprintf(STDERR_FILENO, "\r[%s] %3d %%", bar, percent);
    progress->shown_percent = percent;
    progress->is_shown = true;
}

void progress_end(struct progress *progress)
{
    if (progress->is_shown)
        dprintf(STDERR_FILENO, "\r%*s\r", WIDTH + 10, "");
    progress->is_shown = false;
}
