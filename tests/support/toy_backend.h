/* SPDX-License-Identifier: MIT */
/* The smallest backend with device memory, copies and page-locked memory: all
 * of it is host memory. For tests that need to see and to steer every call. */
#ifndef TESTS_SUPPORT_TOY_BACKEND_H
#define TESTS_SUPPORT_TOY_BACKEND_H

#include <acre/backend.h>

#define TOY_DEVICES 4

struct toy_backend {
    acre_backend *backend;
    int device_count;
    int free_fails;                   /* free answers ACRE_ERR_DEVICE           */
    int alloc_fails;                  /* alloc answers ACRE_ERR_DEVICE_MEMORY   */
    int live[TOY_DEVICES], live_host; /* allocations                            */
    int alloc_calls, free_calls;
    void *bases[64];                  /* live device memory                     */
    int owners[64];                   /* its device                             */
};

/* Registers a backend of so many devices under a type. */
acre_status toy_backend_start(struct toy_backend *toy, const char *name, acre_device_type type,
                              int device_count);
void toy_backend_stop(struct toy_backend *toy);

#endif
