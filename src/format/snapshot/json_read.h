/* SPDX-License-Identifier: MIT */
/* Reads JSON, streaming, into a builder. Any JSON text is accepted that is nested at
 * most BUILDER_DEPTH deep; what it means is the builder's business. */
#ifndef SRC_FORMAT_JSON_READ_H
#define SRC_FORMAT_JSON_READ_H

#include "format/snapshot/builder.h"
#include "format/input.h"

/* Reads the whole input and leaves the one value on the builder's stack. */
acre_status json_read_input(struct input *input, struct builder *builder);

#endif
