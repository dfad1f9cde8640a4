/* SPDX-License-Identifier: MIT */
/* Green contexts: entries of the table; self is a struct driver. */
#ifndef SRC_DRIVER_GREEN_H
#define SRC_DRIVER_GREEN_H

#include "driver/driver.h"

/* What the table calls a green context is the address of one. */
struct green {
    struct object object;
    driver_green native;
    driver_context context; /* the same as a context, for pushing */
    int device;
};

acre_status drv_green_create(void *self, int device, const acre_green_config *config,
                             void **out_green, uint32_t *out_units);
acre_status drv_green_destroy(void *self, int device, void *green);
acre_status drv_green_stream(void *self, int device, void *green, uint32_t flags, int priority,
                             void **out_stream);
acre_status drv_green_push(void *self, int device, void *green);
acre_status drv_green_pop(void *self, int device, void *green);
acre_status drv_green_queues(void *self, int device, uint32_t *out_count);

/* The context of a stream that a green context made, or NULL; and that it is gone. */
driver_context drv_green_context_of(struct driver *driver, const void *stream);
void drv_green_stream_forget(struct driver *driver, const void *stream);

/* Whether a green context of a device is what this thread has pushed last. */
bool drv_green_is_current(struct driver *driver, int device);

#endif
