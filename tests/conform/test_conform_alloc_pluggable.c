/* SPDX-License-Identifier: MIT */
/* The rules for allocators, kept by a plug-in on the reference device. */
#include "tests/conform/allocator_suite.h"

static void *device_alloc(size_t bytes, int device, void *stream)
{
    acre_device *at;
    void *pointer = NULL;

    (void)stream;
    if (bytes && acre_device_get(ACRE_DEVICE_PRIVATE, device, &at) == ACRE_OK &&
        acre_device_alloc(at, bytes, &pointer) != ACRE_OK)
        return NULL;
    return pointer;
}

static void device_free(void *pointer, size_t bytes, int device, void *stream)
{
    acre_device *at;

    (void)bytes, (void)stream;
    if (acre_device_get(ACRE_DEVICE_PRIVATE, device, &at) == ACRE_OK)
        acre_device_free(at, pointer);
}

static acre_status open_plugin(acre_allocator **out)
{
    return acre_pluggable_create(ACRE_DEVICE_PRIVATE, device_alloc, device_free, NULL, out);
}

ALLOCATOR_SUITE(.open = open_plugin, .close = acre_allocator_destroy,
                .type = ACRE_DEVICE_PRIVATE, .label = ACRE_DEVICE_PRIVATE, .is_mute = true)
T_MAIN()
