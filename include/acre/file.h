/* SPDX-License-Identifier: MIT */
/** @file file.h
 *  @brief Device memory straight to files and back.
 *
 *     acre_file_open("weights.bin", O_RDWR | O_CREAT, NULL, &file);
 *     acre_file_save(file, device, memory, bytes, 0);
 *     acre_file_load(file, device, memory, bytes, 0);
 *     acre_file_close(file);
 *
 * Files are opened with O_DIRECT: the page cache is passed by, and nothing is kept
 * twice. Several reads or writes are under way at a time where the system allows
 * io_uring; elsewhere it is pread and pwrite, one after the other.
 *
 * Memory that the host reaches is read and written in place: host memory, and device
 * memory that acre_file_buffer_register() opened. Other device memory goes through
 * buffers of the file, block by block.
 *
 * Alignment: offsets in the file and sizes must be multiples of
 * acre_file_info.offset_alignment, which is 512 or 4096 mostly. Addresses need nothing.
 *
 * A transfer is whole or an error. After an error of a save the bytes it was about to
 * write are undefined; after one of a load the memory is. When a save makes the file
 * longer, its room is claimed first, so that a full disk is noticed before anything is
 * written. The calls return when the data is with the file; acre_file_sync() when it
 * would survive a loss of power.
 *
 * What streams still do with the memory must be finished before, by the caller. A device
 * whose memory was moved outlives the file, or acre_file_deregister().
 * Threads: any; transfers of one file take turns.
 *
 * Fork: see acre/base.h. A file that the parent opened answers ACRE_ERR_FORKED in a child.
 */
#ifndef ACRE_FILE_H
#define ACRE_FILE_H

#include <acre/device.h>

ACRE_BEGIN_DECLS

/** A file that device memory is saved to and loaded from. */
typedef struct acre_file acre_file;

/** By which way a file is read and written. */
typedef enum acre_file_engine {
    ACRE_FILE_AUTO = 0,  /**< io_uring where it is allowed, else plain.     */
    ACRE_FILE_PLAIN = 1, /**< pread and pwrite, one at a time.              */
    ACRE_FILE_URING = 2, /**< io_uring, or ACRE_ERR_UNSUPPORTED.            */
} acre_file_engine;

/** Bits of acre_file_config.flags. */
typedef enum acre_file_flag {
    /** Through the page cache where the file system refuses O_DIRECT. */
    ACRE_FILE_MAY_BUFFER = 1u << 0,
} acre_file_flag;

/** How a file is to be used. Zero means default everywhere. */
typedef struct acre_file_config {
    uint32_t struct_size; /**< sizeof(acre_file_config).                                   */
    uint32_t flags;       /**< Bits of @ref acre_file_flag.                                */
    uint64_t block_bytes; /**< Of one read or write: a multiple of 4096, at most 1 GiB;
                               0: 1 MiB.                                                   */
    uint32_t depth;       /**< Blocks under way at a time, 1 to 64; 0: 4. With io_uring a
                               block may be several requests.                              */
    uint32_t engine;      /**< A number of @ref acre_file_engine.                          */
    uint32_t mode;        /**< Rights of a file that is created; 0: 0666 less the umask.   */
    uint32_t reserved;    /**< 0.                                                          */
} acre_file_config;

/** What a file came to be. */
typedef struct acre_file_info {
    uint32_t struct_size;      /**< sizeof(acre_file_info), set by the caller.             */
    int32_t fd;                /**< The descriptor; of the file, not to be closed.         */
    uint64_t bytes;            /**< Size of the file now.                                  */
    uint64_t offset_alignment; /**< What offsets and sizes must be multiples of.           */
    uint64_t memory_alignment; /**< Addresses that are not multiples of it are served
                                    through buffers.                                       */
    uint32_t engine;           /**< ACRE_FILE_PLAIN or ACRE_FILE_URING; 0: not registered. */
    uint32_t is_direct;        /**< 1: with O_DIRECT.                                      */
    uint32_t is_registered;    /**< 1: transfers are possible.                             */
    uint32_t reserved;         /**< 0.                                                     */
} acre_file_info;

/** Opens a file with O_DIRECT, and registers it.
 *
 * @p flags are those of open(2): O_RDONLY, O_WRONLY or O_RDWR, with O_CREAT, O_EXCL and
 * O_TRUNC; O_APPEND is refused. @p config may be NULL.
 * Errors: ACRE_ERR_NOT_FOUND, ACRE_ERR_EXISTS, ACRE_ERR_IO (others of open),
 *         ACRE_ERR_UNSUPPORTED (no O_DIRECT there; io_uring was asked for and is not to
 *         be had), ACRE_ERR_INVALID (also what is neither a file nor a block device),
 *         ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_file_open(const char *path, int flags, const acre_file_config *config,
                                    acre_file **out);

/** Deregisters and closes; nothing is under way. NULL is accepted. */
ACRE_API void acre_file_close(acre_file *file);

/** Makes a deregistered file ready again: the ring and its buffers.
 *  Errors: ACRE_ERR_STATE (it is registered), ACRE_ERR_UNSUPPORTED, ACRE_ERR_HOST_MEMORY. */
ACRE_API acre_status acre_file_register(acre_file *file);

/** Gives up the ring and the buffers, and keeps the descriptor; transfers are refused
 *  from then on. Errors: ACRE_ERR_STATE (not registered). */
ACRE_API acre_status acre_file_deregister(acre_file *file);

/** Writes @p bytes of memory at an offset of the file; see above.
 *
 * @p memory is memory of @p device or host memory.
 * Errors: ACRE_ERR_INVALID (alignment, which is named; 0 bytes; memory of which less is
 *         left), ACRE_ERR_RANGE (an offset beyond what files can have), ACRE_ERR_STATE (not
 *         registered), ACRE_ERR_LIMIT (the disk is full, or a limit on sizes or quota is
 *         reached), ACRE_ERR_IO, ACRE_ERR_FORKED, and those of copies from the device.
 */
ACRE_API acre_status acre_file_save(acre_file *file, acre_device *device, const void *memory,
                                    size_t bytes, uint64_t offset);

/** Reads @p bytes at an offset of the file into memory.
 *
 * Errors: as above; ACRE_ERR_IO also when the file ends before, which is noticed before
 * anything is read.
 */
ACRE_API acre_status acre_file_load(acre_file *file, acre_device *device, void *memory,
                                    size_t bytes, uint64_t offset);

/** Waits until what was saved is on the medium. Errors: ACRE_ERR_IO, ACRE_ERR_LIMIT. */
ACRE_API acre_status acre_file_sync(acre_file *file);

/** Reads the facts. Errors: ACRE_ERR_INVALID, ACRE_ERR_IO. */
ACRE_API acre_status acre_file_info_get(acre_file *file, acre_file_info *info);

/** Opens device memory to the host for transfers in place, until deregistered.
 *
 * @p base is the first byte of an allocation of the device, or lies in a mapping. The
 * memory must not be freed before. For all files of the process.
 * Errors: ACRE_ERR_INVALID (not memory of that device, or less of it), ACRE_ERR_EXISTS
 *         (registered already, or overlapping what is), ACRE_ERR_UNSUPPORTED (the host
 *         cannot reach memory of this device; transfers work without), ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_file_buffer_register(acre_device *device, void *base, size_t bytes);

/** Undoes that. Errors: ACRE_ERR_NOT_FOUND (not registered), ACRE_ERR_BUSY (a transfer is
 *  using it). */
ACRE_API acre_status acre_file_buffer_deregister(acre_device *device, void *base);

ACRE_END_DECLS

#endif
