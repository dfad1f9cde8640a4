/* SPDX-License-Identifier: MIT */
/* Taking in the table of functions a backend brings.
 *
 * Tables of older backends are shorter: what lies beyond their struct_size
 * counts as NULL. Tables of newer ones are longer: what this library does not
 * know is ignored. A group is whole or absent. An absent group is filled with
 * functions that answer ACRE_ERR_UNSUPPORTED, so callers simply call.
 */
#include "backend/table.h"

#include "backend/ops_map.h"
#include "base/check.h"
#include "base/status.h"
#include "base/struct_size.h"

#include <string.h>

#define ACRE_CAP_REQUIRED 0 /* the "group" of entries that must be there */

/* One function per entry that answers "unsupported". The parameters are there
 * for the type only. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define UNSUPPORTED(group, entry, parameters, arguments)                                           \
    static acre_status unsupported_##entry parameters                                              \
    {                                                                                              \
        return status_fail(ACRE_ERR_UNSUPPORTED,                                                   \
                           "the backend cannot do \"%s\": it lacks the group \"%s\"", #entry,      \
                           table_group_name(ACRE_CAP_##group));                                    \
    }
OPS_MAP(UNSUPPORTED)
#undef UNSUPPORTED
#pragma GCC diagnostic pop

static const acre_backend_ops unsupported = {
#define UNSUPPORTED(group, entry, parameters, arguments) .entry = unsupported_##entry,
    OPS_MAP(UNSUPPORTED)
#undef UNSUPPORTED
};

/* And one that answers "forked". */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define FORKED(group, entry, parameters, arguments)                                                \
    static acre_status forked_##entry parameters                                                   \
    {                                                                                              \
        return status_fail(ACRE_ERR_FORKED,                                                        \
                           "\"%s\" of a device that was started before fork does not work in the " \
                           "child; start the backend in the child only",                           \
                           #entry);                                                                \
    }
OPS_MAP(FORKED)
#undef FORKED
#pragma GCC diagnostic pop

const acre_backend_ops table_forked = {
#define FORKED(group, entry, parameters, arguments) .entry = forked_##entry,
    OPS_MAP(FORKED)
#undef FORKED
};

/* Where an entry lies in the table and which group it belongs to. */
struct ops_entry {
    const char *name;
    size_t offset;       /* in acre_backend_ops */
    uint32_t capability; /* 0: required         */
};

static const struct ops_entry entries[] = {
#define ENTRY(group, entry, parameters, arguments)                                                 \
    {#entry, offsetof(acre_backend_ops, entry), ACRE_CAP_##group},
    OPS_MAP(ENTRY)
#undef ENTRY
};

#define ENTRY_COUNT (sizeof entries / sizeof entries[0])

typedef void (*any_function)(void);

_Static_assert(offsetof(acre_backend_ops, device_count) + ENTRY_COUNT * sizeof(any_function) ==
                   sizeof(acre_backend_ops),
               "ops_map.h lists every entry of acre_backend_ops");

const char *table_group_name(uint32_t capability)
{
    switch (capability) {
#define NAME_CASE(group, text)                                                                     \
    case ACRE_CAP_##group:                                                                         \
        return text;
        OPS_GROUP_MAP(NAME_CASE)
#undef NAME_CASE
    }
    return "required";
}

static int entry_is_there(const acre_backend_ops *table, const struct ops_entry *entry)
{
    any_function function;

    memcpy(&function, (const char *)table + entry->offset, sizeof function);
    return function != NULL;
}

/* The first entry of a group that is there, or that is absent. */
static const struct ops_entry *entry_of(const acre_backend_ops *table, uint32_t capability,
                                        int is_there)
{
    for (size_t i = 0; i < ENTRY_COUNT; i++)
        if (entries[i].capability == capability && entry_is_there(table, &entries[i]) == is_there)
            return &entries[i];
    return NULL;
}

acre_status table_take(const char *name, const acre_backend_ops *table, acre_backend_ops *out)
{
    if (table->version != ACRE_BACKEND_VERSION)
        return status_fail(ACRE_ERR_INVALID,
                           "backend \"%s\": its table has version %u, this library knows %u only",
                           name, table->version, ACRE_BACKEND_VERSION);
    if (table->struct_size < offsetof(acre_backend_ops, stream_create))
        return status_fail(ACRE_ERR_INVALID,
                           "backend \"%s\": struct_size %u of its table is too small; set it to "
                           "sizeof(acre_backend_ops)",
                           name, table->struct_size);
    return STRUCT_CUT("acre_backend_register", acre_backend_ops, table, out);
}

/* One optional group, or the required entries when capability is 0. */
static acre_status take_group(const char *name, acre_backend_ops *table, uint32_t capability,
                              uint32_t *groups)
{
    const struct ops_entry *there = entry_of(table, capability, 1);
    const struct ops_entry *absent = entry_of(table, capability, 0);

    if (absent && capability == 0)
        return status_fail(ACRE_ERR_INVALID, "backend \"%s\": the required entry \"%s\" is NULL",
                           name, absent->name);
    if (absent && there)
        return status_fail(ACRE_ERR_INVALID,
                           "backend \"%s\": the group \"%s\" has \"%s\" but not \"%s\"; a group is "
                           "whole or absent",
                           name, table_group_name(capability), there->name, absent->name);
    if (!absent) {
        *groups |= capability;
        return ACRE_OK;
    }
    for (size_t i = 0; i < ENTRY_COUNT; i++)
        if (entries[i].capability == capability)
            memcpy((char *)table + entries[i].offset,
                   (const char *)&unsupported + entries[i].offset, sizeof(any_function));
    return ACRE_OK;
}

acre_status table_complete(const char *name, const acre_backend_ops *table, acre_backend_ops *out,
                           uint32_t *out_groups)
{
    static const uint32_t groups[] = {0,
#define GROUP(group, text) ACRE_CAP_##group,
                                      OPS_GROUP_MAP(GROUP)
#undef GROUP
    };
    acre_backend_ops whole = {0};
    uint32_t there = 0;
    acre_status status = table_take(name, table, &whole);

    if (status != ACRE_OK)
        return status;
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        status = take_group(name, &whole, groups[i], &there);
        if (status != ACRE_OK)
            return status;
    }
    CHECK(!entry_of(&whole, 0, 0));
    *out = whole;
    *out_groups = there;
    return ACRE_OK;
}
