/* SPDX-License-Identifier: MIT */
/* Failures and latencies on demand; see acre_sim_fault. sim.h has sim_enter. */
#ifndef SRC_BACKEND_SIM_FAULT_H
#define SRC_BACKEND_SIM_FAULT_H

#include "sim/sim.h"

/* Sets sim->faults, armed as sim->config says, and watches for fork. */
acre_status sim_faults_create(struct sim *sim);
void sim_faults_destroy(struct sim *sim);
/* Adds one. Errors: ACRE_ERR_INVALID. */
acre_status sim_faults_arm(struct sim *sim, const acre_sim_fault *given);
/* Takes all away; how many calls they met. */
uint64_t sim_faults_disarm(struct sim *sim);

/* Name of a call as in the table; "any" and "?" for what is none. */
const char *sim_call_name(acre_sim_call call);

#endif
