/* SPDX-License-Identifier: MIT */
/* An allocator as the library holds it: a checked copy of its table. */
#ifndef SRC_ALLOC_ALLOCATOR_H
#define SRC_ALLOC_ALLOCATOR_H

#include <acre/allocator.h>

struct acre_allocator {
    acre_allocator_ops ops;      /* allocate and copy_data are there; the group
                                    is whole or absent                        */
    void *self;
    void (*destroy)(void *self); /* may be NULL                               */
    char *name;                  /* owned                                     */
};

/* is_initialized of an allocator that serves from the day it is made. */
bool allocator_is_always_ready(void *self);

/* copy_data within the memory of devices of a type, made by the current one. */
acre_status allocator_copy(acre_device_type type, void *dst, const void *src, size_t bytes);

/* Takes an allocator out of both registries, wherever it serves. */
void registry_forget(const acre_allocator *allocator);

#endif
