/* SPDX-License-Identifier: MIT */
/* Bar charts as SVG, readable on light and dark pages. */
#ifndef CLI_PLOT_H
#define CLI_PLOT_H

#include <stdbool.h>

/* Draws groups of bars on a logarithmic axis into a new file. values holds
 * group_count rows of bar_count values; negative ones are left out. False, with a
 * recorded failure, when the file cannot be written. */
bool plot_bars(const char *path, const char *axis, const char *const *groups, int group_count,
               const char *const *bars, int bar_count, const double *values);

#endif
