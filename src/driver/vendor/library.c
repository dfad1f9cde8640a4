/* SPDX-License-Identifier: MIT */
#include "driver/vendor/library.h"

#include "base/dl.h"
#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The oldest libraries that are used. */
#define CUDA_VERSION_MIN 11000    /* 11.0 */
#define HIP_VERSION_MIN  50000000 /* 5.0 */
/* Before HIP 6, physical memory is described by a struct of another layout. */
#define HIP_VERSION_VIRTUAL 60000000

/* ---- The list, expanded ------------------------------------------------------------- */

enum need {
    NEED_OPTIONAL = 0,
    NEED_REQUIRED,
    NEED_STREAMS,
    NEED_COPY,
    NEED_LAUNCH,
    NEED_VALUES,
    NEED_VIRTUAL,
    NEED_SHARE_FD,
    NEED_MULTICAST,
    NEED_CAPTURE,
    NEED_HOST_MEMORY,
    NEED_POINTERS,
    NEED_PEERS,
    NEED_IPC,
    NEED_GREEN,
    NEED_ASYNC,
    NEED_IPC_EVENTS,
};

static const uint32_t need_groups[] = {
    [NEED_OPTIONAL] = 0,
    [NEED_REQUIRED] = 0,
    [NEED_STREAMS] = ACRE_CAP_STREAMS,
    [NEED_COPY] = ACRE_CAP_COPY,
    [NEED_LAUNCH] = ACRE_CAP_LAUNCH,
    [NEED_VALUES] = ACRE_CAP_VALUES,
    [NEED_VIRTUAL] = ACRE_CAP_VIRTUAL,
    [NEED_SHARE_FD] = ACRE_CAP_SHARE_FD,
    [NEED_MULTICAST] = ACRE_CAP_MULTICAST,
    [NEED_CAPTURE] = ACRE_CAP_CAPTURE,
    [NEED_HOST_MEMORY] = ACRE_CAP_HOST_MEMORY,
    [NEED_POINTERS] = ACRE_CAP_POINTERS,
    [NEED_PEERS] = ACRE_CAP_PEERS,
    [NEED_IPC] = ACRE_CAP_IPC,
    [NEED_GREEN] = ACRE_CAP_GREEN,
    [NEED_ASYNC] = ACRE_CAP_ASYNC,
    [NEED_IPC_EVENTS] = ACRE_CAP_IPC_EVENTS,
};

struct library_row {
    enum need need;
    const char *cuda, *hip;
    size_t offset;
};

#define ROW(need, name, cuda, older, hip, parameters)                                              \
    {NEED_##need, #cuda, #hip, offsetof(struct driver_entries, name)},
static const struct library_row rows[ENTRY_COUNT] = {DRIVER_MAP(ROW)};

#define CUDA_SYMBOL(need, name, cuda, older, hip, parameters)                                      \
    {#cuda, older, offsetof(struct driver_entries, name), NEED_##need != NEED_REQUIRED},
#define HIP_SYMBOL(need, name, cuda, older, hip, parameters)                                       \
    {#hip, NULL, offsetof(struct driver_entries, name), NEED_##need != NEED_REQUIRED},
#define HIP_TEXT_SYMBOL(name, hip, parameters)                                                     \
    {#hip, NULL, offsetof(struct driver_entries, name), false},

static const struct dl_symbol cuda_symbols[] = {DRIVER_COMMON_MAP(CUDA_SYMBOL)
                                                    DRIVER_CUDA_MAP(CUDA_SYMBOL)};
static const struct dl_symbol hip_symbols[] = {
    DRIVER_COMMON_MAP(HIP_SYMBOL) DRIVER_HIP_MAP(HIP_SYMBOL) DRIVER_HIP_TEXT_MAP(HIP_TEXT_SYMBOL)};

/* What differs between the vendors when a library is opened. */
static const struct vendor {
    const char *title, *variable;
    const char *const *names;
    const struct dl_symbol *symbols;
    size_t symbol_count;
} vendors[] = {
    [VENDOR_CUDA] = {"CUDA", "ACRE_CUDA_LIBRARY", (const char *const[]){"libcuda.so.1", NULL},
                     cuda_symbols, sizeof cuda_symbols / sizeof cuda_symbols[0]},
    [VENDOR_HIP] = {"HIP", "ACRE_HIP_LIBRARY",
                    (const char *const[]){"libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6",
                                          "libamdhip64.so.5", NULL},
                    hip_symbols, sizeof hip_symbols / sizeof hip_symbols[0]},
};

const char *library_title(enum library_vendor vendor)
{
    return vendors[vendor].title;
}

const char *library_symbol(enum library_vendor vendor, enum driver_entry entry)
{
    const char *name = vendor == VENDOR_CUDA ? rows[entry].cuda : rows[entry].hip;

    return strcmp(name, "NONE") == 0 ? "?" : name;
}

static bool entry_is_there(const struct driver_library *library, enum driver_entry entry)
{
    void *address;

    memcpy(&address, (const char *)&library->call + rows[entry].offset, sizeof address);
    return address != NULL;
}

/* The groups whose entries are all there. */
static uint32_t groups_of(const struct driver_library *library)
{
    /* Fabric handles are a kind of shareable ones; devices tell whether they have any. */
    uint32_t groups = ACRE_CAP_CURRENT | ACRE_CAP_FABRIC;

    for (size_t i = 0; i < sizeof need_groups / sizeof need_groups[0]; i++)
        groups |= need_groups[i];
    for (int i = 0; i < ENTRY_COUNT; i++) {
        const char *name = library_symbol(library->vendor, (enum driver_entry)i);

        if (name[0] != '?' && !entry_is_there(library, (enum driver_entry)i))
            groups &= ~need_groups[rows[i].need];
    }
    if (library->vendor == VENDOR_HIP)
        groups &= ~(uint32_t)(ACRE_CAP_MULTICAST | ACRE_CAP_GREEN | ACRE_CAP_FABRIC);
    if (library->vendor == VENDOR_HIP && library->version < HIP_VERSION_VIRTUAL)
        groups &= ~(uint32_t)ACRE_CAP_VIRTUAL;
    if (!library->call.capture_info && !library->call.cuda_capture_info_v3)
        groups &= ~(uint32_t)ACRE_CAP_CAPTURE;
    if (!library->call.node_dependencies && !library->call.cuda_node_dependencies_v2)
        groups &= ~(uint32_t)ACRE_CAP_CAPTURE;
    if (!(groups & ACRE_CAP_STREAMS))
        groups &= ~(uint32_t)(ACRE_CAP_LAUNCH | ACRE_CAP_VALUES | ACRE_CAP_CAPTURE |
                              ACRE_CAP_GREEN | ACRE_CAP_ASYNC | ACRE_CAP_IPC_EVENTS);
    if (!(groups & ACRE_CAP_VIRTUAL))
        groups &= ~(uint32_t)(ACRE_CAP_SHARE_FD | ACRE_CAP_MULTICAST);
    if (!(groups & ACRE_CAP_SHARE_FD))
        groups &= ~(uint32_t)ACRE_CAP_FABRIC;
    if (!(groups & ACRE_CAP_COPY))
        groups &= ~(uint32_t)ACRE_CAP_MULTICAST;
    return groups;
}

/* ---- Opening ------------------------------------------------------------------------ */

/* Finds the library and resolves it. Nothing is called yet. */
static acre_status library_find(const struct vendor *vendor, struct driver_library *library)
{
    const char *path = getenv(vendor->variable);
    const char *only[] = {path, NULL};
    acre_status status = dl_open(path && *path ? only : vendor->names, vendor->symbols,
                                 vendor->symbol_count, &library->call, &library->handle);
    struct status_saved why;

    if (status == ACRE_OK)
        return status;
    status_save(&why);
    return status_fail(ACRE_ERR_UNSUPPORTED, "no %s driver: %s", vendor->title, why.text);
}

static acre_status library_refuse(const struct driver_library *library, const char *call,
                                  driver_result result)
{
    /* A machine without a device of this vendor; HIP calls that an invalid device. */
    if (result == DRIVER_NO_DEVICE || result == DRIVER_INVALID_DEVICE)
        return status_fail_native(ACRE_ERR_UNSUPPORTED, (long)result,
                                  "the %s driver is here and finds no device (%s: %s)",
                                  library_title(library->vendor), call,
                                  library_error_name(library, result));
    if (result == DRIVER_STUB_LIBRARY && library->vendor == VENDOR_CUDA)
        return status_fail_native(
            ACRE_ERR_UNSUPPORTED, (long)result,
            "the CUDA library is the toolkit's stub for linking, which finds no device (%s: "
            "CUDA_ERROR_STUB_LIBRARY); install the driver, or name its libcuda.so.1 by %s",
            call, vendors[library->vendor].variable);
    return status_fail_native(
        ACRE_ERR_UNSUPPORTED, (long)result, "the %s driver does not work: %s: %s (%s)",
        library_title(library->vendor), call, library_error_text(library, result),
        library_error_name(library, result));
}

static acre_status version_check(struct driver_library *library)
{
    bool is_cuda = library->vendor == VENDOR_CUDA;
    int oldest = is_cuda ? CUDA_VERSION_MIN : HIP_VERSION_MIN;
    driver_result result = is_cuda ? library->call.cuda_version(&library->version)
                                   : library->call.hip_version(&library->version);

    if (result != DRIVER_SUCCESS)
        return library_refuse(library, is_cuda ? "cuDriverGetVersion" : "hipRuntimeGetVersion",
                              result);
    if (library->version < oldest)
        return status_fail(ACRE_ERR_UNSUPPORTED,
                           "the %s driver is too old: version %d; %s or later is needed",
                           library_title(library->vendor), library->version,
                           is_cuda ? "11000 (CUDA 11.0)" : "50000000 (HIP 5.0)");
    return ACRE_OK;
}

/* From here on the library stays loaded. */
static acre_status library_start(struct driver_library *library)
{
    driver_result result = library->call.init(0);
    int count = 0;

    if (result != DRIVER_SUCCESS)
        return library_refuse(library, library_symbol(library->vendor, ENTRY_init), result);
    result = library->call.device_count(&count);
    if (result != DRIVER_SUCCESS)
        return library_refuse(library, library_symbol(library->vendor, ENTRY_device_count), result);
    if (count <= 0)
        return status_fail(ACRE_ERR_UNSUPPORTED, "the %s driver is here and finds no device",
                           library_title(library->vendor));
    return ACRE_OK;
}

acre_status library_open(enum library_vendor vendor, struct driver_library *out)
{
    acre_status status;

    memset(out, 0, sizeof *out);
    out->vendor = vendor;
    status = library_find(&vendors[vendor], out);
    if (status != ACRE_OK)
        return status;
    status = version_check(out);
    if (status != ACRE_OK) {
        dl_close(out->handle);
        memset(out, 0, sizeof *out);
        return status;
    }
    out->groups = groups_of(out);
    return library_start(out);
}

/* ---- Errors ------------------------------------------------------------------------- */

const char *library_error_name(const struct driver_library *library, driver_result result)
{
    const char *name = NULL;

    if (library->vendor == VENDOR_HIP)
        name = library->call.hip_error_name(result);
    else if (library->call.cuda_error_name(result, &name) != DRIVER_SUCCESS)
        name = NULL;
    return name ? name : "an error without a name";
}

const char *library_error_text(const struct driver_library *library, driver_result result)
{
    const char *text = NULL;

    if (library->vendor == VENDOR_HIP)
        text = library->call.hip_error_text(result);
    else if (library->call.cuda_error_text(result, &text) != DRIVER_SUCCESS)
        text = NULL;
    return text ? text : "no text";
}

acre_status library_status(driver_result result)
{
    switch (result) {
    case DRIVER_SUCCESS:
        return ACRE_OK;
    case DRIVER_OUT_OF_MEMORY:
        return ACRE_ERR_DEVICE_MEMORY;
    case DRIVER_NOT_READY:
        return ACRE_ERR_NOT_READY;
    case DRIVER_INVALID_VALUE:
    case DRIVER_INVALID_DEVICE:
    case DRIVER_INVALID_CONTEXT:
    case DRIVER_INVALID_HANDLE:
    case DRIVER_HOST_UNKNOWN:
        return ACRE_ERR_INVALID;
    case DRIVER_NOT_FOUND:
        return ACRE_ERR_NOT_FOUND;
    case DRIVER_HOST_ALREADY:
    case DRIVER_PEER_ALREADY:
        return ACRE_ERR_EXISTS;
    case DRIVER_ILLEGAL_STATE:
    case DRIVER_NOT_INITIALIZED:
    case DRIVER_DEINITIALIZED:
        return ACRE_ERR_STATE;
    case DRIVER_STUB_LIBRARY:
    case DRIVER_NO_DEVICE:
    case DRIVER_NOT_SUPPORTED:
    case DRIVER_NOT_PERMITTED:
    case DRIVER_PEER_UNSUPPORTED:
        return ACRE_ERR_UNSUPPORTED;
    default:
        break;
    }
    /* What is not possible, or has become so, because a stream is captured. */
    if (result >= DRIVER_CAPTURE_UNSUPPORTED && result <= DRIVER_CAPTURE_WRONG_THREAD)
        return ACRE_ERR_STATE;
    return ACRE_ERR_DEVICE;
}

acre_status library_check(const struct driver_library *library, enum driver_entry entry,
                          driver_result result)
{
    acre_status status = library_status(result);

    if (status == ACRE_OK || status == ACRE_ERR_NOT_READY)
        return status;
    return status_fail_native(
        status, (long)result, "%s: %s (%s)", library_symbol(library->vendor, entry),
        library_error_text(library, result), library_error_name(library, result));
}
