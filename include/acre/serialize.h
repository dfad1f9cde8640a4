/* SPDX-License-Identifier: MIT */
/** @file serialize.h
 *  @brief What goes into a file beside the bytes of a tensor.
 *
 * A framework that saves a tensor asks the backend of its device for a map from names
 * to truth values, keeps it with the tensor, and hands it back after loading. Beside it
 * goes a tag that says on which device the bytes were. These calls make and read both;
 * how they are written down is the framework's matter. Threads: any.
 *
 * Fork: a child may call these.
 */
#ifndef ACRE_SERIALIZE_H
#define ACRE_SERIALIZE_H

#include <acre/device.h>

ACRE_BEGIN_DECLS

#define ACRE_METADATA_UNKNOWN (-1) /**< Nothing is known about version or format. */
#define ACRE_METADATA_VERSION 1    /**< The version that is saved.                */
#define ACRE_METADATA_FORMAT 29    /**< The format that is saved.                 */
#define ACRE_METADATA_VERSION_KEY "version_number" /**< Its key in the map. */
#define ACRE_METADATA_FORMAT_KEY "format_number"   /**< Its key in the map. */

/** What a backend attaches to a tensor. */
typedef struct acre_metadata {
    int32_t version; /**< ACRE_METADATA_VERSION, or another number that is not saved. */
    int32_t format;  /**< ACRE_METADATA_FORMAT, or another number that is not saved.  */
} acre_metadata;

/** One entry of the map. */
typedef struct acre_metadata_entry {
    const char *key; /**< Of the library when saved; of the caller when loaded. */
    bool value;      /**< An entry that is false says nothing.                  */
} acre_metadata_entry;

/** Most entries that acre_metadata_save() gives. */
#define ACRE_METADATA_ENTRIES_MAX 2

/** Gives the map of a tensor: a key with the value true for version and format each, if
 *  they are the ones above. @p metadata NULL: a tensor without any, an empty map.
 *  Errors: ACRE_ERR_INVALID (NULL). */
ACRE_API acre_status acre_metadata_save(const acre_metadata *metadata,
                                        acre_metadata_entry out[ACRE_METADATA_ENTRIES_MAX],
                                        size_t *out_count);

/** Reads a map for a tensor that was loaded onto a device of @p type. Keys that are not
 *  known are passed over; what no entry says is unknown (-1), as it always is on the CPU.
 *  Errors: ACRE_ERR_INVALID (NULL; an entry without a key). */
ACRE_API acre_status acre_metadata_load(const acre_metadata_entry *entries, size_t count,
                                        acre_device_type type, acre_metadata *out);

/** Writes "name:index" and returns the length as snprintf; index -1 is the current
 *  device, and the CPU is "cpu" alone. A NULL buffer is measured only. */
ACRE_API int acre_location_text(acre_device_id device, char *buffer, size_t bytes);

/** Reads a location tag; a tag without an index means the current device.
 *
 * The device need not exist: whoever loads may put the bytes elsewhere.
 * Errors: ACRE_ERR_INVALID (NULL), ACRE_ERR_FORMAT (says what is wrong).
 */
ACRE_API acre_status acre_location_parse(const char *text, acre_device_id *out);

ACRE_END_DECLS

#endif
