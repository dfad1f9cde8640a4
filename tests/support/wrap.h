/* SPDX-License-Identifier: MIT */
/* A backend around another one: what the tracing and the fault backend share.
 *
 * The wrapper has the groups of the inner backend, forwards every call, and asks
 * a function before each. The inner backend must outlive it.
 */
#ifndef TESTS_SUPPORT_WRAP_H
#define TESTS_SUPPORT_WRAP_H

#include "backend/ops_map.h"

#include <acre/acre.h>

/* A number for every entry of the table. */
enum wrap_entry {
#define WRAP_ENTRY(group, entry, parameters, arguments) WRAP_##entry,
    OPS_MAP(WRAP_ENTRY)
#undef WRAP_ENTRY
    WRAP_ENTRY_COUNT
};

/* What the wrapper is to be. */
struct wrap_config {
    const char *name;        /* of the new backend                              */
    acre_device_type type;   /* of its devices                                  */
    acre_stream_codec codec; /* of its streams                                  */
    uint32_t flags;          /* ACRE_BACKEND_* bits                             */
    uint32_t without;        /* capability bits to leave out                    */
    bool has_current;        /* add the group "current device"; calls end here  */
};

/* Called before each entry; anything but ACRE_OK is returned instead of the
 * inner backend's answer. */
typedef acre_status (*wrap_before)(void *arg, enum wrap_entry entry);

/* Registers a wrapper. destroy, when given, gets arg when it goes. */
acre_status wrap_create(acre_backend *inner, const struct wrap_config *config,
                        wrap_before before, void (*destroy)(void *), void *arg,
                        acre_backend **out);

/* The arg of a wrapper. */
void *wrap_arg(acre_backend *backend);

/* The device the calling thread made current last, -1 when none. */
int wrap_current(void);

/* The name of an entry. */
const char *wrap_entry_name(enum wrap_entry entry);

#endif
