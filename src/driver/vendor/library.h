/* SPDX-License-Identifier: MIT */
/* A vendor's library, found at run time, and its entry points.
 *
 * Looked for under its usual names, or where ACRE_CUDA_LIBRARY or
 * ACRE_HIP_LIBRARY says (a full path; nothing else is tried then). Once it was
 * initialised it stays loaded: drivers do not survive being unloaded.
 */
#ifndef SRC_DRIVER_LIBRARY_H
#define SRC_DRIVER_LIBRARY_H

#include "driver/vendor/entry_points.h"
#include "driver/vendor/types.h"

#include <acre/backend.h>

enum library_vendor { VENDOR_CUDA, VENDOR_HIP };

/* Whether an entry can be called is a question of the capability it belongs to;
 * those that are OPTIONAL, and those of the other vendor, may be NULL. */
struct driver_entries {
#define LIBRARY_FIELD(need, name, cuda, older, hip, parameters) driver_result(*name) parameters;
    DRIVER_MAP(LIBRARY_FIELD)
#undef LIBRARY_FIELD
#define LIBRARY_FIELD(name, hip, parameters) const char *(*name)parameters;
    DRIVER_HIP_TEXT_MAP(LIBRARY_FIELD)
#undef LIBRARY_FIELD
};

/* The entries by number, for messages. */
enum driver_entry {
#define LIBRARY_NUMBER(need, name, cuda, older, hip, parameters) ENTRY_##name,
    DRIVER_MAP(LIBRARY_NUMBER)
#undef LIBRARY_NUMBER
    ENTRY_COUNT
};

struct driver_library {
    struct driver_entries call;
    enum library_vendor vendor;
    uint32_t groups;  /* bits of acre_capability whose entries are all there            */
    int version;      /* as the vendor counts: 12040 is CUDA 12.4, 60032830 is HIP 6.0  */
    void *handle;
};

/* Opens a vendor's library, resolves its entries and initialises it.
 *
 * Errors: ACRE_ERR_UNSUPPORTED; one line says why: no library, not this library,
 * an entry point missing, too old, a stub, no device. Nothing stays open then
 * unless it was initialised.
 */
acre_status library_open(enum library_vendor vendor, struct driver_library *out);

/* "CUDA" or "HIP". */
const char *library_title(enum library_vendor vendor);
/* "cuMemAlloc_v2" or "hipMalloc"; "?" where the vendor has no such entry. */
const char *library_symbol(enum library_vendor vendor, enum driver_entry entry);
/* The driver's own name and text of a result; never NULL. */
const char *library_error_name(const struct driver_library *library, driver_result result);
const char *library_error_text(const struct driver_library *library, driver_result result);

/* The status that stands for a result. */
acre_status library_status(driver_result result);
/* ACRE_OK, or the status of a failed call, recorded with the name of the entry
 * and the driver's words. ACRE_ERR_NOT_READY is no failure and records nothing. */
acre_status library_check(const struct driver_library *library, enum driver_entry entry,
                          driver_result result);

#endif
