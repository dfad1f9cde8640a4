/* SPDX-License-Identifier: MIT */
/* Streams as values: how an id says which native stream it means. */
#ifndef SRC_BACKEND_STREAM_H
#define SRC_BACKEND_STREAM_H

#include "backend/backend.h"

/* The pools of all devices of a backend, empty; backend->pools stays NULL when
 * no device has streams. */
acre_status stream_pools_create(acre_backend *backend);
/* Destroys every stream the pools made. */
void stream_pools_destroy(acre_backend *backend);

/* Id of the default stream in the codec of the backend. */
int64_t stream_default_id(const acre_backend *backend);

/* Refuses ids that the codec cannot mean. Errors: ACRE_ERR_INVALID. */
acre_status stream_check_id(const acre_backend *backend, int64_t id);

/* The device of a stream value, id included in the check. Errors: those of
 * backend_of_type, ACRE_ERR_RANGE, ACRE_ERR_INVALID. */
acre_status stream_device(acre_stream stream, acre_device **out);

/* Checks a stream and gives its native form. Errors: also those of acre_stream_native. */
acre_status stream_resolve(acre_stream stream, acre_device **out_device, void **out_native);

/* Refuses to let memory of one device follow a stream of another: gives
 * ACRE_ERR_UNSUPPORTED. */
acre_status stream_refuse_other(int memory_index, int stream_index);

/* The native form of the calling thread's current stream of a device; NULL when
 * the device has no streams. Takes no lock once that stream exists. Errors: those
 * of acre_stream_native. */
acre_status stream_current_native(acre_device *device, void **out);

#endif
