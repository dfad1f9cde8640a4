/* SPDX-License-Identifier: MIT */
/* The live streams and events of libopenreg, and the device of each.
 *
 * A handle of OpenReg is the native handle of the device, a number that is never
 * used twice. This table tells whether it lives and whose it is, so that a
 * destroyed or invented one is refused. Threads: any.
 *
 * This library stands outside of Acre's and sees its public calls only; hence
 * the plain malloc.
 */
#ifndef SRC_BIND_OPENREG_TABLE_H
#define SRC_BIND_OPENREG_TABLE_H

enum table_kind { TABLE_STREAM = 1, TABLE_EVENT = 2 };

/* Room for one entry, obtained before the handle exists; NULL: out of memory. */
struct table_entry *table_prepare(void);
/* Gives it back unused. */
void table_cancel(struct table_entry *entry);
/* Makes a handle known. */
void table_put(struct table_entry *entry, const void *handle, enum table_kind kind, int device);

/* The device of a live handle, or -1. */
int table_find(const void *handle, enum table_kind kind);
/* Forgets a handle. */
void table_remove(const void *handle);

#endif
