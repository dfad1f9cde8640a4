/* SPDX-License-Identifier: MIT */
/** @file openreg.h
 *  @brief The OpenReg interface: a small device that lives in host memory.
 *
 * Names, values and layouts are those of OpenReg, so that programs written for
 * it compile and link with libopenreg.so unchanged. Valid as C11 and C++11.
 *
 * There are two devices, each the reference device of Acre. The environment
 * variable OPENREG_SIM, in the grammar of ACRE_SIM (acre/sim.h), asks for
 * others: `OPENREG_SIM="devices:4,memory:1GiB"`. ACRE_SIM has no say here. The
 * devices come into being with the first call that needs them.
 *
 * All calls may come from any thread. Each answers orSuccess, orErrorNotReady
 * where work is outstanding, and orErrorUnknown for everything else; results
 * are written on success only. Handles that were destroyed, or never created,
 * are noticed and refused. In a child of fork, when the parent had used a
 * device, every call that needs one answers orErrorUnknown.
 *
 * Where OpenReg is known to lose or to damage something, this library differs:
 *   - memory is freed by the call that belongs to its allocator only;
 *   - a copy with an unknown kind, or past the end of a block, is refused;
 *     overlapping ranges are copied as if through a buffer;
 *   - a failed asynchronous copy is reported once, by the next synchronisation
 *     of its stream or device;
 *   - closing a block that is not open is refused;
 *   - streams know their priority (orStreamCreate gives 0, the default), and
 *     one that is running its last task is not idle;
 *   - a stream of any device can be waited for, whichever is current;
 *   - events mean their latest record at the time of the call that names them;
 *   - the time between events is told only if both were recorded.
 */
#ifndef OPENREG_H
#define OPENREG_H

#include <stddef.h>
#include <stdint.h>

/** Marks what libopenreg.so exports. */
#if defined(__GNUC__)
#define OPENREG_EXPORT __attribute__((visibility("default")))
#else
#define OPENREG_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** What a call answers. */
typedef enum orError_t {
    orSuccess = 0,       /**< Done.                     */
    orErrorUnknown = 1,  /**< Refused or failed.        */
    orErrorNotReady = 2  /**< Work is still under way.  */
} orError_t;

/** Directions of a copy. */
typedef enum orMemcpyKind {
    orMemcpyHostToHost = 0,    /**< Neither side is device memory. */
    orMemcpyHostToDevice = 1,  /**< The destination is.            */
    orMemcpyDeviceToHost = 2,  /**< The source is.                 */
    orMemcpyDeviceToDevice = 3 /**< Both are, on any devices.      */
} orMemcpyKind;

/** What a pointer belongs to. */
typedef enum orMemoryType {
    orMemoryTypeUnmanaged = 0, /**< Memory that OpenReg did not hand out. */
    orMemoryTypeHost = 1,      /**< Memory of orMallocHost().             */
    orMemoryTypeDevice = 2     /**< Memory of orMalloc().                 */
} orMemoryType;

/** What is known about a pointer. */
typedef struct orPointerAttributes {
    orMemoryType type; /**< Kind of memory.                                   */
    int device;        /**< Its device; -1 when it is not device memory.      */
    void *pointer;     /**< First byte of its block; unmanaged: the pointer.  */
} orPointerAttributes;

/** Bits for orEventCreateWithFlags(). */
typedef enum orEventFlags {
    orEventDisableTiming = 0x0, /**< Completion only.             */
    orEventEnableTiming = 0x1   /**< Also the time of completion. */
} orEventFlags;

/** A queue of work on a device. */
typedef struct orStream orStream;
/** A mark in a stream. */
typedef struct orEvent orEvent;
/** Handle of a stream. */
typedef struct orStream *orStream_t;
/** Handle of an event. */
typedef struct orEvent *orEvent_t;

/* ---- Devices ------------------------------------------------------------------ */

/** Number of devices. */
OPENREG_EXPORT orError_t orGetDeviceCount(int *count);

/** The calling thread's current device; every thread, and every task on a
 *  stream, starts with 0. */
OPENREG_EXPORT orError_t orGetDevice(int *device);

/** Makes a device current for the calling thread; a bad index changes nothing. */
OPENREG_EXPORT orError_t orSetDevice(int device);

/** Lowest and highest priority of streams: 0 and 1. */
OPENREG_EXPORT orError_t orDeviceGetStreamPriorityRange(int *leastPriority,
                                                        int *greatestPriority);

/** Waits for all streams of the current device; tells whether a task failed. */
OPENREG_EXPORT orError_t orDeviceSynchronize(void);

/* ---- Memory ------------------------------------------------------------------- */

/** Device memory on the current device, whole pages, zeroed, closed to the host. */
OPENREG_EXPORT orError_t orMalloc(void **devPtr, size_t size);

/** Returns memory of orMalloc() by its first byte, open or not. NULL is fine. */
OPENREG_EXPORT orError_t orFree(void *devPtr);

/** Host memory that devices know, whole pages. */
OPENREG_EXPORT orError_t orMallocHost(void **hostPtr, size_t size);

/** Returns memory of orMallocHost() by its first byte. NULL is fine. */
OPENREG_EXPORT orError_t orFreeHost(void *hostPtr);

/** Copies; kind must say what both sides are, and count must not be 0. */
OPENREG_EXPORT orError_t orMemcpy(void *dst, const void *src, size_t count,
                                  orMemcpyKind kind);

/** Queues a copy. A refusal of the copy itself is told at synchronisation. */
OPENREG_EXPORT orError_t orMemcpyAsync(void *dst, const void *src, size_t count,
                                       orMemcpyKind kind, orStream_t stream);

/** What a pointer, also one into the middle of a block, belongs to. */
OPENREG_EXPORT orError_t orPointerGetAttributes(orPointerAttributes *attributes,
                                                const void *ptr);

/** Opens the block around a pointer to the host, for all threads; counted.
 *  Pointers that are not device memory are accepted and nothing happens. */
OPENREG_EXPORT orError_t orMemoryUnprotect(void *devPtr);

/** Takes back one orMemoryUnprotect(); the last one closes the block. */
OPENREG_EXPORT orError_t orMemoryProtect(void *devPtr);

/* ---- Streams ------------------------------------------------------------------ */

/** Creates a stream on the current device. flags has no meaning. */
OPENREG_EXPORT orError_t orStreamCreateWithPriority(orStream_t *stream, unsigned int flags,
                                                    int priority);

/** Creates a stream of priority 0. */
OPENREG_EXPORT orError_t orStreamCreate(orStream_t *stream);

/** The priority a stream was created with. */
OPENREG_EXPORT orError_t orStreamGetPriority(orStream_t stream, int *priority);

/** Runs all that is queued, then destroys the stream. */
OPENREG_EXPORT orError_t orStreamDestroy(orStream_t stream);

/** orSuccess when idle, orErrorNotReady while anything is queued or running. */
OPENREG_EXPORT orError_t orStreamQuery(orStream_t stream);

/** Waits for all that was queued before; tells whether a task failed. */
OPENREG_EXPORT orError_t orStreamSynchronize(orStream_t stream);

/** Later work waits for the latest record of an event of any device. flags has
 *  no meaning. */
OPENREG_EXPORT orError_t orStreamWaitEvent(orStream_t stream, orEvent_t event,
                                           unsigned int flags);

/** Queues a function of the host: it is called with arg when its turn comes.
 *
 * An addition to OpenReg, whose only ways to queue code are the two for C++
 * below. The function must not throw, nor wait for or destroy its own stream.
 */
OPENREG_EXPORT orError_t orLaunchHostFunc(orStream_t stream, void (*fn)(void *), void *arg);

/* ---- Events ------------------------------------------------------------------- */

/** Creates an event on the current device; only bit 0 of flags has a meaning. */
OPENREG_EXPORT orError_t orEventCreateWithFlags(orEvent_t *event, unsigned int flags);

/** Creates an event without timing. */
OPENREG_EXPORT orError_t orEventCreate(orEvent_t *event);

/** Destroys an event; work that waits for it goes on as if it were there. */
OPENREG_EXPORT orError_t orEventDestroy(orEvent_t event);

/** The event completes when the stream, of the same device, reaches this point. */
OPENREG_EXPORT orError_t orEventRecord(orEvent_t event, orStream_t stream);

/** Waits for the latest record; returns at once when there is none. */
OPENREG_EXPORT orError_t orEventSynchronize(orEvent_t event);

/** orSuccess when the latest record completed, or there is none. */
OPENREG_EXPORT orError_t orEventQuery(orEvent_t event);

/** Milliseconds between two completed events with timing on one device. */
OPENREG_EXPORT orError_t orEventElapsedTime(float *ms, orEvent_t start, orEvent_t end);

/* ---- Activity tracing --------------------------------------------------------- */

/** Sets the tracing flag of the process. No call reads it. */
OPENREG_EXPORT orError_t orActivityEnableTracing(void);

/** Clears it. */
OPENREG_EXPORT orError_t orActivityDisableTracing(void);

/** Pushes a number on the stack of the calling thread. */
OPENREG_EXPORT orError_t orActivityPushExternalCorrelationId(uint64_t id);

/** Pops the top of that stack; 0 when it is empty. id may be NULL. */
OPENREG_EXPORT orError_t orActivityPopExternalCorrelationId(uint64_t *id);

#ifdef __cplusplus
} /* extern "C" */

#include <functional>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>

namespace openreg {

/** How the calls below keep what they queue. */
namespace detail {

/** Takes the task from the heap, runs it and lets it go. */
template <typename Task>
inline void runTask(void *arg) noexcept
{
    Task *task = static_cast<Task *>(arg);
    (*task)();
    delete task;
}

/** Queues a task of the heap, which stays the caller's on failure. */
template <typename Task>
inline orError_t queueTask(orStream *stream, Task *task)
{
    if (!task)
        return orErrorUnknown;
    orError_t error = orLaunchHostFunc(stream, &runTask<Task>, task);
    if (error != orSuccess)
        delete task;
    return error;
}

/** A list of the numbers from 0. */
template <std::size_t... I>
struct Indices {};

/** Makes Indices<0, ..., N - 1>. */
template <std::size_t N, std::size_t... I>
struct MakeIndices : MakeIndices<N - 1, N - 1, I...> {};

/** The end of the recursion. */
template <std::size_t... I>
struct MakeIndices<0, I...> {
    typedef Indices<I...> type; /**< The list. */
};

/** A callable with copies of its arguments. */
template <typename Func, typename... Args>
class Launch {
public:
    /** Copies or moves everything in. */
    template <typename F, typename... A>
    explicit Launch(F &&func, A &&...args)
        : func_(std::forward<F>(func)), args_(std::forward<A>(args)...)
    {
    }

    /** Calls it; arguments are given as they lie, or moved if it wants them so. */
    void operator()() { call(0, func_, args_, typename MakeIndices<sizeof...(Args)>::type()); }

private:
    template <typename F, typename T, std::size_t... I>
    static auto call(int, F &func, T &args, Indices<I...>)
        -> decltype(static_cast<void>(func(std::get<I>(args)...)))
    {
        static_cast<void>(args);
        static_cast<void>(func(std::get<I>(args)...));
    }

    template <typename F, typename T, std::size_t... I>
    static void call(long, F &func, T &args, Indices<I...>)
    {
        static_cast<void>(func(std::move(std::get<I>(args))...));
    }

    Func func_;
    std::tuple<Args...> args_;
};

} // namespace detail

/** Queues a closure. A null stream or an empty closure gives orErrorUnknown. */
inline orError_t addTaskToStream(orStream *stream, std::function<void()> task)
{
    typedef std::function<void()> Task;
    if (!stream || !task)
        return orErrorUnknown;
    return detail::queueTask(stream, new (std::nothrow) Task(std::move(task)));
}

} // namespace openreg

/** Queues a call of kernel with copies of args, made now. A null stream gives
 *  orErrorUnknown. */
template <typename Func, typename... Args>
inline orError_t orLaunchKernel(orStream *stream, Func &&kernel, Args &&...args)
{
    typedef openreg::detail::Launch<typename std::decay<Func>::type,
                                    typename std::decay<Args>::type...>
        Task;
    if (!stream)
        return orErrorUnknown;
    return openreg::detail::queueTask(
        stream,
        new (std::nothrow) Task(std::forward<Func>(kernel), std::forward<Args>(args)...));
}

#endif /* __cplusplus */

#endif
