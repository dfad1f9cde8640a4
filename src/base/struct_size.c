/* SPDX-License-Identifier: MIT */
#include "base/struct_size.h"

#include "base/status.h"

#include <string.h>

static uint32_t struct_size_of(const void *any)
{
    uint32_t bytes;

    memcpy(&bytes, any, sizeof bytes);
    return bytes;
}

static void own_fill(const void *given, uint32_t bytes, void *own, uint32_t known)
{
    memset(own, 0, known);
    memcpy(own, given, bytes < known ? bytes : known);
    memcpy(own, &known, sizeof known);
}

/* Refuses NULL and a size that was not set. */
static acre_status size_check(const struct struct_name *name, const void *any)
{
    if (!any)
        return status_fail(ACRE_ERR_INVALID, "%s: %s is NULL", name->call, name->type);
    uint32_t bytes = struct_size_of(any);
    if (bytes < STRUCT_SIZE_LEAST || bytes > STRUCT_SIZE_MOST)
        return status_fail(ACRE_ERR_INVALID, "%s: %s.struct_size is %u; set it to sizeof(%s)",
                           name->call, name->type, bytes, name->type);
    return ACRE_OK;
}

acre_status struct_size_check(const struct struct_name *name, const void *out, size_t own_bytes)
{
    acre_status status = size_check(name, out);

    if (status != ACRE_OK)
        return status;
    for (uint32_t i = (uint32_t)own_bytes; i < struct_size_of(out); i++) {
        if (((const unsigned char *)out)[i])
            return status_fail(ACRE_ERR_INVALID,
                               "%s: the field at byte %u of %s is not 0, and this version of the "
                               "library, whose struct has %zu bytes, does not know it; leave it 0 "
                               "or use a newer library",
                               name->call, i, name->type, own_bytes);
    }
    return ACRE_OK;
}

acre_status struct_size_take(const struct struct_name *name, const void *given, void *own,
                             size_t own_bytes)
{
    acre_status status = struct_size_check(name, given, own_bytes);

    if (status == ACRE_OK)
        own_fill(given, struct_size_of(given), own, (uint32_t)own_bytes);
    return status;
}

acre_status struct_size_cut(const struct struct_name *name, const void *given, void *own,
                            size_t own_bytes)
{
    acre_status status = size_check(name, given);

    if (status == ACRE_OK) {
        uint32_t bytes = struct_size_of(given);
        own_fill(given, bytes - bytes % (uint32_t)sizeof(void *), own, (uint32_t)own_bytes);
    }
    return status;
}

void struct_size_give(void *out, const void *own, size_t own_bytes)
{
    uint32_t bytes = struct_size_of(out);

    memcpy(out, own, bytes < own_bytes ? bytes : own_bytes);
    memcpy(out, &bytes, sizeof bytes);
}
