/* SPDX-License-Identifier: MIT */
/* A backend of required entries only, for tests of the registry. Its memory is
 * never touched: addresses are counted up. */
#ifndef TESTS_SUPPORT_SMALL_BACKEND_H
#define TESTS_SUPPORT_SMALL_BACKEND_H

#include <acre/acre.h>

/* What its entries answer; self points at one. */
struct small {
    int device_count;
    acre_status count_status;  /* of device_count           */
    acre_status info_status;   /* of device_info            */
    acre_device_info info;     /* of every device           */
    _Atomic uint64_t next;     /* address of the next alloc */
    _Atomic int destroyed;     /* how often destroy was called */
};

/* Two devices that work. */
#define SMALL_INITIALIZER                                                      \
    {.device_count = 2,                                                        \
     .info = {.name = "small", .total_bytes = 1 << 20, .alloc_granularity = 512}, \
     .next = 1 << 20}

/* Its table. */
extern const acre_backend_ops small_ops;

/* Describes one for registration. */
acre_backend_desc small_desc(const char *name, acre_device_type type, struct small *small);

/* Registers one. */
acre_status small_register(const char *name, acre_device_type type, struct small *small,
                           acre_backend **out);

#endif
