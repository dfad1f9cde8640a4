/* SPDX-License-Identifier: MIT */
/* A plug-in as an allocator, for the files that share it. */
#ifndef SRC_ALLOC_PLUGGABLE_H
#define SRC_ALLOC_PLUGGABLE_H

#include "alloc/deleter.h"
#include "alloc/plug_table.h"
#include "base/lock.h"

#include <acre/pluggable.h>

struct plug_calls {
    acre_pluggable_alloc_fn alloc;
    acre_pluggable_free_fn free;
};

struct plug {
    struct deleter_owner owner;
    acre_deleter deleter;
    acre_device_type type;
    uint32_t flags;
    struct plug_calls calls;
    void *library;              /* open, or NULL                                  */
    struct lock lock;           /* of what follows; never held around the plug-in */
    acre_pluggable_hooks hooks;
    bool has_init;              /* an init was called                             */
    size_t alignment;
    uint64_t hold_count;
    struct plug_table table;
};

/* What is behind the allocator of a plug-in; NULL for others, which is recorded as
 * ACRE_ERR_INVALID. */
struct plug *plug_of(const acre_allocator *allocator);

/* The hooks at this moment. */
acre_pluggable_hooks plug_hooks(struct plug *plug);

/* Errors: ACRE_ERR_RANGE. */
acre_status plug_check_device(const struct plug *plug, int device);

#endif
