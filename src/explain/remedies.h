/* SPDX-License-Identifier: MIT */
/* What can be done after a request failed, with the effect where it can be computed. */
#ifndef SRC_EXPLAIN_REMEDIES_H
#define SRC_EXPLAIN_REMEDIES_H

#include "explain/device_state.h"
#include "explain/notes.h"
#include "explain/savings.h"

#include <acre/explain.h>

#define REMEDY_MAX 12

/* Fills remedies of a why whose figures, verdict and growth are known.
 * Errors: ACRE_ERR_HOST_MEMORY. */
acre_status remedies_find(const struct device_state *device_state, const struct savings *savings,
                          struct notes *notes, acre_why *why);

#endif
