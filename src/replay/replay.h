/* SPDX-License-Identifier: MIT */
/* Replays of what is open already. */
#ifndef SRC_REPLAY_REPLAY_H
#define SRC_REPLAY_REPLAY_H

#include "replay/feed.h"

/* As acre_replay, which checks the configuration. */
acre_status replay_feed(struct feed *feed, const acre_replay_config *config,
                        acre_replay_result *result);

#endif
