/* SPDX-License-Identifier: MIT */
/** @file share.h
 *  @brief Memory of a cache in other processes.
 *
 * One process exports a block and gets a handle: bytes that it sends to another
 * process by any means, and an offset. The other process opens the handle and
 * finds the block at the address it gets plus the offset:
 *
 *     exporter                                   importer
 *     acre_share_export(cache, p, ...)   ─────►  acre_share_open(device, ...)
 *                                bytes, offset   base + offset is p
 *     acre_cache_free(cache, p)                  acre_share_close(device, base)
 *
 * Both run on one machine as one user; nobody else can open a handle. A handle
 * holds a random token and nothing of the exporting process. The memory itself
 * goes over a private socket that the library keeps for this, served by one thread
 * of the exporter; so the exporter must be running when a handle is opened.
 *
 * A block that is freed while somebody has it open is not used again before the
 * last one has closed it, or ended, however. It can be opened no more from then
 * on. When the exporting process ends, who has the block open keeps the memory.
 * On devices that cannot tell who has plain memory open (see ACRE_CAP_IPC_USERS),
 * keep shared blocks until the other processes are done.
 *
 * Whoever opens a block of a plain segment can reach the whole segment; of virtual
 * memory, the pages around the block.
 *
 * Fork: see acre/base.h. A child neither serves what the parent exported nor closes what the
 * parent opened; the parent goes on doing both.
 */
#ifndef ACRE_SHARE_H
#define ACRE_SHARE_H

#include <acre/cache.h>

ACRE_BEGIN_DECLS

/** Room for any handle, in bytes. */
#define ACRE_SHARE_HANDLE_MAX 66

/** Makes a handle of the block around @p pointer.
 *
 * @p pointer is a live allocation of @p cache or lies inside one. @p handle has
 * room for @p capacity bytes, ACRE_SHARE_HANDLE_MAX always suffice; *out_bytes is
 * how many it has. *out_offset is what the importer adds to the address it gets.
 * Exporting a block again gives the same handle. It is good until the block is
 * freed. May wait for work that touches the memory.
 * Threads: any.
 * Errors: ACRE_ERR_INVALID ("invalid device pointer"; capacity too small),
 *         ACRE_ERR_UNSUPPORTED (the device cannot share memory of this kind, or caching
 *         was off when it was allocated), ACRE_ERR_STATE (it sleeps, or a window
 *         is open on it), ACRE_ERR_LIMIT (descriptors, threads, size),
 *         ACRE_ERR_HOST_MEMORY, and what the device answers.
 */
ACRE_API acre_status acre_share_export(acre_cache *cache, const void *pointer, void *handle,
                                       size_t capacity, size_t *out_bytes,
                                       uint64_t *out_offset);

/** How many times the block around @p pointer is open elsewhere.
 *
 * 0 for a block that was not exported. A process that ended is not counted.
 * Errors: ACRE_ERR_INVALID ("invalid device pointer"), ACRE_ERR_UNSUPPORTED (the
 *         device does not count).
 */
ACRE_API acre_status acre_share_users(acre_cache *cache, const void *pointer,
                                      uint64_t *out_count);

/** Ends the export of the block around @p pointer, without freeing it.
 *
 * From now on nobody opens its handle. *out_count is how many times it is still
 * open elsewhere; at 0 all is over, and a new export gives a new handle. Call it
 * again to see whether the others are done. A block not exported gives 0.
 * Errors: ACRE_ERR_INVALID ("invalid device pointer").
 */
ACRE_API acre_status acre_share_revoke(acre_cache *cache, const void *pointer,
                                       uint64_t *out_count);

/** Opens a handle as memory of @p device.
 *
 * A handle that is opened again on that device, by any thread, gives the same
 * address without another opening; each opening wants one acre_share_close(). The
 * bare 64 bytes of a plain handle are accepted too, as one of their own. Works in
 * the exporting process as well.
 * Threads: any.
 * Errors: ACRE_ERR_FORMAT (not a handle, damaged, of a newer version, or the answer
 *         of the exporter is not sound), ACRE_ERR_NOT_FOUND (the block was freed,
 *         or the token is made up), ACRE_ERR_PEER (the exporter is gone),
 *         ACRE_ERR_INVALID (another user's), ACRE_ERR_TIMEOUT (it does not answer),
 *         ACRE_ERR_UNSUPPORTED, ACRE_ERR_LIMIT, ACRE_ERR_HOST_MEMORY, and what the
 *         device answers.
 */
ACRE_API acre_status acre_share_open(acre_device *device, const void *handle, size_t bytes,
                                     void **out_base, uint64_t *out_bytes);

/** Gives back one opening; with the last one, waits for work of the device and
 *  closes the memory.
 *
 * @p base is what acre_share_open() gave. Close everything before the backend is
 * unregistered.
 * Errors: ACRE_ERR_INVALID (not opened, or closed already), ACRE_ERR_DEVICE (it
 *         stays open).
 */
ACRE_API acre_status acre_share_close(acre_device *device, void *base);

ACRE_END_DECLS

#endif
