/* SPDX-License-Identifier: MIT */
/* A plug-in as an allocator, for the files that share it. */
#ifndef SRC_ALLOC_PLUGGABLE_H
#define SRC_ALLOC_PLUGGABLE_H

#include "alloc/deleter.h"
#include "alloc/plug_table.h"
#include "base/process/fork.h"
#include "base/lock.h"

#include <acre/pluggable.h>

struct plug_calls {
    acre_pluggable_alloc_fn alloc;
    acre_pluggable_free_fn free;
};

/* The stack of an allocation or free, where somebody asks for it. */
struct plug_frames {
    size_t count;
    uint64_t frames[ACRE_STACK_MAX];
};

enum plug_event { PLUG_ALLOCATED, PLUG_FREE_REQUESTED, PLUG_FREED };

/* Who is told what happens in a plug-in: its history, which is not of this layer. */
struct plug_watch {
    /* Before an allocation or a free, without any lock. */
    void (*gather)(struct plug_watch *watch, int device, bool is_free, struct plug_frames *out);
    /* With the lock of the plug-in. */
    void (*tell)(struct plug_watch *watch, enum plug_event event, struct plug_record *record,
                 const struct plug_frames *frames);
    /* There was no memory for a request; without any lock. */
    void (*fail)(struct plug_watch *watch, const struct plug_record *asked,
                 const struct plug_frames *frames);
    void (*end)(struct plug_watch *watch);
};

struct plug {
    struct deleter_owner owner; /* first: see deleter_of_self */
    acre_device_type type;
    uint32_t flags;
    struct plug_calls calls;
    void *library;              /* open, or NULL                                  */
    struct lock lock;           /* of what follows; never held around the plug-in */
    struct fork_guard fork_guard; /* of the lock */
    acre_pluggable_hooks hooks;
    bool has_init;              /* an init was called                             */
    size_t alignment;
    uint64_t hold_count;
    struct plug_table table;
    _Atomic uint64_t put_off_count; /* records to be freed later; written under the lock */
    struct plug_watch *_Atomic watch; /* NULL until somebody wants to; then it stays */
};

/* What is behind the allocator of a plug-in; NULL for others, which is recorded as
 * ACRE_ERR_INVALID. */
struct plug *plug_of(const acre_allocator *allocator);

/* The hooks at this moment. */
acre_pluggable_hooks plug_hooks(struct plug *plug);

/* Errors: ACRE_ERR_RANGE. */
acre_status plug_check_device(const struct plug *plug, int device);

#endif
