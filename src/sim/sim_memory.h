/* SPDX-License-Identifier: MIT */
/* The memory of a simulated backend, as its own files see it.
 *
 *   span      addresses that were handed out: a plain allocation, host memory,
 *             or a reservation. sim_memory.c, sim_host.c, sim_virtual.c
 *   mapping   a piece of a reservation that has memory. sim_virtual.c
 *   extent    pages of a memfd: what memory consists of. sim_pages.c
 *   physical  an extent that the user names and maps. sim_physical.c
 *   multicast the same range of several devices. sim_multicast.c
 *   export    a plain allocation under a handle for other processes. sim_ipc.c
 *
 * One lock guards all of it except what an extent holds. It is dropped before
 * pages are given back, and never held while memory moves.
 */
#ifndef SRC_BACKEND_SIM_MEMORY_H
#define SRC_BACKEND_SIM_MEMORY_H

#include "sim/sim.h"
#include "sim/sim_index.h"
#include "base/list.h"

/* Pages [offset, offset + bytes) of a memfd. fd -1: a dry device has none. */
struct sim_extent {
    int fd;          /* the device's, or the extent's own when is_own      */
    bool is_own;     /* close fd with the extent                           */
    uint64_t offset; /* bytes                                              */
    size_t bytes;
};

/* Host access to the public view of an extent; count > 0 means open. */
struct sim_window {
    unsigned count; /* windows open                                         */
    bool has_view;  /* the extent is mapped at the public address           */
};

enum sim_span_kind {
    SPAN_PLAIN, /* alloc: an extent, both views            */
    SPAN_HOST,  /* host_alloc: one view, always accessible */
    SPAN_RANGE  /* reserve: both views, extents by mapping */
};

/*  alloc          free, no pins
 *  ─────► LIVE ─────────────────────────► gone
 *           │ free, pinned                 ▲
 *           └────────────► FREED ──────────┘ last unpin
 *
 * LIVE: in memory->spans. FREED: in no index, its public view is gone. */
struct sim_span {
    struct sim_node node; /* public base and extent; in memory->spans   */
    enum sim_span_kind kind;
    int device;                /* owner; -1 for host memory                  */
    bool is_freed;             /* only pins keep it                          */
    bool is_awaited;           /* tell when the last pin goes                */
    bool is_opened;            /* of ipc_open: another process's memory      */
    int connection;            /* to that process, when is_opened            */
    unsigned pin_count;        /* plain and host memory                      */
    unsigned export_count;     /* handles of ipc_export not revoked          */
    char *alias;               /* private view of node.base; NULL when dry   */
    struct sim_extent extent;  /* plain memory                               */
    struct sim_window window;  /* plain memory                               */
    struct sim_index mappings; /* reservations                               */
};

struct sim_physical;

/* LIVE until unmap marks it is_leaving and waits for its pins; a leaving mapping
 * counts as not mapped for everybody but unreserve. */
struct sim_mapping {
    struct sim_node node;        /* public base and extent; in span->mappings  */
    struct sim_physical *handle; /* kept alive by handle->map_count            */
    unsigned pin_count;
    bool is_leaving;
    uint64_t readers; /* bit d: device d may read                   */
    uint64_t writers; /* bit d: device d may write                  */
    struct sim_window window;
};

/* Lives until it is released and no longer mapped. */
struct sim_physical {
    struct sim_extent extent;
    int device;
    acre_handle_type type;
    bool is_imported; /* memory of somebody else: takes no capacity */
    bool is_released; /* the user's name is gone                    */
    bool was_mapped;  /* at some time                               */
    unsigned map_count;
    struct sim_physical *next_gone; /* chain of handles about to be destroyed */
};

/* Memory of one member device bound to [offset, offset + bytes). */
struct sim_binding {
    struct list link;
    int device;
    size_t offset, bytes;
    void *memory; /* device address at offset */
};

struct sim_multicast {
    uint64_t devices; /* bit d: device d is a member */
    size_t bytes;
    struct list bindings;
};

/* What users hold for a handle is a token, never a pointer: slot and generation,
 * so that a stale or made-up one is recognised. */
struct sim_slot {
    void *object; /* sim_physical or sim_multicast; NULL: free      */
    bool is_multicast;
    uint32_t generation; /* grows when the slot is given up              */
    uint32_t next_free;  /* slot + 1 of the next free one; 0 ends        */
};

/* A plain allocation under a handle that other processes may open. Lives until it
 * is revoked and nobody has it open, or its memory goes. */
struct sim_export {
    struct list link;      /* in memory->exports                                */
    struct sim_span *span; /* NULL once the memory is on its way out            */
    struct sim *sim;
    int device;
    unsigned busy_count; /* calls that look at it with the lock dropped       */
    struct offer *offer;
    uint8_t handle[64];
};

struct service;

struct sim_memory {
    struct lock lock;        /* RANK_DEVICE; guards everything below   */
    pthread_cond_t unpinned; /* something lost a last pin that was awaited */
    struct list exports;     /* of struct sim_export                   */
    struct service *service; /* held from the first export on; or NULL */
    struct sim_index spans;
    struct sim_index registered; /* host_register; apart, because the caller may
                                    free such memory without telling      */
    struct sim_slot *slots;
    uint32_t slot_count, slot_free; /* slot_free: first free + 1, or 0    */
    uint64_t bytes_used[SIM_DEVICES_MAX];
    acre_sim_usage usage;                /* counts of this half                    */
    size_t system_page;                  /* constant                               */
    struct lock files_lock;              /* RANK_LEAF; guards the next two         */
    int files[SIM_DEVICES_MAX];          /* memfd of each device, -1 until needed  */
    uint64_t files_end[SIM_DEVICES_MAX]; /* first offset never handed out  */
    uint64_t dry_lots;                   /* addresses of a dry device, as bits    */
    uintptr_t dry_end;                   /* of the run of lots with the cursor    */
    uintptr_t dry_align;                 /* of every address handed out           */
    uintptr_t dry_cursor;                /* where the next placement is tried     */
    uintptr_t dry_free_until;            /* nothing lives in [cursor, this)       */
};

acre_status sim_memory_create(struct sim *sim);
void sim_memory_destroy(struct sim *sim);

/* ---- Capacity (sim_memory.c) --------------------------------------------- */

/* Takes bytes of a device or answers ACRE_ERR_DEVICE_MEMORY. Freed memory counts
 * as free at once, even while a pin keeps its pages. */
acre_status capacity_take_locked(struct sim *sim, int device, size_t bytes);
void capacity_give_locked(struct sim *sim, int device, size_t bytes);

/* ---- Spans (sim_memory.c) ----------------------------------------------------- */

/* What is left to do, without the lock, when a span is given back. */
struct sim_retired {
    struct sim_span *span; /* to destroy, or NULL: pins keep it      */
    void *public_base;     /* then its public view, which goes first */
    size_t bytes;
};

/* Enters a span into the index; a dry one gets its address here. */
acre_status span_publish_locked(struct sim *sim, struct sim_span *span);
/* The span of that kind and device that begins at base. */
acre_status span_exact_locked(struct sim *sim, const void *base, enum sim_span_kind kind,
                              int device, struct sim_span **out);
/* Takes a span out of the index; the caller finishes what it returns. */
struct sim_retired span_forget_locked(struct sim *sim, struct sim_span *span);
void retired_finish(const struct sim_retired *retired);
/* Gives back pages and addresses of a span that is in no index and not pinned. */
void span_destroy(struct sim_span *span);

/* ---- Finding (sim_pin.c) --------------------------------------------------- */

struct sim_span *span_find_locked(struct sim *sim, const void *pointer);
/* The mapping around pointer that is not leaving, or NULL. */
struct sim_mapping *mapping_find_locked(struct sim_span *range, const void *pointer);

/* ---- Handles (sim_physical.c) -------------------------------------------------- */

/* Gives an object a token. Errors: ACRE_ERR_HOST_MEMORY. */
acre_status token_take_locked(struct sim_memory *memory, void *object, bool is_multicast,
                              void **out_token);
/* The object of a token, or NULL. */
void *token_find_locked(const struct sim_memory *memory, const void *token, bool is_multicast);
void token_give_locked(struct sim_memory *memory, const void *token);
/* When nothing needs the handle any more, gives up its capacity and tells so; the
 * caller then destroys it without the lock. */
bool physical_forget_locked(struct sim *sim, struct sim_physical *handle);
void physical_destroy(struct sim_physical *handle);
/* Frees whatever still has a token; mappings are gone. */
void tokens_destroy(struct sim *sim);

/* ---- Mappings (sim_virtual.c) --------------------------------------------------- */

/* Whether bytes are whole pages of virtual memory; call names the caller. */
acre_status pages_check(const struct sim *sim, const char *call, size_t bytes);
/* Forgets all mappings of a reservation; the views are released with it. */
void mappings_destroy(struct sim *sim, struct sim_span *range);

/* ---- Pages (sim_pages.c) --------------------------------------------------------
 * Every system call for memory is here. Dry devices: extents have no descriptor,
 * addresses come from sim_dry.c, and the views are not touched. */

/* Pages of a device; shareable ones have a sealed memfd of their own. */
acre_status extent_create(struct sim *sim, int device, size_t bytes, bool is_shareable,
                          struct sim_extent *out);
/* Gives the pages back. */
void extent_destroy(struct sim_extent *extent);
/* Copies what exists of one extent, which is visible at view, into another of the
 * same size that is empty. */
acre_status extent_copy(const struct sim_extent *from, const char *view,
                        const struct sim_extent *to);

/* Finds addresses for both views, inaccessible, both aligned; align is a power of
 * two. What lies between them belongs to them. */
acre_status views_reserve(size_t bytes, size_t align, char **out_public, char **out_alias);
void views_release(char *public_base, char *alias, size_t bytes);
/* Puts an extent at an address that was reserved, readable and writable. */
acre_status view_map(char *address, const struct sim_extent *extent);
/* Makes addresses of the public or the private view a bare reservation again. */
acre_status public_unmap(char *address, size_t bytes);
acre_status alias_unmap(char *address, size_t bytes);
/* Opens or closes a view that is mapped. */
acre_status view_protect(char *address, size_t bytes, bool is_open);
/* Host memory: anonymous, accessible. */
acre_status host_pages_map(size_t bytes, char **out);
void pages_unmap(void *address, size_t bytes);

/* Makes the n-th mapping call of the process from now fail, 1 being the next;
 * for tests, as heap_fail_nth. */
void pages_fail_nth(uint64_t nth);
/* Switches that off; tells whether a call was failed since. */
int pages_fail_disarm(void);

/* ---- Dry devices (sim_dry.c) -------------------------------------------------------- */

/* Takes and gives back a part of the address space that no other dry backend
 * has at this moment. */
acre_status dry_init(struct sim *sim);
void dry_fini(struct sim *sim);
/* Chooses node->base for node->bytes. Errors: ACRE_ERR_DEVICE_MEMORY. */
acre_status dry_place_locked(struct sim_memory *memory, struct sim_node *node);

/* ---- Windows (sim_window.c) ---------------------------------------------------------- */

/* Maps the public view of new memory when the device is open to the host. */
acre_status window_start(struct sim *sim, struct sim_window *window, char *base,
                         const struct sim_extent *extent);
/* Forgets windows of memory that goes away. */
void window_drop_locked(struct sim *sim, struct sim_window *window);

/* ---- Multicast (sim_multicast.c) ------------------------------------------------------- */

void multicast_destroy(struct sim_multicast *multicast);

/* ---- Plain allocations in other processes (sim_ipc.c) --------------------------------- */

/* Waits once for a call that looks at an export of span; whether it did. The span
 * may be gone then. */
bool exports_wait_locked(struct sim *sim, const struct sim_span *span);
/* Takes the exports of a span out, for exports_end without the lock. */
void exports_detach_locked(struct sim *sim, struct sim_span *span, struct list *out);
void exports_end(struct list *exports);
/* Ends all exports of a backend. */
void exports_destroy(struct sim *sim);

/* ---- Entries of the table; signatures as in acre_backend_ops ---------------------------- */

acre_status sim_memory_info(void *self, int device, uint64_t *out_free, uint64_t *out_total);
acre_status sim_alloc(void *self, int device, size_t bytes, void **out_base);
acre_status sim_free(void *self, int device, void *base);
acre_status sim_host_alloc(void *self, size_t bytes, void **out_base);
acre_status sim_host_free(void *self, void *base);
acre_status sim_host_register(void *self, void *base, size_t bytes);
acre_status sim_host_unregister(void *self, void *base);
acre_status sim_pointer_info(void *self, const void *pointer, acre_pointer_info *out_info);
acre_status sim_access_open(void *self, const void *pointer);
acre_status sim_access_close(void *self, const void *pointer);
acre_status sim_reserve(void *self, int device, size_t bytes, void **out_base);
acre_status sim_unreserve(void *self, int device, void *base, size_t bytes);
acre_status sim_create(void *self, int device, size_t bytes, acre_handle_type type,
                       void **out_handle);
acre_status sim_release(void *self, int device, void *handle);
acre_status sim_map(void *self, int device, void *base, size_t bytes, size_t offset, void *handle);
acre_status sim_unmap(void *self, int device, void *base, size_t bytes);
acre_status sim_set_access(void *self, int device, void *base, size_t bytes, int accessor,
                           acre_access access);
acre_status sim_export_fd(void *self, int device, void *handle, int *out_fd);
acre_status sim_import_fd(void *self, int device, int fd, void **out_handle, uint64_t *out_bytes);
acre_status sim_ipc_export(void *self, int device, void *base, uint8_t out_handle[64]);
acre_status sim_ipc_open(void *self, int device, const uint8_t handle[64], void **out_base,
                         uint64_t *out_bytes);
acre_status sim_ipc_close(void *self, int device, void *base);
acre_status sim_ipc_users(void *self, int device, const uint8_t handle[64], uint64_t *out_count);
acre_status sim_ipc_revoke(void *self, int device, const uint8_t handle[64], uint64_t *out_count);
acre_status sim_peer_query(void *self, int device, int other, bool *out_can);
acre_status sim_peer_enable(void *self, int device, int other);
acre_status sim_multicast_create(void *self, const int *devices, int device_count, size_t bytes,
                                 void **out_handle);
acre_status sim_multicast_bind(void *self, void *handle, int device, size_t offset, void *memory,
                               size_t bytes);
acre_status sim_multicast_unbind(void *self, void *handle, int device, size_t offset, size_t bytes);
acre_status sim_multicast_release(void *self, void *handle);

#endif
