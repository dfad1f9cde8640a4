/* SPDX-License-Identifier: MIT */
#include "tests/support/wrap.h"

#include "backend/backend.h"

#include <stdlib.h>
#include <string.h>

#define ACRE_CAP_REQUIRED 0xffffffffu /* always there */

struct wrap {
    acre_backend *inner;
    wrap_before before;
    void (*destroy)(void *);
    void *arg;
};

static _Thread_local int current = -1;

/* Every entry is called on the wrapper and goes on to the inner backend. The
 * parameter "self" is changed in between. */
#define FORWARD(group, entry, parameters, arguments)                           \
    static acre_status forward_##entry parameters                              \
    {                                                                          \
        struct wrap *wrap = self;                                              \
        acre_status status = wrap->before(wrap->arg, WRAP_##entry);            \
        if (status != ACRE_OK)                                                 \
            return status;                                                     \
        self = wrap->inner->self;                                              \
        return wrap->inner->ops.entry arguments;                               \
    }
OPS_MAP(FORWARD)
#undef FORWARD

static acre_status own_set_current(void *self, int device)
{
    struct wrap *wrap = self;
    acre_status status = wrap->before(wrap->arg, WRAP_set_current);

    if (status == ACRE_OK)
        current = device;
    return status;
}

/* Devices keep what they are, less what the wrapper leaves out. */
static acre_status own_device_info(void *self, int device, acre_device_info *out_info)
{
    acre_status status = forward_device_info(self, device, out_info);

    if (status == ACRE_OK)
        out_info->capabilities = 0;
    return status;
}

static void table_fill(acre_backend_ops *ops, uint32_t groups)
{
    memset(ops, 0, sizeof *ops);
    ops->struct_size = sizeof *ops;
    ops->version = ACRE_BACKEND_VERSION;
#define FILL(group, entry, parameters, arguments)                              \
    if (groups & ACRE_CAP_##group)                                             \
        ops->entry = forward_##entry;
    OPS_MAP(FILL)
#undef FILL
    ops->device_info = own_device_info;
}

static void wrap_destroy(void *self)
{
    struct wrap *wrap = self;

    if (wrap->destroy)
        wrap->destroy(wrap->arg);
    free(wrap);
}

acre_status wrap_create(acre_backend *inner, const struct wrap_config *config,
                        wrap_before before, void (*destroy)(void *), void *arg,
                        acre_backend **out)
{
    struct wrap *wrap = calloc(1, sizeof *wrap);
    acre_backend_ops ops;
    acre_backend_desc desc = {
        .struct_size = sizeof desc,
        .codec = config->codec,
        .name = config->name,
        .type = config->type,
        .ops = &ops,
        .self = wrap,
        .destroy = wrap_destroy,
        .flags = config->flags,
    };
    acre_status status;

    wrap->inner = inner;
    wrap->before = before;
    wrap->destroy = destroy;
    wrap->arg = arg;
    table_fill(&ops, inner->groups & ~config->without);
    if (config->has_current)
        ops.set_current = own_set_current;
    status = acre_backend_register(&desc, out);
    if (status != ACRE_OK)
        free(wrap);
    return status;
}

void *wrap_arg(acre_backend *backend)
{
    return ((struct wrap *)backend->given_self)->arg;
}

int wrap_current(void)
{
    return current;
}

const char *wrap_entry_name(enum wrap_entry entry)
{
    static const char *const names[] = {
#define NAME(group, entry, parameters, arguments) #entry,
        OPS_MAP(NAME)
#undef NAME
    };

    return (unsigned)entry < WRAP_ENTRY_COUNT ? names[entry] : "?";
}
