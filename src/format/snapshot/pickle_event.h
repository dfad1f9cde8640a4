/* SPDX-License-Identifier: MIT */
/* Events of a pickle, read in one go.
 *
 * Nearly all of a snapshot is events, and nearly all events are written alike: an empty dict,
 * its place in the memo, a mark, keys and values that are numbers, pools or what the memo has,
 * and the instruction that sets them. Such an event becomes a record without a stack, a mark or
 * an object of its own. Whatever else there is, and all that is wrong, is left to pickle_read,
 * which starts again at the dict: until the last instruction is seen nothing has changed.
 *
 * While one is read nobody asks whether the data ends: an event is shorter than what may be read
 * behind the window (INPUT_PADDING), and counts only if its last byte is in the window.
 */
#ifndef SRC_FORMAT_PICKLE_EVENT_H
#define SRC_FORMAT_PICKLE_EVENT_H

#include "format/input.h"
#include "format/snapshot/builder.h"

/* Reads the events from here on, where an empty dict begins, as far as the window goes and they
 * are written so. *out_count tells how many there were. */
acre_status pickle_event_read(struct input *input, struct builder *builder, size_t *out_count);

#endif
