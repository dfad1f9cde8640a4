/* SPDX-License-Identifier: MIT */
/* A snapshot becomes events of a view: its history, then the state at its end,
 * from which sizes and what was there before the history follow.
 *
 * Every entry of the history is one event, so that numbers of events are those
 * of the file. Annotations become marks at their time. */
#ifndef SRC_VIEW_ADOPT_H
#define SRC_VIEW_ADOPT_H

#include "view/view.h"

struct snapshot;

/* Errors: those of acre_view_event_add. An inconsistent snapshot
 * is taken as it is, and the view has a warning. */
acre_status adopt_snapshot(acre_view *view, const struct snapshot *snapshot,
                           const acre_view_config *config);

#endif
