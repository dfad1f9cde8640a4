/* SPDX-License-Identifier: MIT */
/* Physical memory and multicast objects of the stand-ins, which share one space of
 * handles. The books are locked around everything here but share_*. */
#ifndef TESTS_STANDIN_VIRTUAL_H
#define TESTS_STANDIN_VIRTUAL_H

#include "tests/standin/context.h"

struct offer;

/* Physical memory. It stays in the books while it is mapped. */
struct memory {
    struct object object;
    void *sim;
    size_t bytes;
    int types;           /* CU_MEM_HANDLE_TYPE_* bits it can be shared as */
    int refs;            /* handles out; 0: released, but mapped          */
    int map_count;
    struct offer *offer; /* under which other processes find it, or NULL  */
    int fd;              /* what is offered                               */
};

/* A multicast object; what its processes share lies in a page. */
struct multicast_page;
struct multicast {
    struct object object;
    size_t bytes;
    unsigned device_count;
    int types;
    int refs;
    int map_count;
    int fd;
    struct multicast_page *page;
    uint64_t added;       /* bit d: this process added device d */
    struct list bindings;
    struct offer *offer;
};

struct memory *memory_find(CUmemGenericAllocationHandle handle);
struct multicast *multicast_find(CUmemGenericAllocationHandle handle);
/* One reference or mapping less was there: perhaps nothing is left. */
void memory_settle(struct memory *memory);
void multicast_settle(struct multicast *multicast);
void memory_live(struct standin_live *live);

/* Whether a descriptor is a multicast object of another process, and takes it in. */
int multicast_is_shared(int fd);
CUresult multicast_import(int fd, int types, CUmemGenericAllocationHandle *out);

/* Offers a descriptor to other processes (share.c). */
CUresult share_ticket(struct offer **offer, int *fd, unsigned char out[64]);
CUresult share_open(const unsigned char ticket[64], int *out_fd);

CUresult prop_check(const CUmemAllocationProp *prop);

#endif
