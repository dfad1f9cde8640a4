/* SPDX-License-Identifier: MIT */
/* DLPack, out and in.
 *
 * An export is one piece of host memory: the tensor in either form, the data pointer
 * that it owns, and its shape and strides behind. An import needs none: the context of
 * the data pointer is the tensor itself.
 *
 * Tensors come from other programs, so every number is checked before it is used: the
 * extent of a tensor is computed once, here, with overflows noticed.
 */
#include "exchange/dlpack.h"

#include "base/heap.h"
#include "base/status.h"
#include "base/struct_size.h"
#include "base/text.h"

#include <inttypes.h>
#include <string.h>

struct export
{
    union {
        acre_dl_managed plain;
        acre_dl_versioned versioned;
    } form;
    acre_data_ptr owner;
    int64_t numbers[]; /* shape, then strides */
};

/* ---- Devices -------------------------------------------------------------------- */

/* One row per kind of DLPack; the first row of a type is what exports use. */
static const struct {
    acre_dl_device_type foreign;
    acre_device_type ours;
} device_map[] = {
    {ACRE_DL_CPU, ACRE_DEVICE_CPU},           {ACRE_DL_CUDA, ACRE_DEVICE_CUDA},
    {ACRE_DL_OPENCL, ACRE_DEVICE_OPENCL},     {ACRE_DL_ROCM, ACRE_DEVICE_HIP},
    {ACRE_DL_EXTENSION, ACRE_DEVICE_PRIVATE}, {ACRE_DL_CUDA_HOST, ACRE_DEVICE_CPU},
    {ACRE_DL_ROCM_HOST, ACRE_DEVICE_CPU},     {ACRE_DL_CUDA_MANAGED, ACRE_DEVICE_CUDA},
};
enum { DEVICE_MAP_COUNT = sizeof device_map / sizeof device_map[0] };

static acre_status device_export(acre_device_id device, acre_dl_device *out)
{
    for (int i = 0; i < DEVICE_MAP_COUNT; i++)
        if (device_map[i].ours == device.type) {
            *out = (acre_dl_device){device_map[i].foreign, device.index < 0 ? 0 : device.index};
            return ACRE_OK;
        }
    return status_fail(ACRE_ERR_UNSUPPORTED,
                       "DLPack has no device of type %d; copy the data to "
                       "the host first",
                       (int)device.type);
}

static acre_status device_import(acre_dl_device device, acre_device_id *out)
{
    if (device.index < 0)
        return status_fail(ACRE_ERR_INVALID,
                           "the tensor's device index is %" PRId32 "; they begin at 0",
                           device.index);
    for (int i = 0; i < DEVICE_MAP_COUNT; i++)
        if ((int32_t)device_map[i].foreign == device.type) {
            acre_device_type type = device_map[i].ours;

            *out = (acre_device_id){type, type == ACRE_DEVICE_CPU ? 0 : device.index};
            return ACRE_OK;
        }
    return status_fail(ACRE_ERR_UNSUPPORTED,
                       "the tensor is on a device of DLPack's type %" PRId32
                       ", which Acre has no backend for; copy it to the host first",
                       device.type);
}

/* ---- Extents -------------------------------------------------------------------- */

/* What both an exported layout and an imported tensor say. */
struct dlpack_extent {
    int32_t ndim;
    acre_dl_type dtype;
    const int64_t *shape;
    const int64_t *strides; /* NULL: compact */
};

static acre_status extent_check(const struct dlpack_extent *extent)
{
    if (extent->ndim < 0 || extent->ndim > ACRE_DLPACK_DIMS_MAX)
        return status_fail(ACRE_ERR_INVALID, "%" PRId32 " dimensions; there may be 0 to %d",
                           extent->ndim, ACRE_DLPACK_DIMS_MAX);
    if (extent->ndim > 0 && !extent->shape)
        return status_fail(ACRE_ERR_INVALID, "the shape of %" PRId32 " dimension%s is NULL",
                           extent->ndim, text_plural((uint64_t)extent->ndim));
    if (extent->dtype.bits == 0 || extent->dtype.lanes == 0)
        return status_fail(ACRE_ERR_INVALID, "elements of %u lane%s of %u bit%s; neither may be 0",
                           extent->dtype.lanes, text_plural(extent->dtype.lanes),
                           extent->dtype.bits, text_plural(extent->dtype.bits));
    for (int32_t i = 0; i < extent->ndim; i++)
        if (extent->shape[i] < 0 || (extent->strides && extent->strides[i] < 0))
            return status_fail(ACRE_ERR_INVALID,
                               "dimension %" PRId32 " has %" PRId64 " elements "
                               "and stride %" PRId64 "; neither may be below 0",
                               i, extent->shape[i], extent->strides ? extent->strides[i] : 0);
    return ACRE_OK;
}

static bool extent_is_empty(const struct dlpack_extent *extent)
{
    for (int32_t i = 0; i < extent->ndim; i++)
        if (extent->shape[i] == 0)
            return true;
    return false;
}

/* One more than the place of the last element; false when it does not fit. */
static bool extent_reach(const struct dlpack_extent *extent, uint64_t *out)
{
    uint64_t reach = 1, compact = 1;

    for (int32_t i = extent->ndim - 1; i >= 0; i--) {
        uint64_t stride = extent->strides ? (uint64_t)extent->strides[i] : compact, step;

        if (__builtin_mul_overflow((uint64_t)(extent->shape[i] - 1), stride, &step) ||
            __builtin_add_overflow(reach, step, &reach) ||
            __builtin_mul_overflow(compact, (uint64_t)extent->shape[i], &compact))
            return false;
    }
    *out = reach;
    return true;
}

static acre_status extent_bytes(const struct dlpack_extent *extent, uint64_t *out)
{
    uint64_t element_bits = (uint64_t)extent->dtype.bits * extent->dtype.lanes, reach, bits;
    acre_status status = extent_check(extent);

    if (status != ACRE_OK)
        return status;
    if (extent_is_empty(extent)) {
        *out = 0;
        return ACRE_OK;
    }
    if (!extent_reach(extent, &reach) || __builtin_mul_overflow(reach, element_bits, &bits) ||
        bits > INT64_MAX)
        return status_fail(ACRE_ERR_INVALID,
                           "the shape of %" PRId32 " dimensions has more "
                           "elements than there are addresses",
                           extent->ndim);
    *out = (bits + 7) / 8;
    return ACRE_OK;
}

static struct dlpack_extent tensor_extent(const acre_dl_tensor *tensor)
{
    return (struct dlpack_extent){tensor->ndim, tensor->dtype, tensor->shape, tensor->strides};
}

acre_status dlpack_bytes(const acre_dl_tensor *tensor, uint64_t *out_bytes)
{
    if (!tensor || !out_bytes)
        return status_fail(ACRE_ERR_INVALID, "dlpack_bytes: an argument is NULL");
    struct dlpack_extent extent = tensor_extent(tensor);

    return extent_bytes(&extent, out_bytes);
}

/* ---- Out ------------------------------------------------------------------------ */

static void export_end(struct export *export)
{
    acre_data_ptr_clear(&export->owner);
    heap_free(export);
}

static void plain_delete(acre_dl_managed *self)
{
    if (self)
        export_end(self->manager_ctx);
}

static void versioned_delete(acre_dl_versioned *self)
{
    if (self)
        export_end(self->manager_ctx);
}

static acre_status layout_check(const acre_data_ptr *ptr, const acre_dl_layout *layout)
{
    uint64_t bytes, end;

    struct dlpack_extent extent = {layout->ndim, layout->dtype, layout->shape, layout->strides};
    acre_status status = extent_bytes(&extent, &bytes);
    if (status != ACRE_OK)
        return status;
    if (bytes && !ptr->data)
        return status_fail(ACRE_ERR_INVALID,
                           "the layout has %" PRIu64 " bytes of elements and "
                           "the data pointer is empty",
                           bytes);
    if (__builtin_add_overflow(bytes, layout->byte_offset, &end) ||
        (layout->bytes && end > layout->bytes))
        return status_fail(ACRE_ERR_INVALID,
                           "the layout needs %" PRIu64 " bytes from offset %" PRIu64
                           "; the memory has %" PRIu64,
                           bytes, layout->byte_offset, layout->bytes);
    return ACRE_OK;
}

static void strides_fill(int64_t *strides, const acre_dl_layout *layout)
{
    uint64_t compact = 1;

    for (int32_t i = layout->ndim - 1; i >= 0; i--) {
        strides[i] = layout->strides ? layout->strides[i] : (int64_t)compact;
        /* Where a dimension is 0 the others may be anything; nobody multiplies by them. */
        compact *= layout->shape[i] ? (uint64_t)layout->shape[i] : 1;
    }
}

/* Checks everything, and gives an export with its tensor filled in; ptr is empty then. */
static acre_status export_create(acre_data_ptr *ptr, const acre_dl_layout *given,
                                 acre_dl_tensor *tensor, struct export **out)
{
    struct export *export;
    acre_dl_device device;
    acre_dl_layout whole, *layout = &whole;

    if (!ptr)
        return status_fail(ACRE_ERR_INVALID, "acre_to_dlpack: ptr is NULL");
    acre_status status = STRUCT_TAKE("acre_to_dlpack", acre_dl_layout, given, layout);
    if (status == ACRE_OK)
        status = layout_check(ptr, layout);
    if (status == ACRE_OK)
        status = device_export(ptr->device, &device);
    if (status != ACRE_OK)
        return status;
    size_t ndim = (size_t)layout->ndim;
    export = heap_zalloc(sizeof *export + 2 * ndim * sizeof export->numbers[0]);
    if (!export)
        return ACRE_ERR_HOST_MEMORY;
    if (ndim)
        memcpy(export->numbers, layout->shape, ndim * sizeof export->numbers[0]);
    strides_fill(export->numbers + ndim, layout);
    *tensor = (acre_dl_tensor){ptr->data,          device,          layout->ndim,
                               layout->dtype,      export->numbers, export->numbers + ndim,
                               layout->byte_offset};
    acre_data_ptr_init(&export->owner);
    acre_data_ptr_move(&export->owner, ptr);
    *out = export;
    return ACRE_OK;
}

acre_status acre_to_dlpack(acre_data_ptr *ptr, const acre_dl_layout *layout, acre_dl_managed **out)
{
    acre_dl_tensor tensor;
    struct export *export;

    if (!out)
        return status_fail(ACRE_ERR_INVALID, "acre_to_dlpack: out is NULL");
    acre_status status = export_create(ptr, layout, &tensor, &export);
    if (status != ACRE_OK)
        return status;
    export->form.plain = (acre_dl_managed){tensor, export, plain_delete};
    *out = &export->form.plain;
    return ACRE_OK;
}

acre_status acre_to_dlpack_versioned(acre_data_ptr *ptr, const acre_dl_layout *layout,
                                     acre_dl_versioned **out)
{
    acre_dl_tensor tensor;
    struct export *export;

    if (!out)
        return status_fail(ACRE_ERR_INVALID, "acre_to_dlpack_versioned: out is NULL");
    acre_status status = export_create(ptr, layout, &tensor, &export);
    if (status != ACRE_OK)
        return status;
    export->form.versioned = (acre_dl_versioned){ACRE_DLPACK_MAJOR, ACRE_DLPACK_MINOR, export,
                                                 versioned_delete,  layout->flags,     tensor};
    *out = &export->form.versioned;
    return ACRE_OK;
}

/* ---- In ------------------------------------------------------------------------- */

static void plain_release(void *context)
{
    acre_dl_managed *tensor = context;

    if (tensor->deleter)
        tensor->deleter(tensor);
}

static void versioned_release(void *context)
{
    acre_dl_versioned *tensor = context;

    if (tensor->deleter)
        tensor->deleter(tensor);
}

static acre_status tensor_import(const acre_dl_tensor *tensor, void *context, acre_deleter deleter,
                                 acre_data_ptr *out, uint64_t *out_bytes)
{
    acre_device_id device;
    uint64_t bytes, end;

    if (!out)
        return status_fail(ACRE_ERR_INVALID, "acre_from_dlpack: out is NULL");
    acre_status status = dlpack_bytes(tensor, &bytes);
    if (status == ACRE_OK)
        status = device_import(tensor->device, &device);
    if (status != ACRE_OK)
        return status;
    if (bytes && !tensor->data)
        return status_fail(ACRE_ERR_INVALID,
                           "the tensor has %" PRIu64 " bytes of elements and "
                           "its data is NULL",
                           bytes);
    if (__builtin_add_overflow((uint64_t)(uintptr_t)tensor->data, tensor->byte_offset, &end) ||
        __builtin_add_overflow(end, bytes, &end))
        return status_fail(ACRE_ERR_INVALID,
                           "the tensor's offset of %" PRIu64 " bytes leads "
                           "beyond the last address",
                           tensor->byte_offset);
    void *data = tensor->data ? (char *)tensor->data + tensor->byte_offset : NULL;
    acre_data_ptr_make(out, data, context, deleter, device);
    if (out_bytes)
        *out_bytes = bytes;
    return ACRE_OK;
}

acre_status acre_from_dlpack(acre_dl_managed *tensor, acre_data_ptr *out, uint64_t *out_bytes)
{
    if (!tensor)
        return status_fail(ACRE_ERR_INVALID, "acre_from_dlpack: the tensor is NULL");
    return tensor_import(&tensor->tensor, tensor, plain_release, out, out_bytes);
}

acre_status acre_from_dlpack_versioned(acre_dl_versioned *tensor, acre_data_ptr *out,
                                       uint64_t *out_bytes)
{
    if (!tensor)
        return status_fail(ACRE_ERR_INVALID, "acre_from_dlpack_versioned: the tensor is NULL");
    if (tensor->major != ACRE_DLPACK_MAJOR)
        return status_fail(ACRE_ERR_UNSUPPORTED,
                           "the tensor follows DLPack %" PRIu32 ".%" PRIu32
                           "; this library knows version %d, ask its maker for that",
                           tensor->major, tensor->minor, ACRE_DLPACK_MAJOR);
    return tensor_import(&tensor->tensor, tensor, versioned_release, out, out_bytes);
}
