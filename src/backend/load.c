/* SPDX-License-Identifier: MIT */
/* Backends out of shared libraries. */
#include "backend/backend.h"

#include "base/dl.h"
#include "base/status.h"

#include <stddef.h>

struct load_entry {
    acre_backend_describe_fn describe;
};

acre_status acre_backend_load(const char *path, acre_backend **out)
{
    static const struct dl_symbol symbols[] = {
        {.name = "acre_backend_describe", .offset = offsetof(struct load_entry, describe)}};
    acre_backend_desc desc = {.struct_size = sizeof desc};
    struct load_entry entry;
    void *library;

    if (!path || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_backend_load: an argument is NULL");
    acre_status status = dl_open((const char *const[]){path, NULL}, symbols, 1, &entry, &library);
    if (status != ACRE_OK)
        return status;
    status = entry.describe(&desc);
    if (status != ACRE_OK)
        status = status_fail(status, "%s: acre_backend_describe answers %s", path,
                             acre_status_text(status));
    if (status == ACRE_OK && desc.name && acre_backend_find(desc.name, out) == ACRE_OK)
        return ACRE_OK; /* loaded before */
    if (status == ACRE_OK)
        status = acre_backend_register(&desc, out);
    if (status != ACRE_OK)
        dl_close(library);
    return status;
}
