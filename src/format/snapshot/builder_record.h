/* SPDX-License-Identifier: MIT */
/* The dicts of a snapshot: which of them are records, and what their keys mean.
 *
 *   event     action and one of size, addr, device_free
 *   segment   total_size
 *   block     state and size
 *   history   real_size and addr
 *   frame     filename and one of line, name
 *
 * A dict becomes a record with the key that settles it, and stays one; what is set
 * later goes straight into the record. All other dicts keep their pairs. */
#ifndef SRC_FORMAT_BUILDER_RECORD_H
#define SRC_FORMAT_BUILDER_RECORD_H

#include "format/snapshot/builder.h"

/* While building, fields that name lists hold indices of lists instead: forward,
 * first_block, first_past, and stack, which with this bit is a row of the table of
 * stacks that JSON has. SNAP_NONE is an empty list, or none. */
#define RECORD_ROW 0x80000000u

/* Sets pairs of key and value in a dict. */
acre_status record_set_pairs(struct builder *builder, value object, const value *pairs,
                             size_t count);

/* Whether a dict with a set of keys, bits of enum snap_key, is an event. */
bool record_is_entry(uint64_t keys);
/* Adds an event that has all but its origin: a value of TAG_ENTRY. */
acre_status record_add_entry(struct builder *builder, const struct snap_entry *entry,
                             const struct snap_origin *origin, value *out);

/* The value of a key of a dict that is no record; false when it has none. */
bool record_get(const struct builder *builder, value object, uint32_t key, value *out);

/* A whole number as it stands in 64 bits; false when the value is none. */
bool record_integer(const struct builder *builder, value item, uint64_t *out);

#endif
