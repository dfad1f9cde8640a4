/* SPDX-License-Identifier: MIT */
/* The reference device from inside: what its two halves share.
 *
 * The memory half (sim.c, sim_conf.c, sim_fault.c, and what sim_memory.h names)
 * owns struct sim. The stream half (what sim_stream.h names) owns struct
 * sim_streams and reaches memory through pins only.
 *
 * Two views. Device memory is pages of a memfd. The public view, the address
 * the user holds, is inaccessible except inside an access window. The private
 * view of the same pages, at a distance that is constant for an allocation or a
 * reservation, is always readable and writable: workers use it.
 *
 *     public   |  base ........ base + bytes |   PROT_NONE, or a window
 *     private  | alias ....... alias + bytes |   read-write where mapped
 *
 * Pins. A pin finds the private address of a range and keeps it there. Free of
 * pinned memory forgets the address at once and gives the pages back with the
 * last pin; unmap waits for the pins of its mappings. No lock is held while
 * memory moves.
 *
 * Fork. In a child of fork every call answers ACRE_ERR_FORKED before it takes a
 * lock; sim_enter sees to that. Destroying there frees nothing.
 */
#ifndef SRC_BACKEND_SIM_H
#define SRC_BACKEND_SIM_H

#include "base/check.h"
#include "base/lock.h"
#include "base/status.h"

#include <acre/backend.h>
#include <acre/sim.h>

#include <stdatomic.h>

#define SIM_DEVICES_MAX 64

struct sim_memory;  /* sim_memory.h: everything the memory half holds        */
struct sim_faults;  /* sim_fault.c: the faults that are armed                */
struct sim_streams; /* sim_stream.h: everything the stream half holds        */

struct sim {
    acre_sim_config config;   /* complete: no defaults left; constant             */
    int device_count;         /* config.devices                                   */
    unsigned fork_generation; /* sim_fork_generation at creation                  */
    atomic_bool is_slow;      /* a fault is armed or a latency set                */
    struct sim_faults *faults;
    struct sim_memory *memory;
    struct sim_streams *streams;
    _Atomic uint64_t peers[SIM_DEVICES_MAX]; /* [d] bit o: d may reach memory of o */
    _Atomic uint64_t calls[ACRE_SIM_CALL_COUNT];
};

/* ---- Entering a call (sim_fault.c) -------------------------------------- */

/* Grows by one in every child of fork; a backend made before is not usable. */
extern _Atomic unsigned sim_fork_generation;

/* The parts of sim_enter that are seldom needed. */
acre_status sim_enter_forked(acre_sim_call call);
acre_status sim_enter_range(const struct sim *sim, acre_sim_call call, int device);
acre_status sim_enter_slow(struct sim *sim, acre_sim_call call, size_t bytes);

/* Begins every entry of the table: refuses children of fork and bad device
 * indices, counts the call, then applies faults and latency. bytes is what a
 * fault by size compares and what byte_ps is charged for; a call that only
 * queues work gives its size here too, the worker charges nothing more. No lock
 * may be held. Calls without a device pass 0. */
static inline acre_status sim_enter(struct sim *sim, acre_sim_call call, int device,
                                    size_t bytes)
{
    if (UNLIKELY(sim->fork_generation !=
                 atomic_load_explicit(&sim_fork_generation, memory_order_relaxed)))
        return sim_enter_forked(call);
    if (UNLIKELY((unsigned)device >= (unsigned)sim->device_count))
        return sim_enter_range(sim, call, device);
    atomic_fetch_add_explicit(&sim->calls[call], 1, memory_order_relaxed);
    if (UNLIKELY(atomic_load_explicit(&sim->is_slow, memory_order_relaxed)))
        return sim_enter_slow(sim, call, bytes);
    return ACRE_OK;
}

/* Enters a call that no acre_sim_call names (destroy, query, release):
 * only the fork rule and the device index are checked. */
static inline acre_status sim_enter_plain(struct sim *sim, int device)
{
    if (UNLIKELY(sim->fork_generation !=
                 atomic_load_explicit(&sim_fork_generation, memory_order_relaxed)))
        return sim_enter_forked(ACRE_SIM_ANY);
    if (UNLIKELY((unsigned)device >= (unsigned)sim->device_count))
        return sim_enter_range(sim, ACRE_SIM_ANY, device);
    return ACRE_OK;
}

/* ---- Pins (sim_pin.c) ----------------------------------------------------- */

/* A range held in place. The fields are for reading; pass it whole to unpin. */
struct sim_pin {
    void *address;        /* where workers touch the range. The pointer itself for
                             unmanaged and host memory; NULL for device memory of a
                             dry device, which has no bytes to move               */
    acre_memory_kind kind;
    int device;           /* whose memory, -1 unless kind is DEVICE               */
    bool is_mapped;       /* lies in mapped virtual memory: set_access governs it */
    uint64_t readers;     /* bit d: device d was granted reading; see sim_pin_kernel */
    uint64_t writers;     /* bit d: device d was granted writing                  */
    void *owner;          /* for sim_unpin                                        */
    const void *pointer;  /* as asked for                                         */
    size_t bytes;         /* as asked for                                         */
};

/* Resolves and pins a range.
 *
 * Memory that the backend does not know is UNMANAGED and given back as it is.
 * Errors: ACRE_ERR_INVALID: NULL, 0 bytes, a range that runs past the end of its
 * block (the text names both sizes), into a block from outside, or over reserved
 * addresses that nothing is mapped at. */
acre_status sim_pin(struct sim *sim, const void *pointer, size_t bytes, struct sim_pin *out);

/* Lets go of it. A zeroed pin is fine. */
void sim_unpin(struct sim *sim, struct sim_pin *pin);

/* Whether a kernel (or a value write or wait, or a fill) of device accessor may
 * touch what is pinned: own memory, memory of a peer that was enabled, host
 * memory; mapped memory by set_access alone. On refusal records why and answers
 * ACRE_ERR_INVALID. */
acre_status sim_pin_kernel(struct sim *sim, const struct sim_pin *pin, int accessor,
                           acre_access access);

/* Pins memory for a copy on a stream of device accessor. Plain device memory is
 * always copyable: without a peer link the driver would go through the host.
 * Mapped memory needs set_access for the accessor; accessor -1, a blocking copy,
 * is content with any device. A copy between peers asks for each side with its
 * own device. */
acre_status sim_pin_copy(struct sim *sim, const struct sim_pin *pin, int accessor,
                         acre_access access);

/* ---- Multicast, for multicast_write_async (sim_multicast.c) ----------------- */

/* A part of a multicast handle, and the device that asks about it. */
struct multicast_part {
    int device;
    size_t offset, bytes;
};

/* Pins the bound memory of every member in a part for writing.
 * pins has room for SIM_DEVICES_MAX; on success *out_count of them are to be
 * unpinned. Errors: ACRE_ERR_INVALID: not a multicast handle, a range past its
 * end, device not a member, a member with nothing bound there, memory gone. */
acre_status sim_multicast_pin(struct sim *sim, void *handle, const struct multicast_part *part,
                              struct sim_pin *pins, int *out_count);

/* ---- Shared facts -------------------------------------------------------------- */

/* Whether the topology links two devices; a device is linked with itself. */
bool sim_is_linked(const struct sim *sim, int device, int other);

/* Whether copies, fills and kernels move nothing. */
static inline bool sim_is_dry(const struct sim *sim)
{
    return sim->config.dry != 0;
}

/* ---- What the memory half calls of the stream half (sim_stream.h declares) -----
 *
 *   acre_status sim_streams_create(struct sim *sim);   sets sim->streams
 *   void sim_streams_destroy(struct sim *sim);         waits for all work, joins
 *                                                      threads; accepts NULL streams
 *   void sim_streams_usage(struct sim *sim, acre_sim_usage *out);  stream_count,
 *                              event_count, graph_count, thread_count; leaves the rest
 *
 * and these entries of the table, with exactly the signatures of acre_backend_ops
 * (self is a struct sim *):
 *
 *   sim_stream_create sim_stream_destroy sim_stream_query sim_stream_synchronize
 *   sim_stream_wait_event sim_stream_priority sim_device_synchronize
 *   sim_event_create sim_event_destroy sim_event_record sim_event_query
 *   sim_event_synchronize sim_event_elapsed
 *   sim_copy sim_copy_async sim_copy_peer_async sim_fill_async
 *   sim_launch_host sim_launch_kernel sim_write_value32 sim_wait_value32
 *   sim_multicast_write_async
 *   sim_capture_begin sim_capture_end sim_capture_info sim_capture_dependencies
 *   sim_graph_launch sim_graph_destroy
 */

#endif
