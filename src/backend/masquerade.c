/* SPDX-License-Identifier: MIT */
/* A backend shown under another device type.
 *
 *                    TRANSLATE               RENAME
 *   shown outside    CUDA, same index, id    CUDA
 *   held inside      HIP                     CUDA: HIP is seen by nobody
 *   HIP looked up    finds the backend       finds nothing
 *
 * The registry does the lookups (backend.c); here are the values that cross the
 * border. Nothing but the type of a value ever changes.
 */
#include "backend/backend.h"

#include "backend/device.h"
#include "base/status.h"

#include <stdio.h>

acre_status acre_masquerade_register(acre_backend *backend, acre_device_type shown,
                                     acre_masquerade_form form)
{
    NEED(backend);
    if (!device_type_is_valid((int)shown) || shown == backend->type)
        return status_fail(ACRE_ERR_INVALID,
                           "backend \"%s\" of type %s cannot be shown as type %s (%d)",
                           backend->name, acre_device_type_name(backend->type),
                           acre_device_type_name(shown), (int)shown);
    if (form != ACRE_MASQUERADE_TRANSLATE && form != ACRE_MASQUERADE_RENAME)
        return status_fail(ACRE_ERR_INVALID, "masquerade form %d does not exist", (int)form);
    return backend_show(backend, shown, (int)form);
}

void acre_masquerade_unregister(acre_backend *backend)
{
    if (backend)
        backend_show(backend, backend->type, 0);
}

/* The type of values inside. */
static acre_device_type inner_type(const acre_backend *backend)
{
    return backend->form == ACRE_MASQUERADE_RENAME ? (acre_device_type)backend->shown
                                                   : backend->type;
}

static acre_status check_type(const acre_backend *backend, acre_stream stream,
                              acre_device_type wanted)
{
    if (stream.type != (int32_t)wanted)
        return status_fail(ACRE_ERR_INVALID,
                           "stream %lld on device %s:%d is not of type %s, which backend \"%s\" "
                           "expects here",
                           (long long)stream.id,
                           acre_device_type_name((acre_device_type)stream.type), stream.index,
                           acre_device_type_name(wanted), backend->name);
    return ACRE_OK;
}

static acre_status check_masked(const acre_backend *backend, acre_stream stream)
{
    if (!backend->form)
        return status_fail(ACRE_ERR_STATE, "backend \"%s\" does not masquerade", backend->name);
    if (!device_type_is_valid(stream.type))
        return status_fail(ACRE_ERR_INVALID, "device type %d of a stream does not exist",
                           stream.type);
    return ACRE_OK;
}

acre_status acre_masquerade_wrap(acre_backend *backend, acre_stream shown, bool unchecked,
                                 acre_stream *out_inner)
{
    acre_status status;

    NEED(backend);
    NEED(out_inner);
    status = check_masked(backend, shown);
    if (status == ACRE_OK && !unchecked)
        status = check_type(backend, shown, (acre_device_type)backend->shown);
    if (status != ACRE_OK)
        return status;
    shown.type = (int32_t)inner_type(backend);
    *out_inner = shown;
    return ACRE_OK;
}

acre_status acre_masquerade_unwrap(acre_backend *backend, acre_stream inner, acre_stream *out_shown)
{
    acre_status status;

    NEED(backend);
    NEED(out_shown);
    status = check_masked(backend, inner);
    if (status == ACRE_OK)
        status = check_type(backend, inner, inner_type(backend));
    if (status != ACRE_OK)
        return status;
    inner.type = backend->shown;
    *out_shown = inner;
    return ACRE_OK;
}

int acre_masquerade_text(acre_backend *backend, acre_stream shown, char *buffer, size_t bytes)
{
    char inner_text[96];
    acre_stream inner = shown;

    if (!backend || !backend->form)
        return acre_stream_text(shown, buffer, bytes);
    inner.type = (int32_t)inner_type(backend);
    acre_stream_text(inner, inner_text, sizeof inner_text);
    return snprintf(buffer, buffer ? bytes : 0, "%s (masquerading as %s)", inner_text,
                    acre_device_type_name((acre_device_type)backend->shown));
}
