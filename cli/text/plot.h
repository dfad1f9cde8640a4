/* SPDX-License-Identifier: MIT */
/* Bar charts as SVG, readable on light and dark pages. */
#ifndef CLI_PLOT_H
#define CLI_PLOT_H

#include <stdbool.h>

/* Groups of bars on a logarithmic axis. values holds group_count rows of bar_count values;
 * negative ones are left out. */
struct plot {
    const char *axis; /* what it shows */
    const char *const *groups;
    int group_count;
    const char *const *bars;
    int bar_count;
    const double *values;
};

/* Draws a plot into a new file. False, with a recorded failure, when the file cannot be
 * written. */
bool plot_bars(const char *path, const struct plot *plot);

#endif
