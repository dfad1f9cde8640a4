/* SPDX-License-Identifier: MIT */
/* A backend that wraps another one and fails the n-th call.
 *
 *     for (uint64_t nth = 1;; nth++) {
 *         fault_arm(faulty, FAULT_ANY, nth, ACRE_ERR_DEVICE);
 *         status = scenario(faulty);
 *         if (!fault_disarm(faulty))
 *             break;                    the scenario has fewer calls: done
 *         EXPECT_EQ(status, ACRE_ERR_DEVICE); and nothing left behind
 *     }
 *
 * Calls that give things back (free, destroy, release, unmap, ...) are left out
 * of FAULT_ANY: nobody can undo a failure of those. Name them to fail them.
 */
#ifndef TESTS_SUPPORT_FAULT_BACKEND_H
#define TESTS_SUPPORT_FAULT_BACKEND_H

#include "tests/support/wrap.h"

/* Any entry but those that give back. */
#define FAULT_ANY WRAP_ENTRY_COUNT

acre_status fault_create(acre_backend *inner, const struct wrap_config *config,
                         acre_backend **out);

/* Fails the n-th call (1 = the next) of an entry or of FAULT_ANY with status. */
void fault_arm(acre_backend *faulty, enum wrap_entry entry, uint64_t nth, acre_status status);

/* Switches that off; tells whether a call was failed since fault_arm. */
bool fault_disarm(acre_backend *faulty);

/* Whether an entry gives back. */
bool fault_gives_back(enum wrap_entry entry);

#endif
