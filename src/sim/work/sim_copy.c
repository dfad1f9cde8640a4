/* SPDX-License-Identifier: MIT */
/* Work of the reference device: what is queued, and what doing it means.
 *
 * Entries that only queue check the stream, NULL functions and the like; what they
 * say about memory is checked when the work runs, because only then it is known
 * which memory is there. Such an error is reported by the next synchronize.
 *
 * Memory is pinned while it is worked on and touched through its private address.
 * No lock is held meanwhile. On a dry device everything is checked and nothing
 * moves: device memory has no address there.
 */
#include "sim/work/sim_event.h"
#include "sim/work/sim_queue.h"
#include "sim/work/sim_stream.h"
#include "base/heap.h"

#include <string.h>

/* ---- Copies ----------------------------------------------------------------------- */

/* What each kind of copy wants to be device memory. */
static acre_status check_kind(const struct sim_pin *dst, const struct sim_pin *src, int kind)
{
    static const char *const names[] = {"host to host", "host to device", "device to host",
                                        "device to device"};
    bool to = kind == ACRE_COPY_HOST_TO_DEVICE || kind == ACRE_COPY_DEVICE_TO_DEVICE;
    bool from = kind == ACRE_COPY_DEVICE_TO_HOST || kind == ACRE_COPY_DEVICE_TO_DEVICE;

    if ((dst->kind == ACRE_MEMORY_DEVICE) != to)
        return status_fail(ACRE_ERR_INVALID, "copy %s: the destination %p is %sdevice memory",
                           names[kind], dst->pointer, to ? "not " : "");
    if ((src->kind == ACRE_MEMORY_DEVICE) != from)
        return status_fail(ACRE_ERR_INVALID, "copy %s: the source %p is %sdevice memory",
                           names[kind], src->pointer, from ? "not " : "");
    return ACRE_OK;
}

/* Pins both sides; on failure neither is pinned. */
static acre_status pin_both(struct sim *sim, void *dst, const void *src, size_t bytes,
                            struct sim_pin *dst_pin, struct sim_pin *src_pin)
{
    acre_status status = sim_pin(sim, dst, bytes, dst_pin);

    if (status != ACRE_OK)
        return status;
    status = sim_pin(sim, src, bytes, src_pin);
    if (status != ACRE_OK)
        sim_unpin(sim, dst_pin);
    return status;
}

/* Ranges may overlap. */
static void sim_copy_move(const struct sim_pin *dst, const struct sim_pin *src)
{
    if (dst->address && src->address)
        memmove(dst->address, src->address, dst->bytes);
}

/* Copies now. accessor is the device of the stream, -1 for a blocking copy. */
static acre_status copy_run(struct sim *sim, void *dst, const void *src, size_t bytes, int kind,
                            int accessor)
{
    struct sim_pin dst_pin, src_pin;
    acre_status status;

    if (kind < ACRE_COPY_HOST_TO_HOST || kind > ACRE_COPY_DEVICE_TO_DEVICE)
        return status_fail(ACRE_ERR_INVALID, "copy kind %d is not one of 0 to 3", kind);
    status = pin_both(sim, dst, src, bytes, &dst_pin, &src_pin);
    if (status != ACRE_OK)
        return status;
    status = check_kind(&dst_pin, &src_pin, kind);
    if (status == ACRE_OK)
        status = sim_pin_copy(sim, &dst_pin, accessor, ACRE_ACCESS_READ_WRITE);
    if (status == ACRE_OK)
        status = sim_pin_copy(sim, &src_pin, accessor, ACRE_ACCESS_READ);
    if (status == ACRE_OK)
        sim_copy_move(&dst_pin, &src_pin);
    sim_unpin(sim, &src_pin);
    sim_unpin(sim, &dst_pin);
    return status;
}

/* A side of a peer copy lies on the device it is said to. */
static acre_status check_peer(struct sim *sim, const struct sim_pin *pin, int device,
                              acre_access access)
{
    if (pin->kind != ACRE_MEMORY_DEVICE || pin->device != device)
        return status_fail(ACRE_ERR_INVALID, "peer copy: %p is not memory of device %d",
                           pin->pointer, device);
    return sim_pin_copy(sim, pin, device, access);
}

static acre_status copy_peer_run(struct sim *sim, const struct op *op)
{
    struct sim_pin dst, src;
    acre_status status = pin_both(sim, op->copy.dst, op->copy.src, op->copy.bytes, &dst, &src);

    if (status != ACRE_OK)
        return status;
    status = check_peer(sim, &dst, op->copy.dst_device, ACRE_ACCESS_READ_WRITE);
    if (status == ACRE_OK)
        status = check_peer(sim, &src, op->copy.src_device, ACRE_ACCESS_READ);
    if (status == ACRE_OK)
        sim_copy_move(&dst, &src);
    sim_unpin(sim, &src);
    sim_unpin(sim, &dst);
    return status;
}

static acre_status multicast_run(struct sim *sim, const struct op *op)
{
    struct sim_pin members[SIM_DEVICES_MAX], src;
    int count = 0;
    acre_status status = sim_pin(sim, op->multicast.src, op->multicast.bytes, &src);

    if (status != ACRE_OK)
        return status;
    if (src.kind != ACRE_MEMORY_DEVICE)
        status = status_fail(ACRE_ERR_INVALID,
                             "multicast write: the source %p is not device "
                             "memory",
                             op->multicast.src);
    if (status == ACRE_OK)
        status = sim_pin_kernel(sim, &src, op->device, ACRE_ACCESS_READ);
    struct multicast_part part = {op->device, op->multicast.offset, op->multicast.bytes};
    if (status == ACRE_OK)
        status = sim_multicast_pin(sim, op->multicast.handle, &part, members, &count);
    if (status == ACRE_OK) {
        for (int i = 0; i < count; i++) {
            sim_copy_move(&members[i], &src);
            sim_unpin(sim, &members[i]);
        }
    }
    sim_unpin(sim, &src);
    return status;
}

/* ---- Fills and values ------------------------------------------------------------- */

/* Pins what a kernel of the device may touch. */
static acre_status pin_kernel(struct sim *sim, const void *pointer, size_t bytes, int device,
                              acre_access access, struct sim_pin *out)
{
    acre_status status = sim_pin(sim, pointer, bytes, out);

    if (status != ACRE_OK)
        return status;
    if (out->kind == ACRE_MEMORY_UNMANAGED)
        status = status_fail(ACRE_ERR_INVALID,
                             "%zu bytes at %p are not memory that device %d can "
                             "reach",
                             bytes, pointer, device);
    else
        status = sim_pin_kernel(sim, out, device, access);
    if (status != ACRE_OK)
        sim_unpin(sim, out);
    return status;
}

static acre_status fill_run(struct sim *sim, const struct op *op)
{
    struct sim_pin pin;
    acre_status status =
        pin_kernel(sim, op->fill.dst, op->fill.bytes, op->device, ACRE_ACCESS_READ_WRITE, &pin);

    if (status != ACRE_OK)
        return status;
    if (pin.address)
        memset(pin.address, op->fill.value, op->fill.bytes);
    sim_unpin(sim, &pin);
    return ACRE_OK;
}

static acre_status write_value_run(struct sim_streams *all, const struct op *op)
{
    struct sim_pin pin;
    acre_status status = pin_kernel(all->sim, op->value.address, sizeof(uint32_t), op->device,
                                    ACRE_ACCESS_READ_WRITE, &pin);

    if (status != ACRE_OK)
        return status;
    if (pin.address)
        atomic_store_explicit((_Atomic uint32_t *)pin.address, op->value.value,
                              memory_order_release);
    sim_unpin(all->sim, &pin);
    workers_value_written(&all->workers);
    return ACRE_OK;
}

static bool condition_holds(uint32_t seen, uint32_t value, int condition)
{
    switch (condition) {
    case ACRE_WAIT_GEQ:
        return (int32_t)(seen - value) >= 0;
    case ACRE_WAIT_EQ:
        return seen == value;
    case ACRE_WAIT_AND:
        return (seen & value) != 0;
    default:
        return ~(seen | value) != 0;
    }
}

acre_status op_check_value(struct sim_streams *all, const struct op *op, bool *out_met)
{
    struct sim_pin pin;
    acre_status status;

    if (atomic_load(&all->is_closing))
        return status_fail(ACRE_ERR_STATE,
                           "the backend is going: nobody will write the value "
                           "at %p that a stream waits for",
                           op->value.address);
    status = pin_kernel(all->sim, op->value.address, sizeof(uint32_t), op->device, ACRE_ACCESS_READ,
                        &pin);
    if (status != ACRE_OK)
        return status;
    *out_met =
        !pin.address || /* a dry device has no values to wait for */
        condition_holds(atomic_load_explicit((_Atomic uint32_t *)pin.address, memory_order_acquire),
                        op->value.value, op->value.condition);
    sim_unpin(all->sim, &pin);
    return ACRE_OK;
}

/* ---- Kernels ---------------------------------------------------------------------- */

#define KERNEL_PINS 8 /* pointers a kernel may ask for without the heap */

/* A kernel that runs, and the memory it asked for. */
struct kernel_run {
    acre_kernel_context context;
    struct sim *sim;
    size_t count, capacity;
    struct sim_pin *pins; /* first, or of the heap */
    struct sim_pin first[KERNEL_PINS];
};

/* Makes room for one more pin. */
static bool kernel_reserve(struct kernel_run *run)
{
    struct sim_pin *more;

    if (run->count < run->capacity)
        return true;
    more = heap_array(2 * run->capacity, sizeof *more);
    if (!more)
        return false;
    memcpy(more, run->pins, run->count * sizeof *more);
    if (run->pins != run->first)
        heap_free(run->pins);
    run->pins = more;
    run->capacity *= 2;
    return true;
}

/* Memory that is asked for twice is pinned once. */
static void *kernel_pointer(acre_kernel_context *context, const void *device_pointer, size_t bytes)
{
    struct kernel_run *run = CONTAINER_OF(context, struct kernel_run, context);

    for (size_t i = 0; i < run->count; i++)
        if (run->pins[i].pointer == device_pointer && run->pins[i].bytes >= bytes && bytes)
            return run->pins[i].address;
    if (!kernel_reserve(run) || pin_kernel(run->sim, device_pointer, bytes, context->device,
                                           ACRE_ACCESS_READ, &run->pins[run->count]) != ACRE_OK)
        return NULL;
    return run->pins[run->count++].address;
}

/* A kernel may write to its arguments. Those of a graph serve every launch, also
 * several at once, so a run gets a copy: in room when it fits, else of the heap. */
static void *kernel_args(const struct op *op, void *room, size_t room_bytes)
{
    void *args = op->kernel.args;

    if (!op->kernel.is_shared)
        return args;
    args = op->kernel.bytes <= room_bytes ? room : heap_alloc(op->kernel.bytes);
    if (args)
        memcpy(args, op->kernel.args, op->kernel.bytes);
    return args;
}

static acre_status kernel_run(struct sim *sim, const struct op *op)
{
    _Alignas(16) unsigned char room[TASK_ARGS_BYTES];
    void *args;
    struct kernel_run run = {
        .context = {op->device, kernel_pointer}, .sim = sim, .capacity = KERNEL_PINS};

    if (sim_is_dry(sim))
        return ACRE_OK;
    args = kernel_args(op, room, sizeof room);
    if (!args && op->kernel.is_shared)
        return ACRE_ERR_HOST_MEMORY;
    run.pins = run.first;
    op->kernel.fn(&run.context, args);
    if (op->kernel.is_shared && args != room)
        heap_free(args);
    for (size_t i = 0; i < run.count; i++)
        sim_unpin(sim, &run.pins[i]);
    if (run.pins != run.first)
        heap_free(run.pins);
    return ACRE_OK;
}

acre_status op_run(struct sim_streams *all, const struct op *op)
{
    switch (op->type) {
    case OP_HOST:
        op->host.fn(op->host.arg);
        return ACRE_OK;
    case OP_KERNEL:
        return kernel_run(all->sim, op);
    case OP_COPY:
        return copy_run(all->sim, op->copy.dst, op->copy.src, op->copy.bytes, op->copy.kind,
                        op->device);
    case OP_COPY_PEER:
        return copy_peer_run(all->sim, op);
    case OP_FILL:
        return fill_run(all->sim, op);
    case OP_WRITE_VALUE:
        return write_value_run(all, op);
    case OP_STAMP:
        event_stamp(op, stream_running());
        return ACRE_OK;
    case OP_MULTICAST:
        return multicast_run(all->sim, op);
    case OP_WAIT_VALUE:
    case OP_WAIT_POINT:
    case OP_GRAPH:
        break;
    }
    CHECK(!"waits and graphs are not run");
    return ACRE_ERR_INTERNAL;
}

/* ---- Entries of the table -------------------------------------------------------- */

acre_status sim_copy(void *self, void *dst, const void *src, size_t bytes, acre_copy_kind kind)
{
    struct sim *sim = self;
    acre_status status = sim_enter(sim, ACRE_SIM_COPY, 0, bytes);

    return status != ACRE_OK ? status : copy_run(sim, dst, src, bytes, (int)kind, -1);
}

acre_status sim_copy_async(void *self, int device, void *dst, const void *src, size_t bytes,
                           acre_copy_kind kind, void *stream)
{
    struct sim *sim = self;
    struct op op = {.type = OP_COPY, .device = device};
    acre_status status = sim_enter(sim, ACRE_SIM_COPY, device, bytes);

    if (status != ACRE_OK)
        return status;
    op.copy.dst = dst;
    op.copy.src = src;
    op.copy.bytes = bytes;
    op.copy.kind = (int)kind;
    return stream_submit(sim->streams, device, stream, &op);
}

acre_status sim_copy_peer_async(void *self, void *dst, int dst_device, const void *src,
                                int src_device, size_t bytes, void *stream)
{
    struct sim *sim = self;
    struct op op = {.type = OP_COPY_PEER, .device = dst_device};
    acre_status status = sim_enter(sim, ACRE_SIM_COPY, dst_device, bytes);

    if (status == ACRE_OK)
        status = sim_enter_plain(sim, src_device);
    if (status != ACRE_OK)
        return status;
    op.copy.dst = dst;
    op.copy.src = src;
    op.copy.bytes = bytes;
    op.copy.dst_device = dst_device;
    op.copy.src_device = src_device;
    /* Any stream will do; NULL is the default stream of the source. */
    return stream_submit(sim->streams, stream ? -1 : src_device, stream, &op);
}

acre_status sim_fill_async(void *self, int device, void *dst, int value, size_t bytes, void *stream)
{
    struct sim *sim = self;
    struct op op = {.type = OP_FILL, .device = device};
    acre_status status = sim_enter(sim, ACRE_SIM_FILL, device, bytes);

    if (status != ACRE_OK)
        return status;
    op.fill.dst = dst;
    op.fill.value = value;
    op.fill.bytes = bytes;
    return stream_submit(sim->streams, device, stream, &op);
}

acre_status sim_launch_host(void *self, int device, void *stream, void (*fn)(void *), void *arg)
{
    struct sim *sim = self;
    struct op op = {.type = OP_HOST, .device = device};
    acre_status status = sim_enter(sim, ACRE_SIM_LAUNCH, device, 0);

    if (status == ACRE_OK && !fn)
        status = status_fail(ACRE_ERR_INVALID, "launch_host: no function to call (NULL)");
    if (status != ACRE_OK)
        return status;
    op.host.fn = fn;
    op.host.arg = arg;
    return stream_submit(sim->streams, device, stream, &op);
}

acre_status sim_launch_kernel(void *self, int device, void *stream, acre_kernel_fn fn,
                              const void *args, size_t args_bytes)
{
    struct sim *sim = self;
    struct op op = {.type = OP_KERNEL, .device = device};
    acre_status status = sim_enter(sim, ACRE_SIM_LAUNCH, device, args_bytes);

    if (status == ACRE_OK && !fn)
        status = status_fail(ACRE_ERR_INVALID, "launch_kernel: no kernel to run (NULL)");
    if (status == ACRE_OK && !args && args_bytes > 0)
        status = status_fail(ACRE_ERR_INVALID, "launch_kernel: %zu bytes of arguments at NULL",
                             args_bytes);
    if (status != ACRE_OK)
        return status;
    op.kernel.fn = fn;
    op.kernel.args = args_bytes > 0 ? (void *)args : NULL; /* only read: a task has its own copy */
    op.kernel.bytes = args_bytes;
    return stream_submit(sim->streams, device, stream, &op);
}

/* Both value entries: op has its type, device and value. */
static acre_status queue_value(struct sim *sim, void *stream, const struct op *op)
{
    const void *address = op->value.address;
    int condition = op->value.condition;
    acre_status status = sim_enter(sim, ACRE_SIM_VALUE, op->device, sizeof op->value.value);

    if (status != ACRE_OK)
        return status;
    if (!address || (uintptr_t)address % sizeof op->value.value != 0)
        return status_fail(ACRE_ERR_INVALID,
                           "a 32-bit value cannot lie at %p: give an aligned "
                           "device address",
                           address);
    if (condition < ACRE_WAIT_GEQ || condition > ACRE_WAIT_NOR)
        return status_fail(ACRE_ERR_INVALID, "wait condition %d is not one of 0 to 3", condition);
    return stream_submit(sim->streams, op->device, stream, op);
}

acre_status sim_write_value32(void *self, int device, void *stream, void *address, uint32_t value)
{
    struct op op = {.type = OP_WRITE_VALUE, .device = device};

    op.value.address = address;
    op.value.value = value;
    op.value.condition = ACRE_WAIT_EQ; /* not used for writing */
    return queue_value(self, stream, &op);
}

acre_status sim_wait_value32(void *self, int device, void *stream, void *address, uint32_t value,
                             acre_wait_condition condition)
{
    struct op op = {.type = OP_WAIT_VALUE, .device = device};

    op.value.address = address;
    op.value.value = value;
    op.value.condition = (int)condition;
    return queue_value(self, stream, &op);
}

acre_status sim_multicast_write_async(void *self, int device, void *handle, size_t offset,
                                      const void *src, size_t bytes, void *stream)
{
    struct sim *sim = self;
    struct op op = {.type = OP_MULTICAST, .device = device};
    acre_status status = sim_enter(sim, ACRE_SIM_MULTICAST, device, bytes);

    if (status != ACRE_OK)
        return status;
    op.multicast.handle = handle;
    op.multicast.offset = offset;
    op.multicast.src = src;
    op.multicast.bytes = bytes;
    return stream_submit(sim->streams, device, stream, &op);
}
