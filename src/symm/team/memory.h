/* SPDX-License-Identifier: MIT */
/* A piece of memory that several processes map: their own, or one that came as a descriptor.
 *
 * On the host it is a memory file that cannot shrink; on a device, virtual memory that is
 * shareable: as descriptors, or over a fabric where the device has none. Counted; the last
 * put unmaps it, addresses included.
 */
#ifndef SRC_SYMM_MEMORY_H
#define SRC_SYMM_MEMORY_H

#include <acre/device.h>

#include <stdatomic.h>
#include <stdbool.h>

struct memory {
    _Atomic unsigned refs;
    acre_device *device; /* NULL: host                                          */
    char *base;          /* device memory: its address there                    */
    size_t bytes;        /* a multiple of the granularity                       */
    int fd;              /* own host memory; else -1                            */
    void *handle;        /* device memory                                       */
    bool is_fabric;      /* it travels over a fabric                            */
    bool is_attached;    /* own host memory that the wire reaches (far.h)       */
    uint64_t address;    /* there                                               */
};

/* What sizes are rounded up to. device NULL: the system's page. */
acre_status memory_granularity(acre_device *device, size_t *out);
/* New zeroed memory of whole granules. */
acre_status memory_create(acre_device *device, size_t bytes, struct memory **out);
/* A new descriptor of own memory, to be closed by the caller. */
acre_status memory_export(struct memory *memory, int *out_fd);
/* Maps what another process exported, after checking type, size and seals. The descriptor
 * stays the caller's. Errors: ACRE_ERR_REJECTED (not what it should be). */
acre_status memory_import(acre_device *device, int fd, size_t bytes, struct memory **out);
/* Memory that is shared over a fabric: whether it is, export and import. The handle holds
 * nothing. */
bool memory_is_fabric(const struct memory *memory);
acre_status memory_export_fabric(struct memory *memory, uint8_t out[64]);
acre_status memory_import_fabric(acre_device *device, const uint8_t fabric[64], size_t bytes,
                                 struct memory **out);
/* Lets ranks on other hosts reach own memory; at which address, which does not change.
 * Errors: ACRE_ERR_UNSUPPORTED (device memory). */
acre_status memory_attach(struct memory *memory, uint64_t *out_address);
void memory_get(struct memory *memory);
void memory_put(struct memory *memory); /* NULL is fine */

#endif
