/* SPDX-License-Identifier: MIT */
/* Writes a snapshot as JSON: the keys of the pickle, but for frames, which stand in a
 * table of their own. docs/snapshot.schema.json describes it.
 *
 *   "frames": [{"filename", "line", "name"}, ...]
 *   "stacks": [[place in frames, innermost first, ...], ...]
 *   "stack": place in stacks, wherever the pickle has "frames"
 */
#ifndef SRC_FORMAT_JSON_WRITE_H
#define SRC_FORMAT_JSON_WRITE_H

#include "format/sink.h"
#include "format/snapshot/snapshot.h"

/* Version of what is written, under the key "acre_snapshot". */
#define JSON_VERSION 1

/* Bytes that the JSON takes at least, which the strings tell: JSON repeats one that many records of
 * a pickle share. The time is that of one look at each record. */
uint64_t json_bytes_least(const struct snapshot *snapshot);

/* Errors of writing stay in the sink. */
void json_write(const struct snapshot *snapshot, struct sink *sink);

/* Writes text as a string with quotes. Bytes that are no UTF-8 become U+FFFD. */
void json_write_string(struct sink *sink, const char *text, size_t length);

#endif
