/* SPDX-License-Identifier: MIT */
/* A recorded history against the policy that is said to have made it. */
#ifndef SRC_REPLAY_VERIFY_H
#define SRC_REPLAY_VERIFY_H

#include "format/snapshot/snapshot.h"

#include <acre/trace.h>

/* As acre_replay_verify, for a snapshot that adds up. */
acre_status verify_device(const struct snapshot *snapshot, uint32_t device,
                          acre_verify_result *result);

#endif
