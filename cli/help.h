/* SPDX-License-Identifier: MIT */
/* Topics of "acre help", and the check of variables that commands rely on. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include <stdbool.h>

/* Prints a topic, conf or environment; false: there is no such topic. */
bool help_topic(const char *topic);

/* Whether ACRE_BACKENDS and ACRE_LOG hold known values. False, with a sentence on standard
 * error, when one does not. */
bool help_environment_check(void);

#endif
