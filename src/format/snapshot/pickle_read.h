/* SPDX-License-Identifier: MIT */
/* Reads pickles as data: protocols 2 to 5, and of their instructions only those that
 * make texts, numbers, lists, tuples and dicts. Instructions that name or call
 * functions are refused by name; nothing of a file is ever executed. */
#ifndef SRC_FORMAT_PICKLE_READ_H
#define SRC_FORMAT_PICKLE_READ_H

#include "format/snapshot/builder.h"
#include "format/input.h"

/* Reads up to STOP and leaves the one value on the builder's stack. */
acre_status pickle_read(struct input *input, struct builder *builder);

#endif
