/* SPDX-License-Identifier: MIT */
#include "tests/support/fake_inside.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int stream_number(const void *stream)
{
    return (int)((uintptr_t)stream >> 8);
}

void *fake_stream(int number)
{
    return (void *)((uintptr_t)number << 8);
}

acre_status fake_called(struct fake *fake, enum fake_call call)
{
    fake->calls[call]++;
    if (!fake->fail_nth || (fake->fail_call != FAKE_ANY && fake->fail_call != (int)call))
        return ACRE_OK;
    if (--fake->fail_nth)
        return ACRE_OK;
    fake->has_failed = true;
    return fake->fail_status;
}

static acre_status fake_device_count(void *self, int *out)
{
    *out = ((struct fake *)self)->config.devices;
    return ACRE_OK;
}

static acre_status fake_device_info(void *self, int device, acre_device_info *out)
{
    struct fake *fake = self;

    (void)device;
    *out = (acre_device_info){.name = "fake", .total_bytes = fake->config.bytes,
                              .alloc_granularity = fake->config.granularity,
                              .page_bytes = fake->config.page_bytes};
    return ACRE_OK;
}

static acre_status fake_memory_info(void *self, int device, uint64_t *out_free,
                                    uint64_t *out_total)
{
    struct fake *fake = self;

    pthread_mutex_lock(&fake->lock);
    acre_status status = fake_called(fake, FAKE_MEMORY_INFO);
    if (status == ACRE_OK) {
        *out_free = fake->config.bytes - fake->used[device];
        *out_total = fake->config.bytes;
    }
    pthread_mutex_unlock(&fake->lock);
    return status;
}

static void piece_add(struct fake *fake, void *base, uint64_t bytes, int device)
{
    if (fake->piece_count == fake->piece_capacity) {
        fake->piece_capacity = 2 * fake->piece_capacity + 64;
        fake->pieces = realloc(fake->pieces, fake->piece_capacity * sizeof *fake->pieces);
        if (!fake->pieces)
            abort();
    }
    fake->pieces[fake->piece_count++] = (struct piece){(uintptr_t)base, bytes, device};
}

/* The live allocation of a device at exactly base, or NULL. */
static struct piece *piece_find(struct fake *fake, const void *base, int device)
{
    for (size_t i = fake->piece_count; i-- > 0;)
        if (fake->pieces[i].base == (uintptr_t)base)
            return fake->pieces[i].device == device ? &fake->pieces[i] : NULL;
    return NULL;
}

void *fake_address(struct fake *fake, uint64_t bytes)
{
    uint64_t extent = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;

    if (fake->config.is_descending)
        return (void *)(uintptr_t)(fake->address -= extent);
    fake->address += extent;
    return (void *)(uintptr_t)(fake->address - extent);
}

static acre_status fake_alloc(void *self, int device, size_t bytes, void **out)
{
    struct fake *fake = self;

    if (fake->on_alloc)
        fake->on_alloc(fake->on_alloc_arg);
    pthread_mutex_lock(&fake->lock);
    acre_status status = fake_called(fake, FAKE_ALLOC);
    if (status == ACRE_OK && bytes % fake->config.granularity)
        status = ACRE_ERR_INVALID;
    if (status == ACRE_OK && bytes > fake->config.bytes - fake->used[device])
        status = ACRE_ERR_DEVICE_MEMORY;
    if (status == ACRE_OK) {
        *out = fake_address(fake, bytes);
        piece_add(fake, *out, bytes, device);
        fake->used[device] += bytes;
    }
    pthread_mutex_unlock(&fake->lock);
    return status;
}

static acre_status fake_free(void *self, int device, void *base)
{
    struct fake *fake = self;

    pthread_mutex_lock(&fake->lock);
    acre_status status = fake_called(fake, FAKE_FREE);
    struct piece *piece = piece_find(fake, base, device);
    if (status == ACRE_OK && !piece)
        status = ACRE_ERR_INVALID;
    if (status == ACRE_OK) {
        fake->used[device] -= piece->bytes;
        size_t after = (size_t)(fake->pieces + --fake->piece_count - piece);
        memmove(piece, piece + 1, after * sizeof *piece);
    }
    pthread_mutex_unlock(&fake->lock);
    return status;
}

/* ---- Streams and events ------------------------------------------------------ */

static acre_status fake_stream_create(void *self, int device, uint32_t flags, int priority,
                                      void **out)
{
    (void)self, (void)device, (void)flags, (void)priority;
    *out = fake_stream(1);
    return ACRE_OK;
}

static acre_status fake_stream_none(void *self, int device, void *stream)
{
    (void)self, (void)device, (void)stream;
    return ACRE_OK;
}

static acre_status fake_stream_wait(void *self, int device, void *stream, void *event)
{
    (void)self, (void)device, (void)stream, (void)event;
    return ACRE_OK;
}

static acre_status fake_stream_priority(void *self, int device, void *stream, int *out)
{
    (void)self, (void)device, (void)stream;
    *out = 0;
    return ACRE_OK;
}

static acre_status fake_synchronize(void *self, int device)
{
    struct fake *fake = self;

    (void)device;
    pthread_mutex_lock(&fake->lock);
    acre_status status = fake_called(fake, FAKE_DEVICE_SYNC);
    pthread_mutex_unlock(&fake->lock);
    return status;
}

static acre_status fake_event_create(void *self, int device, uint32_t flags, void **out)
{
    struct fake *fake = self;

    (void)device, (void)flags;
    pthread_mutex_lock(&fake->lock);
    acre_status status = fake_called(fake, FAKE_EVENT_CREATE);
    if (status == ACRE_OK) {
        *out = calloc(1, sizeof(struct event));
        fake->event_count++;
    }
    pthread_mutex_unlock(&fake->lock);
    return status;
}

static acre_status fake_event_destroy(void *self, int device, void *event)
{
    struct fake *fake = self;

    (void)device;
    pthread_mutex_lock(&fake->lock);
    fake_called(fake, FAKE_EVENT_DESTROY);
    fake->event_count--;
    pthread_mutex_unlock(&fake->lock);
    free(event);
    return ACRE_OK;
}

static acre_status fake_event_record(void *self, int device, void *handle, void *stream)
{
    struct fake *fake = self;
    struct event *event = handle;

    (void)device;
    pthread_mutex_lock(&fake->lock);
    acre_status status = fake_called(fake, FAKE_EVENT_RECORD);
    if (status == ACRE_OK) {
        event->stream = stream_number(stream);
        event->ticket = ++fake->submitted[event->stream];
        if (fake->config.completes_at_once)
            fake->done[event->stream] = event->ticket;
    }
    pthread_mutex_unlock(&fake->lock);
    return status;
}

static acre_status fake_event_query(void *self, int device, void *handle)
{
    struct fake *fake = self;
    struct event *event = handle;

    (void)device;
    pthread_mutex_lock(&fake->lock);
    acre_status status = fake_called(fake, FAKE_EVENT_QUERY);
    if (status == ACRE_OK && fake->done[event->stream] < event->ticket)
        status = ACRE_ERR_NOT_READY;
    pthread_mutex_unlock(&fake->lock);
    return status;
}

static acre_status fake_event_synchronize(void *self, int device, void *handle)
{
    struct fake *fake = self;
    struct event *event = handle;

    (void)device;
    pthread_mutex_lock(&fake->lock);
    acre_status status = fake_called(fake, FAKE_EVENT_SYNC);
    if (status == ACRE_OK && fake->done[event->stream] < event->ticket)
        fake->done[event->stream] = event->ticket;
    pthread_mutex_unlock(&fake->lock);
    return status;
}

static acre_status fake_event_elapsed(void *self, int device, void *start, void *end,
                                      double *out_ms)
{
    (void)self, (void)device, (void)start, (void)end;
    *out_ms = 0;
    return ACRE_OK;
}

static const acre_backend_ops required = {
    .struct_size = sizeof(acre_backend_ops),
    .version = ACRE_BACKEND_VERSION,
    .device_count = fake_device_count,
    .device_info = fake_device_info,
    .memory_info = fake_memory_info,
    .alloc = fake_alloc,
    .free = fake_free,
};

static acre_backend_ops table_of(const struct fake_config *config)
{
    acre_backend_ops ops = required;

    if (config->page_bytes)
        fake_virtual_fill(&ops);
    if (config->without_streams)
        return ops;
    ops.stream_create = fake_stream_create;
    ops.stream_destroy = fake_stream_none;
    ops.stream_query = fake_stream_none;
    ops.stream_synchronize = fake_stream_none;
    ops.stream_wait_event = fake_stream_wait;
    ops.stream_priority = fake_stream_priority;
    ops.device_synchronize = fake_synchronize;
    ops.event_create = fake_event_create;
    ops.event_destroy = fake_event_destroy;
    ops.event_record = fake_event_record;
    ops.event_query = fake_event_query;
    ops.event_synchronize = fake_event_synchronize;
    ops.event_elapsed = fake_event_elapsed;
    return ops;
}

/* ---- The fake itself ------------------------------------------------------------ */

struct fake *fake_create(const struct fake_config *config)
{
    static _Atomic unsigned number;
    struct fake *fake = calloc(1, sizeof *fake);
    char name[32];

    if (config)
        fake->config = *config;
    fake->config.bytes = fake->config.bytes ? fake->config.bytes : (uint64_t)8 << 30;
    fake->config.devices = fake->config.devices ? fake->config.devices : 1;
    fake->config.granularity = fake->config.granularity ? fake->config.granularity : 512;
    fake->address = (uint64_t)1 << 44;
    pthread_mutex_init(&fake->lock, NULL);
    snprintf(name, sizeof name, "fake%u", atomic_fetch_add(&number, 1));
    acre_backend_ops ops = table_of(&fake->config);
    acre_backend_desc desc = {.struct_size = sizeof desc, .name = name,
                              .type = ACRE_DEVICE_OPENCL, .ops = &ops, .self = fake};
    if (acre_backend_register(&desc, &fake->backend) != ACRE_OK) {
        fprintf(stderr, "fake_create: %s\n", acre_last_error());
        abort();
    }
    return fake;
}

void fake_destroy(struct fake *fake)
{
    acre_backend_unregister(fake->backend);
    free(fake->pieces);
    fake_virtual_fini(fake);
    pthread_mutex_destroy(&fake->lock);
    free(fake);
}

acre_device *fake_device(struct fake *fake, int index)
{
    acre_device *device = NULL;

    if (acre_backend_device(fake->backend, index, &device) != ACRE_OK)
        abort();
    return device;
}

void fake_finish(struct fake *fake, void *stream)
{
    int number = stream_number(stream);

    pthread_mutex_lock(&fake->lock);
    fake->done[number] = fake->submitted[number];
    pthread_mutex_unlock(&fake->lock);
}

/* Reads a number that the lock guards. */
static uint64_t read_locked(struct fake *fake, const uint64_t *number)
{
    pthread_mutex_lock(&fake->lock);
    uint64_t value = *number;
    pthread_mutex_unlock(&fake->lock);
    return value;
}

uint64_t fake_submitted(struct fake *fake, void *stream)
{
    return read_locked(fake, &fake->submitted[stream_number(stream)]);
}

uint64_t fake_done(struct fake *fake, void *stream)
{
    return read_locked(fake, &fake->done[stream_number(stream)]);
}

bool fake_owns(struct fake *fake, int device, const void *pointer, uint64_t bytes)
{
    uintptr_t first = (uintptr_t)pointer;
    bool is_inside = false;

    pthread_mutex_lock(&fake->lock);
    for (size_t i = 0; !is_inside && i < fake->piece_count; i++) {
        const struct piece *piece = &fake->pieces[i];
        is_inside = piece->device == device && first >= piece->base &&
                    first + bytes <= piece->base + piece->bytes;
    }
    is_inside = is_inside || fake_virtual_owns(fake, device, first, bytes);
    pthread_mutex_unlock(&fake->lock);
    return is_inside;
}

uint64_t fake_device_bytes(struct fake *fake, int device)
{
    return read_locked(fake, &fake->used[device]);
}

uint64_t fake_bytes(struct fake *fake)
{
    uint64_t sum = 0;

    for (int i = 0; i < DEVICE_COUNT; i++)
        sum += read_locked(fake, &fake->used[i]);
    return sum;
}

uint64_t fake_alloc_count(struct fake *fake)
{
    pthread_mutex_lock(&fake->lock);
    uint64_t count = fake->piece_count + fake_virtual_count(fake);
    pthread_mutex_unlock(&fake->lock);
    return count;
}

uint64_t fake_event_count(struct fake *fake)
{
    return read_locked(fake, &fake->event_count);
}

void fake_hog(struct fake *fake, uint64_t bytes)
{
    pthread_mutex_lock(&fake->lock);
    fake->used[0] += bytes;
    pthread_mutex_unlock(&fake->lock);
}

uint64_t fake_calls(struct fake *fake, enum fake_call call)
{
    return read_locked(fake, &fake->calls[call]);
}

void fake_fail(struct fake *fake, enum fake_call call, uint64_t nth, acre_status status)
{
    pthread_mutex_lock(&fake->lock);
    fake->fail_call = (int)call;
    fake->fail_nth = nth;
    fake->fail_status = status;
    fake->has_failed = false;
    pthread_mutex_unlock(&fake->lock);
}

bool fake_disarm(struct fake *fake)
{
    pthread_mutex_lock(&fake->lock);
    bool has_failed = fake->has_failed;
    fake->fail_nth = 0;
    fake->has_failed = false;
    pthread_mutex_unlock(&fake->lock);
    return has_failed;
}

void fake_on_alloc(struct fake *fake, void (*fn)(void *arg), void *arg)
{
    fake->on_alloc = fn;
    fake->on_alloc_arg = arg;
}
