/* SPDX-License-Identifier: MIT */
#include "alloc/plug_wait.h"

#include "backend/backend.h"
#include "base/status.h"

/* Whether a stream takes part in a capture, which waiting for it would end. */
static acre_status check_capture(acre_device *device, void *stream)
{
    acre_capture_info info = {.struct_size = sizeof info, .status = ACRE_CAPTURE_NONE};
    acre_status status = ACRE_OK;

    if (device_has(device, ACRE_CAP_CAPTURE))
        status = device->ops->capture_info(device->self, device->index, stream, &info);
    if (status == ACRE_OK && info.status != ACRE_CAPTURE_NONE)
        status = status_fail(ACRE_ERR_STATE,
                             "stream %p uses the memory and is captured: free it when the "
                             "capture has ended",
                             stream);
    return status;
}

acre_status plug_wait(const struct plug *plug, const struct plug_record *record)
{
    acre_device *device;
    acre_status status = ACRE_OK;

    if (!record->stream_count)
        return ACRE_OK;
    status = acre_device_get(plug->type, record->device, &device);
    for (size_t i = 0; i < record->stream_count && status == ACRE_OK; i++)
        status = check_capture(device, record->streams[i]);
    for (size_t i = 0; i < record->stream_count && status == ACRE_OK; i++)
        status = acre_stream_native_synchronize(device, record->streams[i]);
    return status;
}

bool plug_put_off(struct plug *plug, const void *pointer)
{
    lock_take(&plug->lock);
    struct plug_record *record = plug_table_find(&plug->table, pointer);
    if (record && !record->is_put_off) {
        record->is_put_off = true;
        plug->put_off_count++;
    }
    lock_drop(&plug->lock);
    return record != NULL;
}

/* The first address from there on that was noted, and is no more; NULL: none. */
static void *put_off_take(struct plug *plug, const void *from)
{
    struct plug_record *record = NULL;
    void *found = NULL;

    lock_take(&plug->lock);
    while (plug->put_off_count && !found && (record = plug_table_next(&plug->table, record)))
        if (record->is_put_off && record->base >= (uintptr_t)from) {
            record->is_put_off = false;
            plug->put_off_count--;
            found = (void *)record->base;
        }
    lock_drop(&plug->lock);
    return found;
}

void plug_retry(struct plug *plug)
{
    if (LIKELY(!plug->put_off_count))
        return;
    for (char *at = put_off_take(plug, NULL); at; at = put_off_take(plug, at + 1))
        plug->owner.free(&plug->owner, at);
}
