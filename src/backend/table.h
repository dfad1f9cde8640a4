/* SPDX-License-Identifier: MIT */
/* Taking in the table of functions a backend brings. */
#ifndef SRC_BACKEND_TABLE_H
#define SRC_BACKEND_TABLE_H

#include <acre/backend.h>

/* Copies a table of this version as it is: absent entries are NULL, also those beyond the end
 * of a shorter one, which has the required entries at least.
 * Errors: ACRE_ERR_INVALID. */
acre_status table_take(const char *name, const acre_backend_ops *table, acre_backend_ops *out);

/* Checks a table and copies it to out with every gap filled; out_groups gets
 * the capability bits of the groups that are there. name is for messages.
 * Errors: ACRE_ERR_INVALID names the entry or the group. */
acre_status table_complete(const char *name, const acre_backend_ops *table,
                           acre_backend_ops *out, uint32_t *out_groups);

/* The words for a capability bit, such as "virtual memory". */
const char *table_group_name(uint32_t capability);

/* A table whose every entry answers ACRE_ERR_FORKED: for devices in a child of fork. */
extern const acre_backend_ops table_forked;

#endif
