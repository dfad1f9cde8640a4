/* SPDX-License-Identifier: MIT */
#include <acre/serialize.h>

#include "base/status.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

acre_status acre_metadata_save(const acre_metadata *metadata,
                               acre_metadata_entry out[ACRE_METADATA_ENTRIES_MAX],
                               size_t *out_count)
{
    size_t count = 0;

    if (!out || !out_count)
        return status_fail(ACRE_ERR_INVALID, "acre_metadata_save: an argument is NULL");
    if (metadata && metadata->version == ACRE_METADATA_VERSION)
        out[count++] = (acre_metadata_entry){ACRE_METADATA_VERSION_KEY, true};
    if (metadata && metadata->format == ACRE_METADATA_FORMAT)
        out[count++] = (acre_metadata_entry){ACRE_METADATA_FORMAT_KEY, true};
    *out_count = count;
    return ACRE_OK;
}

acre_status acre_metadata_load(const acre_metadata_entry *entries, size_t count,
                               acre_device_type type, acre_metadata *out)
{
    acre_metadata found = {ACRE_METADATA_UNKNOWN, ACRE_METADATA_UNKNOWN};

    if (!out || (count && !entries))
        return status_fail(ACRE_ERR_INVALID, "acre_metadata_load: an argument is NULL");
    for (size_t i = 0; i < count; i++) {
        if (!entries[i].key)
            return status_fail(ACRE_ERR_INVALID, "acre_metadata_load: entry %zu has no key", i);
        if (!entries[i].value || type == ACRE_DEVICE_CPU)
            continue;
        if (strcmp(entries[i].key, ACRE_METADATA_VERSION_KEY) == 0)
            found.version = ACRE_METADATA_VERSION;
        if (strcmp(entries[i].key, ACRE_METADATA_FORMAT_KEY) == 0)
            found.format = ACRE_METADATA_FORMAT;
    }
    *out = found;
    return ACRE_OK;
}

/* The current device where there are any, else the first. */
static int index_or_current(acre_device_id device)
{
    int index = device.index;

    if (index < 0 && acre_device_current(device.type, &index) != ACRE_OK)
        index = 0;
    return index;
}

int acre_location_text(acre_device_id device, char *buffer, size_t bytes)
{
    const char *name = acre_device_type_name(device.type);
    size_t room = buffer ? bytes : 0;

    if (device.type == ACRE_DEVICE_CPU)
        return snprintf(buffer, room, "%s", name);
    return snprintf(buffer, room, "%s:%d", name, index_or_current(device));
}

/* The type that the first length letters of name mean. */
static bool type_find(const char *name, size_t length, acre_device_type *out)
{
    static const acre_device_type types[] = {ACRE_DEVICE_CPU, ACRE_DEVICE_CUDA, ACRE_DEVICE_OPENCL,
                                             ACRE_DEVICE_HIP, ACRE_DEVICE_PRIVATE};

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        const char *known = acre_device_type_name(types[i]);

        if (strlen(known) == length && memcmp(known, name, length) == 0) {
            *out = types[i];
            return true;
        }
    }
    return false;
}

acre_status acre_location_parse(const char *text, acre_device_id *out)
{
    acre_device_id device = {ACRE_DEVICE_CPU, -1};
    uint64_t index;

    if (!text || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_location_parse: an argument is NULL");
    const char *colon = strchr(text, ':');
    size_t length = colon ? (size_t)(colon - text) : strlen(text);
    if (!type_find(text, length, &device.type))
        return status_fail(ACRE_ERR_FORMAT,
                           "\"%.*s\" in \"%.100s\" names no type of device; "
                           "\"cuda:0\" would be one",
                           length > 100 ? 100 : (int)length, text, text);
    if (colon && (!text_parse_unsigned(colon + 1, strlen(colon + 1), &index) || index > 127))
        return status_fail(ACRE_ERR_FORMAT,
                           "\"%.100s\": after the colon comes a device index, 0 "
                           "to 127",
                           text);
    device.index = colon ? (int)index : index_or_current(device);
    *out = device;
    return ACRE_OK;
}
