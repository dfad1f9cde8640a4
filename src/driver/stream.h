/* SPDX-License-Identifier: MIT */
/* Streams, events, host functions and values: entries of the table; self is a
 * struct driver. Streams and events are the driver's own, so that those of other
 * users of the driver can be given to Acre and the other way round. */
#ifndef SRC_DRIVER_STREAM_H
#define SRC_DRIVER_STREAM_H

#include "driver/driver.h"

acre_status drv_stream_create(void *self, int device, uint32_t flags, int priority,
                              void **out_stream);
acre_status drv_stream_destroy(void *self, int device, void *stream);
acre_status drv_stream_query(void *self, int device, void *stream);
acre_status drv_stream_synchronize(void *self, int device, void *stream);
acre_status drv_stream_wait_event(void *self, int device, void *stream, void *event);
acre_status drv_stream_priority(void *self, int device, void *stream, int *out_priority);
acre_status drv_stream_synchronize_all(void *self, int device);

acre_status drv_event_create(void *self, int device, uint32_t flags, void **out_event);
acre_status drv_event_destroy(void *self, int device, void *event);
acre_status drv_event_record(void *self, int device, void *event, void *stream);
acre_status drv_event_query(void *self, int device, void *event);
acre_status drv_event_synchronize(void *self, int device, void *event);
acre_status drv_event_elapsed(void *self, int device, void *start, void *end, double *out_ms);

/* Events of other processes. */
acre_status drv_event_export(void *self, int device, void *event, uint8_t out_handle[64]);
acre_status drv_event_open(void *self, int device, const uint8_t handle[64], void **out_event);

acre_status drv_stream_launch_host(void *self, int device, void *stream, void (*fn)(void *),
                                   void *arg);
acre_status drv_stream_write_value32(void *self, int device, void *stream, void *address,
                                     uint32_t value);
acre_status drv_stream_wait_value32(void *self, int device, void *stream, void *address,
                                    uint32_t value, acre_wait_condition condition);

#endif
