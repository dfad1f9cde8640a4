/* SPDX-License-Identifier: MIT */
/* The settings that are tried on a recording, and those that need not be tried because they decide
 * as others do.
 */
#ifndef SRC_EXPLAIN_TRIALS_H
#define SRC_EXPLAIN_TRIALS_H

#include <acre/explain.h>

#define TRIALS_MAX 18 /* settings, the recorded ones included */

/* Lists the recorded settings first, then all others; gives how many. recorded is "" when they are
 * not known: then PyTorch's defaults stand for them. It has to stay. */
size_t trials_list(const char *recorded, acre_setting settings[TRIALS_MAX]);

/* Sets, by setting, one that decides the same when no request is larger than largest, or leaves
 * NULL; trying that one is enough then. The recorded settings are always tried. */
void trials_find_alike(const acre_setting *settings, size_t count, uint64_t largest,
                       const acre_setting *alike[TRIALS_MAX]);

/* A setting for which there was no time. */
void trial_leave(acre_setting *setting);

/* Gives settings that were not tried the figures of those that decide the same. */
void trials_copy_alike(acre_setting *settings, size_t count, const acre_setting *const *alike);

#endif
