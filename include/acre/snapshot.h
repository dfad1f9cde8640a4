/* SPDX-License-Identifier: MIT */
/** @file snapshot.h
 *  @brief Memory snapshots as files: reading, checking, writing, converting.
 *
 * A snapshot holds the segments and blocks of a caching allocator at one moment,
 * and, where it was recorded, the history of events before. Read are pickles as
 * torch.cuda.memory._dump_snapshot writes them (protocols 2 to 5, as data: nothing
 * in a file is ever run), bare lists of segments as older versions wrote them, and
 * the library's own JSON; each plain or gzip. Written are pickles of protocol 4 with
 * the same keys, and JSON.
 *
 * Fork: a child may use what the parent read, and read its own.
 */
#ifndef ACRE_SNAPSHOT_H
#define ACRE_SNAPSHOT_H

#include <acre/base.h>

ACRE_BEGIN_DECLS

/** Instead of the number of a device: the content decides. Taken is the device whose request
 *  failed last, else the one that holds most memory, else the one with the longest history. */
#define ACRE_DEVICE_CHOOSE UINT32_MAX

/** A snapshot in memory. Threads: read-only, any number at a time. */
typedef struct acre_snapshot acre_snapshot;

/** Reads a snapshot.
 *
 * Unknown keys are ignored. Memory stays below three times the size of a large
 * file, decompressed. Give it to acre_snapshot_close().
 * Errors: ACRE_ERR_FORMAT (the text names file and offset and what to do: damaged or
 *         truncated data, an instruction that would run code, limits that no snapshot
 *         reaches), ACRE_ERR_IO, ACRE_ERR_UNSUPPORTED (gzip in a build without zlib),
 *         ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_snapshot_open(const char *path, acre_snapshot **out);

/** Frees a snapshot. NULL is accepted. */
ACRE_API void acre_snapshot_close(acre_snapshot *snapshot);

/** What a snapshot holds. */
typedef struct acre_snapshot_info {
    uint32_t struct_size;    /**< sizeof(acre_snapshot_info), set by the caller.        */
    uint32_t device_count;   /**< Devices that have segments or a history.              */
    uint64_t segment_count;  /**< Segments of all devices.                              */
    uint64_t block_count;    /**< Blocks in them.                                       */
    uint64_t event_count;    /**< Events of all devices.                                */
    uint64_t stack_count;    /**< Different stacks.                                     */
    uint64_t frame_count;    /**< Different frames.                                     */
    uint64_t reserved_bytes; /**< Held from the devices.                                */
    uint64_t allocated_bytes; /**< In allocated blocks.                                 */
    uint32_t has_settings;   /**< 1: the settings of the allocator are there.           */
    uint32_t annotation_count; /**< Marks that the program set.                         */
} acre_snapshot_info;

/** Counts what a snapshot holds. Errors: ACRE_ERR_INVALID (struct_size is not set). */
ACRE_API acre_status acre_snapshot_info_get(const acre_snapshot *snapshot,
                                            acre_snapshot_info *info);

/** Whether the segments add up: their blocks lie side by side, and the sums agree. A
 *  snapshot that does not cannot be trusted. Errors: ACRE_ERR_FORMAT (the text names
 *  the first segment that does not, and how). */
ACRE_API acre_status acre_snapshot_check(const acre_snapshot *snapshot);

/** What a snapshot is written as. */
typedef enum acre_snapshot_format {
    ACRE_SNAPSHOT_PICKLE = 1, /**< As PyTorch writes it; its viewer opens it.           */
    ACRE_SNAPSHOT_JSON = 2,   /**< The library's own; docs/snapshot.schema.json.        */
} acre_snapshot_format;

/** Writes a snapshot; with gzip when the name ends with ".gz".
 *
 * The file appears whole or not at all.
 * Errors: ACRE_ERR_IO, ACRE_ERR_INVALID, ACRE_ERR_HOST_MEMORY, ACRE_ERR_UNSUPPORTED,
 *         ACRE_ERR_LIMIT (the file would be larger than acre_output_limit_set allows).
 */
ACRE_API acre_status acre_snapshot_write(const acre_snapshot *snapshot, const char *path,
                                         acre_snapshot_format format);

/** What a file is converted to. */
typedef enum acre_convert_format {
    ACRE_CONVERT_TRACE = 1,  /**< A trace; of a snapshot, the history of one device.     */
    ACRE_CONVERT_PICKLE = 2, /**< A snapshot as PyTorch writes it.                       */
    ACRE_CONVERT_JSON = 3,   /**< A snapshot in the library's own JSON.                  */
} acre_convert_format;

/** Converts a file, trace or snapshot, into another; with gzip when the name of the new
 *  one ends with ".gz". The new file appears whole or not at all.
 *
 * A snapshot becomes a trace by its history: what was live at its start is allocated
 * first, a free is that which completed. A trace becomes a snapshot by replaying it with
 * ACRE_POLICY_TORCH and recording that; uses on other streams are not kept.
 * Requests that failed are no part of the trace.
 * @p device counts where a snapshot becomes a trace; ACRE_DEVICE_CHOOSE is accepted.
 * Errors: those of reading and writing; ACRE_ERR_NOT_FOUND (the device has no history),
 *         ACRE_ERR_STATE (the snapshot is inconsistent).
 */
ACRE_API acre_status acre_convert(const char *from, const char *to, acre_convert_format format,
                                  uint32_t device);

ACRE_END_DECLS

#endif
