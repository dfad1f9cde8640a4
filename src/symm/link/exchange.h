/* SPDX-License-Identifier: MIT */
/* One rendezvous on the connections of a group: offers to all, then votes to all.
 *
 *     offer     what my block is, with its descriptors; or why I have none
 *     vote  whether I could use everybody's offer; or who is missing
 *
 * Every rank sends both, whatever happens, so that all succeed or all fail, each with a
 * sentence that names the culprit. A rank that comes too late finds the votes of those
 * who gave up. Messages of an epoch that is over are dropped with their descriptors.
 */
#ifndef SRC_SYMM_EXCHANGE_H
#define SRC_SYMM_EXCHANGE_H

#include "symm/link/channel.h"
#include "symm/team/group.h"
#include "symm/link/record.h"

/* What came from one rank. */
struct link_offer {
    struct record record;
    int fds[CHANNEL_FDS]; /* owned until closed; -1: none */
};

/* Starts the next epoch: joins if needed, sends mine with its descriptors (taken from
 * mine->fds, which stay open), and waits for all others' offers; offers[rank] is mine.
 * The lock of the group is held. After failure no vote is due. */
acre_status exchange_offers_locked(acre_group *group, const struct link_offer *mine,
                                  struct link_offer *offers, int64_t deadline);
/* Takes part in the next epoch only to say why this rank cannot; gives status, which is recorded.
 * Waits for the others only where nobody has joined yet. */
acre_status exchange_refuse_locked(acre_group *group, acre_status status, int64_t deadline);
/* Says how it went and waits for what the others say; gives the common result. mine is
 * ACRE_OK, or a failure that is recorded. */
acre_status exchange_vote_locked(acre_group *group, acre_status mine, int64_t deadline);
/* Both with empty offers. */
acre_status exchange_barrier_locked(acre_group *group, int64_t deadline);

void offer_close(struct link_offer *offer);

#endif
