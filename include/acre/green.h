/* SPDX-License-Identifier: MIT */
/** @file green.h
 *  @brief Green contexts: a part of a device's compute units for some of its work.
 *
 * A green context has a default stream and up to 32 side streams, whose work runs
 * on its part of the device. acre_green_push() makes the default stream the
 * current one of the calling thread, in order with what was queued before;
 * acre_green_pop() goes back, again in order. Memory is that of the device: any
 * cache and allocator serves it.
 *
 * Devices without ACRE_CAP_GREEN answer ACRE_ERR_UNSUPPORTED.
 *
 * Fork: see acre/base.h. In a child, calls on a device that the parent had started answer
 * ACRE_ERR_FORKED, unless the device works there (ACRE_BACKEND_FORK_SAFE).
 */
#ifndef ACRE_GREEN_H
#define ACRE_GREEN_H

#include <acre/device.h>

ACRE_BEGIN_DECLS

/** Most side streams of a green context; then they are handed out again in turn. */
#define ACRE_GREEN_STREAMS_MAX 32

/** A part of a device. */
typedef struct acre_green acre_green;

/** Carves a green context out of a device.
 *
 * @p config names compute units, a scope of work queues, or both. A device may
 * round the units up; acre_green_units() tells. The device must outlive it.
 * Errors: ACRE_ERR_INVALID (neither units nor a scope, a limit without a scope, a
 *         scope that does not exist), ACRE_ERR_RANGE (more units than there are;
 *         the text gives both), ACRE_ERR_UNSUPPORTED, ACRE_ERR_HOST_MEMORY, and
 *         what the driver answers.
 */
ACRE_API acre_status acre_green_create(acre_device *device, const acre_green_config *config,
                                       acre_green **out);

/** Waits for its streams and gives the part back. NULL is accepted.
 *
 * One that is still pushed is left alone (and a log line).
 */
ACRE_API void acre_green_destroy(acre_green *green);

/** How many compute units it has. */
ACRE_API uint32_t acre_green_units(const acre_green *green);

/** The native default stream of a green context. */
ACRE_API void *acre_green_default_stream(const acre_green *green);

/** The next native side stream: a new one up to 32, then those in turn.
 *
 * They live as long as the green context. Threads: any.
 */
ACRE_API acre_status acre_green_stream(acre_green *green, void **out_stream);

/** Enters a green context: its default stream becomes the thread's current stream of
 *  the device, and waits for what the current one has queued so far.
 *
 * Errors: ACRE_ERR_STATE (it is pushed already, here or by another thread).
 */
ACRE_API acre_status acre_green_push(acre_green *green);

/** Leaves it: the stream that was current before becomes so again, and waits for what
 *  the current one has queued.
 *
 * Errors: ACRE_ERR_STATE (this thread has not pushed it, or another one since).
 */
ACRE_API acre_status acre_green_pop(acre_green *green);

/** How many work queues a green context of a device gets unless it sets a limit.
 *  Errors: ACRE_ERR_UNSUPPORTED. */
ACRE_API acre_status acre_green_queue_limit(acre_device *device, uint32_t *out_count);

ACRE_END_DECLS

#endif
