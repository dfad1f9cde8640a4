/* SPDX-License-Identifier: MIT */
/* A registered backend and its devices, as the rest of the library sees them.
 *
 * Every entry of ops is callable: gaps were filled with functions that answer
 * ACRE_ERR_UNSUPPORTED. Whether a group is really there is in info.capabilities.
 * Devices live inside their backend and never move.
 */
#ifndef SRC_BACKEND_BACKEND_H
#define SRC_BACKEND_BACKEND_H

#include "base/list.h"

#include <acre/backend.h>
#include <acre/device.h>

#include <stdatomic.h>

/* Most devices of a backend: an index travels in 8 signed bits. */
#define BACKEND_DEVICES_MAX 127

struct stream_pools;
struct answer;
struct synchronous;
struct peer_cache;

struct acre_device {
    const acre_backend_ops *ops; /* complete: no entry is NULL                  */
    void *self;                  /* first argument of every entry               */
    int index;                   /* device argument of every entry              */
    _Atomic int type;            /* acre_device_type as shown outside; follows a
                                    masquerade                                  */
    acre_backend *backend;
    acre_device_info info;            /* constant after registration                 */
    _Atomic uint32_t mapped_segments; /* ranges that caches map pages into; see
                                    acre_memcpy_async                           */
};

struct acre_backend {
    struct list link;      /* in the registry, under its lock              */
    uint64_t number;       /* unique in this process, never reused, from 1 */
    char *name;            /* owned                                        */
    acre_device_type type; /* its own, whatever it is shown as             */
    acre_stream_codec codec;
    uint32_t flags;             /* ACRE_BACKEND_* bits                          */
    unsigned fork_generation;   /* of the process that registered it            */
    _Atomic int shown;          /* type of a masquerade, or its own             */
    _Atomic int form;           /* acre_masquerade_form, 0 without a masquerade */
    uint64_t masquerade_number; /* order of masquerades, under the lock         */
    acre_backend_ops ops;       /* complete                                     */
    uint32_t groups;            /* capability bits of the groups in ops         */
    void *self;                 /* first argument of every entry of ops         */
    void *given_self;           /* as it was registered, for destroy            */
    void (*destroy)(void *self);
    const void *library;             /* that acre_backend_load() took it from, or NULL */
    struct answer *answer;           /* around a table of others; NULL: an own one   */
    struct synchronous *synchronous; /* what self is then; NULL otherwise         */
    struct stream_pools *pools;      /* NULL without streams                         */
    struct peer_cache *peers;
    int device_count;
    struct acre_device *devices; /* device_count of them                         */
};

static inline int device_has(const struct acre_device *device, uint32_t capability)
{
    return (device->info.capabilities & capability) == capability;
}

/* The backend that answers for a type: the latest masquerade as it, else the
 * first registered of it, else the built-in one, which is started.
 * Errors: ACRE_ERR_UNSUPPORTED names the type, ACRE_ERR_FORKED. */
acre_status backend_of_type(acre_device_type type, acre_backend **out);

/* ACRE_ERR_FORKED in a child of fork that inherited a backend with threads. */
acre_status backend_check_fork(const acre_backend *backend);

/* Whether a backend answers for a type, or a built-in one would. */
int backend_is_known(acre_device_type type);

/* The registered backend that came out of a library, or NULL. */
acre_backend *backend_of_library(const void *library);

/* Whether backend is registered at this moment. */
int backend_is_registered(const acre_backend *backend);

/* Whether the backend of that number is registered; an address may have been reused, a number
 * is not. */
int backend_number_is_live(uint64_t number);

/* As acre_backend_register, for tables of the library itself: each of their failures has a
 * sentence. */
acre_status backend_register_own(const acre_backend_desc *desc, acre_backend **out);

/* As acre_backend_register, for what a library describes: backend_of_library finds it at once. */
acre_status backend_register_loaded(const acre_backend_desc *desc, const void *library,
                                    acre_backend **out);

/* Changes under which type a backend is shown; form 0 ends a masquerade, if there is one.
 * Errors: ACRE_ERR_INVALID (it is not registered), ACRE_ERR_STATE (it masquerades already). */
acre_status backend_show(acre_backend *backend, acre_device_type shown, int form);

/* The current device of a backend on this thread, under the type it is shown. */
acre_status backend_current(acre_backend *backend, acre_device_id *out);

/* Makes a device of a backend current.
 * Errors: ACRE_ERR_INVALID (the type is not the one the backend is shown under; the text names
 *         the device), ACRE_ERR_RANGE. */
acre_status backend_set_current(acre_backend *backend, acre_device_id device);

/* Makes a device current, and gives the one that was current before. */
acre_status backend_exchange_current(acre_backend *backend, acre_device_id device,
                                     acre_device_id *out_previous);

/* Whether a number is a device type at all. */
static inline int device_type_is_valid(int type)
{
    return type >= 0 && type < ACRE_DEVICE_TYPE_COUNT;
}

#endif
