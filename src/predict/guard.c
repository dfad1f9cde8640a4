/* SPDX-License-Identifier: MIT */
#include "predict/guard.h"

#include "predict/tensor.h"
#include "predict/thread.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* c10::Device and c10::Stream: plain values, passed and returned in registers. */
struct torch_device {
    int8_t type;
    int8_t index;
};

struct torch_stream {
    struct torch_device device;
    int64_t id;
};

/* An object with virtual functions. */
struct torch_object {
    void (*const *table)(void);
};

enum { TYPE_CUDA = 1 };

static int8_t devices_shown = 1; /* set before any other thread asks */
static long cudnn_shown;         /* likewise                         */
static void *host_allocator;     /* likewise; PyTorch's own          */
static atomic_bool is_capturing; /* whether a graph is being captured */

/* The index that a device means: its own, or the current one. */
static int8_t device_index(struct torch_device device)
{
    bool is_named = device.index >= 0 && device.index < PREDICT_DEVICES_MAX;

    return is_named ? device.index : thread_self()->device;
}

/* ---- The guard ------------------------------------------------------------------ */

static int8_t guard_type(const struct torch_object *self)
{
    (void)self;
    return TYPE_CUDA;
}

static struct torch_device guard_get(const struct torch_object *self)
{
    (void)self;
    return (struct torch_device){TYPE_CUDA, thread_self()->device};
}

static void guard_set(const struct torch_object *self, struct torch_device device)
{
    (void)self;
    thread_self()->device = device_index(device);
}

static struct torch_device guard_exchange(const struct torch_object *self,
                                          struct torch_device device)
{
    struct torch_device before = guard_get(self);

    guard_set(self, device);
    return before;
}

static struct torch_stream guard_stream(const struct torch_object *self, struct torch_device device)
{
    int8_t index = device_index(device);

    (void)self;
    return (struct torch_stream){{TYPE_CUDA, index}, thread_self()->streams[index]};
}

static struct torch_stream guard_default_stream(const struct torch_object *self,
                                                struct torch_device device)
{
    (void)self;
    return (struct torch_stream){{TYPE_CUDA, device_index(device)}, 0};
}

static struct torch_stream guard_exchange_stream(const struct torch_object *self,
                                                 struct torch_stream stream)
{
    struct torch_stream before = guard_stream(self, stream.device);

    thread_self()->streams[before.device.index] = stream.id;
    return before;
}

/* Streams of the pool go round, as they do in PyTorch. */
enum { POOL_STREAMS = 32 };

static struct torch_stream guard_new_stream(const struct torch_object *self,
                                            struct torch_device device)
{
    static atomic_uint next[PREDICT_DEVICES_MAX];
    int8_t index = device_index(device);

    (void)self;
    return (struct torch_stream){{TYPE_CUDA, index},
                                 1 + atomic_fetch_add(&next[index], 1) % POOL_STREAMS};
}

static int8_t guard_count(const struct torch_object *self)
{
    (void)self;
    return devices_shown;
}

static bool guard_capturing(const struct torch_object *self)
{
    (void)self;
    return is_capturing;
}

/* A c10::DataPtr begins with the address. */
static void guard_record(const struct torch_object *self, void *const *data,
                         const struct torch_stream *stream)
{
    (void)self;
    (void)acre_predict_record(*data, stream->id);
}

/* Answers for calls with nothing to do: their results are void, NULL or false. */
static void *answer_nothing(const struct torch_object *self)
{
    (void)self;
    return NULL;
}

static bool answer_yes(const struct torch_object *self)
{
    (void)self;
    return true;
}

static double answer_zero(const struct torch_object *self)
{
    (void)self;
    return 0;
}

static uint64_t answer_all_bits(const struct torch_object *self)
{
    (void)self;
    return UINT64_MAX;
}

#define SLOT(function) ((void (*)(void))(function))

/* In the order of DeviceGuardImplInterface. */
static void (*const guard_table[])(void) = {
    SLOT(guard_type),
    SLOT(guard_exchange),
    SLOT(guard_get),
    SLOT(guard_set),
    SLOT(guard_set),
    SLOT(guard_stream),
    SLOT(guard_default_stream),
    SLOT(guard_new_stream), /* getStreamFromGlobalPool */
    SLOT(guard_new_stream), /* getNewStream            */
    SLOT(guard_exchange_stream),
    SLOT(answer_nothing), /* getStreamNativeHandle   */
    SLOT(answer_nothing), /* destroyEvent            */
    SLOT(answer_nothing), /* record                  */
    SLOT(answer_nothing), /* block                   */
    SLOT(answer_yes),     /* queryEvent              */
    SLOT(guard_count),
    SLOT(answer_all_bits), /* getDeviceCapability     */
    SLOT(answer_yes),      /* queryStream             */
    SLOT(answer_nothing),  /* synchronizeStream       */
    SLOT(guard_capturing), /* isStreamCapturing       */
    SLOT(answer_nothing),  /* synchronizeEvent        */
    SLOT(answer_nothing),  /* synchronizeDevice       */
    SLOT(guard_record),    /* recordDataPtrOnStream   */
    SLOT(answer_zero),     /* elapsedTime             */
    SLOT(answer_nothing),
    SLOT(answer_nothing), /* destructors, never called */
};

static const struct torch_object guard_object = {guard_table};

const void *acre_predict_guard(int device_count)
{
    devices_shown = (int8_t)(device_count < 1                     ? 1
                             : device_count > PREDICT_DEVICES_MAX ? PREDICT_DEVICES_MAX
                                                                  : device_count);
    return &guard_object;
}

/* ---- The hooks ------------------------------------------------------------------ */

static void hooks_set_device(const struct torch_object *self, int8_t index)
{
    guard_set(self, (struct torch_device){TYPE_CUDA, index});
}

static int8_t hooks_get_device(const struct torch_object *self)
{
    (void)self;
    return thread_self()->device;
}

static int8_t hooks_exchange(const struct torch_object *self, int8_t index)
{
    return guard_exchange(self, (struct torch_device){TYPE_CUDA, index}).index;
}

static struct torch_device hooks_device_of(const struct torch_object *self, void *pointer)
{
    (void)pointer;
    return guard_get(self);
}

static long hooks_cudnn(const struct torch_object *self)
{
    (void)self;
    return cudnn_shown;
}

static void *hooks_allocator(const struct torch_object *self)
{
    (void)self;
    return host_allocator;
}

static int hooks_count(const struct torch_object *self)
{
    return guard_count(self);
}

/* Slots of CUDAHooksInterface that answer otherwise; the first 16 are those of
 * AcceleratorHooksInterface, with two destructors at the front. */
enum {
    HOOK_IS_BUILT = 2,
    HOOK_IS_AVAILABLE,
    HOOK_HAS_CONTEXT,
    HOOK_INIT,
    HOOK_DEVICE_COUNT,
    HOOK_SET_DEVICE,
    HOOK_GET_DEVICE,
    HOOK_EXCHANGE,
    HOOK_MAYBE_EXCHANGE,
    HOOK_IS_PINNED = 11, /* of any host memory */
    HOOK_PINNED,
    HOOK_DEVICE_OF_POINTER,
    HOOK_HAS_CUDA = 16,
    HOOK_HAS_CUDART,
    HOOK_HAS_CUDNN = 19,
    HOOK_HAS_CUSOLVER,
    HOOK_HAS_CUBLASLT,
    HOOK_CURRENT_DEVICE = 26,
    HOOK_WITH_CUDNN = 28,
    HOOK_DILATED = 30,
    HOOK_DEPTHWISE,
    HOOK_BFLOAT16_CONV,
    HOOK_BFLOAT16_RNN,
    HOOK_CUDNN,
    HOOK_CUDNN_RUNTIME,
    HOOK_CUDNN_FRONTEND,
    HOOK_NORM_EPSILON = 41,
    HOOK_GPU_COUNT = 46,
    HOOK_SYNCHRONIZE,
    HOOK_COUNT
};

/* A table begins with two words of type information, which the object skips. */
enum { TABLE_HEAD = 2 };

int acre_predict_hooks(void *hooks, uint64_t table_bytes, long cudnn_version, void *allocator)
{
    static void (*table[TABLE_HEAD + HOOK_COUNT])(void);
    static void (*const yes)(void) = SLOT(answer_yes);
    static const int affirmed[] = {
        HOOK_IS_BUILT,  HOOK_IS_AVAILABLE,  HOOK_HAS_CONTEXT,  HOOK_HAS_CUDA,   HOOK_HAS_CUDART,
        HOOK_HAS_CUDNN, HOOK_HAS_CUSOLVER,  HOOK_HAS_CUBLASLT, HOOK_WITH_CUDNN, HOOK_DILATED,
        HOOK_DEPTHWISE, HOOK_BFLOAT16_CONV, HOOK_BFLOAT16_RNN, HOOK_IS_PINNED};
    struct torch_object *object = hooks;

    if (!hooks || table_bytes != sizeof table)
        return -1;
    cudnn_shown = cudnn_version;
    host_allocator = allocator;
    memcpy(table, object->table - TABLE_HEAD, sizeof table);
    void (**slots)(void) = table + TABLE_HEAD;
    for (size_t i = 0; i < sizeof affirmed / sizeof *affirmed; i++)
        slots[affirmed[i]] = yes;
    slots[HOOK_INIT] = slots[HOOK_SYNCHRONIZE] = SLOT(answer_nothing);
    slots[HOOK_DEVICE_COUNT] = SLOT(guard_count);
    slots[HOOK_SET_DEVICE] = SLOT(hooks_set_device);
    slots[HOOK_GET_DEVICE] = slots[HOOK_CURRENT_DEVICE] = SLOT(hooks_get_device);
    slots[HOOK_EXCHANGE] = slots[HOOK_MAYBE_EXCHANGE] = SLOT(hooks_exchange);
    slots[HOOK_PINNED] = SLOT(hooks_allocator);
    slots[HOOK_DEVICE_OF_POINTER] = SLOT(hooks_device_of);
    slots[HOOK_CUDNN] = slots[HOOK_CUDNN_RUNTIME] = slots[HOOK_CUDNN_FRONTEND] = SLOT(hooks_cudnn);
    slots[HOOK_NORM_EPSILON] = SLOT(answer_zero);
    slots[HOOK_GPU_COUNT] = SLOT(hooks_count);
    object->table = (void (*const *)(void))slots;
    return 0;
}

/* ---- The calling thread --------------------------------------------------------- */

int acre_predict_device(void)
{
    return thread_self()->device;
}

void acre_predict_device_set(int device)
{
    if (device >= 0 && device < PREDICT_DEVICES_MAX)
        thread_self()->device = (int8_t)device;
}

int64_t acre_predict_stream(int device)
{
    return device >= 0 && device < PREDICT_DEVICES_MAX ? thread_self()->streams[device] : 0;
}

void acre_predict_stream_set(int device, int64_t stream)
{
    if (device >= 0 && device < PREDICT_DEVICES_MAX)
        thread_self()->streams[device] = stream;
}

void acre_predict_capturing_set(int capturing)
{
    is_capturing = capturing != 0;
}
