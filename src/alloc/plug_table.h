/* SPDX-License-Identifier: MIT */
/* The books about what a plug-in gave: ranges of addresses that are live, and
 * statistics per device.
 *
 * Always: no two records overlap; a record of 0 bytes counts as one byte, so that
 * an address occurs once. Records lie in a tree by address.
 *
 * Not thread-safe: the owner's lock is held around every call.
 */
#ifndef SRC_ALLOC_PLUG_TABLE_H
#define SRC_ALLOC_PLUG_TABLE_H

#include "base/rbtree.h"

#include <acre/allocator.h>

struct plug_record {
    struct rbnode node;
    uintptr_t base;
    size_t bytes;       /* as requested                                     */
    int device;
    void *stream;       /* native, of the allocation                        */
    void **streams;     /* native, others that use it; owned                */
    size_t stream_count;
    bool is_leaving;    /* being freed; a second free is refused            */
    bool is_put_off;    /* to be freed later (plug_wait.h)                  */
    uint32_t stack;     /* that allocated it, by who watches; 0: none       */
};

struct plug_account {
    acre_allocator_stats stats;
    double fraction;     /* as set last; 1: none                            */
    uint64_t limit;      /* on bytes live and on the way; UINT64_MAX: none  */
    uint64_t coming;     /* bytes the plug-in is being asked for            */
};

struct plug_table {
    struct rbtree records;
    uint64_t count;      /* of records                                      */
    uint64_t bytes;      /* their sum                                       */
    int device_count;
    struct plug_account *accounts; /* one per device; owned                 */
};

/* Errors: ACRE_ERR_HOST_MEMORY. */
acre_status plug_table_init(struct plug_table *table, int device_count);
void plug_table_fini(struct plug_table *table); /* no record is left */

/* The record that [base, base + bytes) overlaps, or NULL. */
struct plug_record *plug_table_overlap(const struct plug_table *table, uintptr_t base,
                                       size_t bytes);
/* The live record that begins at an address, and the one around it, or NULL. */
struct plug_record *plug_table_find(const struct plug_table *table, const void *pointer);
struct plug_record *plug_table_around(const struct plug_table *table, const void *pointer);

/* The record after one, by address; the first after NULL. */
struct plug_record *plug_table_next(const struct plug_table *table,
                                    const struct plug_record *record);

/* Enters a record that overlaps nothing, and takes one out, statistics included. */
void plug_table_put(struct plug_table *table, struct plug_record *record);
void plug_table_take(struct plug_table *table, struct plug_record *record);

/* Adds a stream that uses a record; its own and repetitions are ignored.
 * Errors: ACRE_ERR_HOST_MEMORY. */
acre_status plug_record_add_stream(struct plug_record *record, void *stream);

#endif
