/* SPDX-License-Identifier: MIT */
/* Backends that say something wrong about themselves, one for each LIE_ macro. */
#include <acre/backend.h>

#include <string.h>

static acre_status count(void *self, int *out_count)
{
    (void)self;
#if defined LIE_COUNT
    return ACRE_ERR_DEVICE;
#elif defined LIE_MANY
    *out_count = 1000000;
#elif defined LIE_FEW
    *out_count = -1;
#elif defined LIE_NONE
    *out_count = 0;
#else
    *out_count = 1;
#endif
    return ACRE_OK;
}

static acre_status info(void *self, int device, acre_device_info *out)
{
    (void)self;
    (void)device;
    memset(out, 'x', sizeof *out); /* the name does not end */
    out->total_bytes = 1 << 20;
    out->alloc_granularity = 512;
    out->capabilities = 0;
#ifdef LIE_UNIT
    out->alloc_granularity = 100;
#endif
#ifdef LIE_CLAIM
    out->capabilities = ACRE_CAP_VIRTUAL;
#endif
    return ACRE_OK;
}

static acre_status memory(void *self, int device, uint64_t *out_free, uint64_t *out_total)
{
    (void)self;
    (void)device;
    *out_free = *out_total = 1 << 20;
    return ACRE_OK;
}

static acre_status none(void *self, int device, size_t bytes, void **out)
{
    (void)self;
    (void)device;
    (void)bytes;
    (void)out;
    return ACRE_ERR_DEVICE_MEMORY;
}

static acre_status give(void *self, int device, void *base)
{
    (void)self;
    (void)device;
    (void)base;
    return ACRE_ERR_INVALID;
}

#ifdef LIE_HALF
static acre_status query(void *self, int device, void *stream)
{
    (void)self;
    (void)device;
    (void)stream;
    return ACRE_OK;
}
#endif

ACRE_API acre_status acre_backend_describe(acre_backend_desc *out);

acre_status acre_backend_describe(acre_backend_desc *out)
{
    static acre_backend_ops ops = {
        .struct_size = sizeof ops,
        .version = ACRE_BACKEND_VERSION,
        .device_count = count,
        .device_info = info,
        .memory_info = memory,
        .alloc = none,
        .free = give,
    };

#ifdef LIE_ANSWER
    return ACRE_ERR_DEVICE;
#endif
    out->name = "liar";
    out->type = ACRE_DEVICE_PRIVATE;
    out->ops = &ops;
#ifdef LIE_NAME
    out->name = NULL;
#endif
#ifdef LIE_SPELLING
    out->name = "a name; with anything in it\n";
#endif
#ifdef LIE_BUILTIN
    out->name = "sim";
#endif
#ifdef LIE_OPS
    out->ops = NULL;
#endif
#ifdef LIE_VERSION
    ops.version = 77;
#endif
#ifdef LIE_SIZE
    ops.struct_size = 4;
#endif
#ifdef LIE_TYPE
    out->type = (acre_device_type)99;
#endif
#ifdef LIE_CODEC
    out->codec = (acre_stream_codec)9;
#endif
#ifdef LIE_GAP
    ops.free = NULL;
#endif
#ifdef LIE_HALF
    ops.stream_query = query;
#endif
    return ACRE_OK;
}
