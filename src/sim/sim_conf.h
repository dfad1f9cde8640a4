/* SPDX-License-Identifier: MIT */
/* The configuration of a reference device: defaults, limits, strings. */
#ifndef SRC_BACKEND_SIM_CONF_H
#define SRC_BACKEND_SIM_CONF_H

#include <acre/sim.h>

/* Copies what the caller gave (NULL: nothing), puts in the defaults and checks.
 * name may stay NULL. Errors: ACRE_ERR_CONFIG names the field and its limits. */
acre_status sim_conf_complete(const acre_sim_config *given, acre_sim_config *out);

#endif
