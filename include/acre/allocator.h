/* SPDX-License-Identifier: MIT */
/** @file allocator.h
 *  @brief Owning data pointers, allocators, and which allocator serves a type.
 *
 * An allocator answers a request with an @ref acre_data_ptr, which owns what it
 * points to: clearing it runs its deleter. The caching allocator, plain ones,
 * plug-ins and whatever a program brings along are allocators, so code above
 * need not know which one it talks to.
 *
 * Fork: see acre/base.h. In a child, allocators of host memory work on; those of a device that
 * does not work there answer ACRE_ERR_FORKED, and clearing their data pointers frees nothing on
 * the device.
 */
#ifndef ACRE_ALLOCATOR_H
#define ACRE_ALLOCATOR_H

#include <acre/device.h>

ACRE_BEGIN_DECLS

/* ---- Data pointers ---------------------------------------------------------------- */

/** Ends the life of what a data pointer owns. Must not fail; may be called on
 *  any thread, without any lock of the library held. */
typedef void (*acre_deleter)(void *context);

/** A pointer that owns what it points to.
 *
 * There is one owner: hand it on with acre_data_ptr_move(), never by plain
 * copying of both. The deleter runs if and only if context is not NULL,
 * whatever data is. Threads: one at a time per data pointer.
 */
typedef struct acre_data_ptr {
    void *data;             /**< What users read and write; may be NULL.                */
    void *context;          /**< What the deleter is given; NULL: nothing is owned.     */
    acre_deleter deleter;   /**< Never NULL after one of the calls below.               */
    acre_device_id device;  /**< Where data lives; also meaningful when data is NULL.   */
} acre_data_ptr;

/** The deleter that does nothing; it stands where nothing is to be done. */
ACRE_API void acre_delete_nothing(void *context);

/** An empty data pointer: both pointers NULL, nothing to delete, device CPU with
 *  index -1. For initialisation in C and C++. */
#define ACRE_DATA_PTR_EMPTY {NULL, NULL, acre_delete_nothing, {ACRE_DEVICE_CPU, -1}}

/** Makes @p out empty without looking at what it was. */
ACRE_API void acre_data_ptr_init(acre_data_ptr *out);

/** Makes @p out own @p context, without looking at what it was.
 *
 * A NULL @p deleter becomes acre_delete_nothing().
 */
ACRE_API void acre_data_ptr_make(acre_data_ptr *out, void *data, void *context,
                                 acre_deleter deleter, acre_device_id device);

/** Runs the deleter when there is a context; both pointers are NULL afterwards,
 *  and already while it runs.
 *
 * Deleter and device stay. Clearing twice is harmless; NULL is accepted.
 */
ACRE_API void acre_data_ptr_clear(acre_data_ptr *ptr);

/** Clears @p to, then hands everything of @p from over to it; @p from is empty
 *  afterwards. Moving onto itself changes nothing. */
ACRE_API void acre_data_ptr_move(acre_data_ptr *to, acre_data_ptr *from);

/** Whether there is anything: data or context. The device does not matter. */
ACRE_API bool acre_data_ptr_is_set(const acre_data_ptr *ptr);

/** Whether data and context are the same pointer. */
ACRE_API bool acre_data_ptr_is_simple(const acre_data_ptr *ptr);

/** Gives the context and disowns it: no deleter will run; data stays readable. */
ACRE_API void *acre_data_ptr_release_context(acre_data_ptr *ptr);

/** Gives context and deleter to the caller, who has to run it; data stays
 *  readable. @p out_deleter may be NULL for those who know it. */
ACRE_API void *acre_data_ptr_move_context(acre_data_ptr *ptr, acre_deleter *out_deleter);

/** The context if the deleter is @p expected, else NULL. */
ACRE_API void *acre_data_ptr_cast_context(const acre_data_ptr *ptr, acre_deleter expected);

/** Replaces the deleter if it is @p expected, and tells whether it was.
 *  A NULL @p replacement becomes acre_delete_nothing(). */
ACRE_API bool acre_data_ptr_compare_exchange_deleter(acre_data_ptr *ptr, acre_deleter expected,
                                                     acre_deleter replacement);

/** Sets data and context to @p pointer, but only while the deleter does nothing;
 *  tells whether it did. Unsafe: nobody will free what was or is there. */
ACRE_API bool acre_data_ptr_unsafe_reset(acre_data_ptr *ptr, void *pointer);

/** Overwrites the device and nothing else. Unsafe: the memory does not move. */
ACRE_API void acre_data_ptr_unsafe_set_device(acre_data_ptr *ptr, acre_device_id device);

/** Called with @p arg and the data of a closure data pointer when that is cleared. */
typedef void (*acre_closure_fn)(void *arg, void *data);

/** Makes a data pointer whose deleter calls @p fn with an argument of its own.
 *
 * Its context is a small object of the library and its deleter
 * acre_delete_closure(). @p out is not looked at before.
 * Errors: ACRE_ERR_INVALID (fn is NULL), ACRE_ERR_HOST_MEMORY; then @p fn will
 * not be called.
 */
ACRE_API acre_status acre_data_ptr_closure(void *data, acre_closure_fn fn, void *arg,
                                           acre_device_id device, acre_data_ptr *out);

/** The deleter of closure data pointers, for comparing. */
ACRE_API void acre_delete_closure(void *context);

/* ---- Statistics ------------------------------------------------------------------- */

/** One statistic: a level and how it came about. */
typedef struct acre_stat {
    int64_t current;   /**< Now.                                                */
    int64_t peak;      /**< Highest since the start or the last reset of peaks. */
    int64_t allocated; /**< Sum of all increases since the last reset.          */
    int64_t freed;     /**< Sum of all decreases since the last reset.          */
} acre_stat;

/** What every allocator with statistics can tell about one device. */
typedef struct acre_allocator_stats {
    uint32_t struct_size;      /**< sizeof(acre_allocator_stats), set by the caller. */
    uint32_t reserved;         /**< 0.                                               */
    acre_stat allocated_bytes; /**< Bytes of live allocations.                       */
    acre_stat reserved_bytes;  /**< Bytes held from the device.                      */
    int64_t num_device_alloc;  /**< Requests to the device since the last reset.     */
    int64_t num_device_free;   /**< Returns to the device since the last reset.      */
} acre_allocator_stats;

/* ---- Allocators ------------------------------------------------------------------- */

/** An allocator: a table of functions and what they are called with. */
typedef struct acre_allocator acre_allocator;

/** Version of @ref acre_allocator_ops; grows when its meaning changes. */
#define ACRE_ALLOCATOR_VERSION 1

/** What an allocator can do.
 *
 * Common contract: out parameters are not NULL and written only on ACRE_OK;
 * calls come from any thread with no lock of the library held. A table of an
 * older library is shorter; what it lacks counts as absent.
 */
typedef struct acre_allocator_ops {
    uint32_t struct_size; /**< sizeof(acre_allocator_ops). */
    uint32_t version;     /**< ACRE_ALLOCATOR_VERSION.     */

    /* Required. */
    /** Allocates on the thread's current device; 0 bytes are a valid request,
     *  answered with NULL data that carries the device. */
    acre_status (*allocate)(void *self, size_t bytes, acre_data_ptr *out);
    /** Copies between two allocations of this allocator; blocks until done.
     *  acre_copy_memory() serves for memory that the host reaches. */
    acre_status (*copy_data)(void *self, void *dst, const void *src, size_t bytes);

    /* Optional. */
    /** Not NULL: every data pointer of this allocator has data == context and
     *  this deleter, which never changes. */
    acre_deleter (*raw_deleter)(void *self);

    /* Optional group "device allocator": all of them, or none. */
    /** Whether it is ready to serve. */
    bool (*is_initialized)(void *self);
    /** Returns idle memory to the device. */
    acre_status (*empty_cache)(void *self);
    /** The allocation is also used on @p stream; what is not this allocator's is
     *  ignored. */
    acre_status (*record_stream)(void *self, const acre_data_ptr *ptr, acre_stream stream);
    /** Reads the statistics of a device. */
    acre_status (*stats_get)(void *self, int device, acre_allocator_stats *stats);
    /** Sets totals and counters of a device to zero. */
    acre_status (*stats_reset_accumulated)(void *self, int device);
    /** Sets the peaks of a device to the present level. */
    acre_status (*stats_reset_peak)(void *self, int device);
} acre_allocator_ops;

/** An allocator as given to acre_allocator_create(). */
typedef struct acre_allocator_desc {
    uint32_t struct_size;          /**< sizeof(acre_allocator_desc).                 */
    uint32_t reserved;             /**< 0.                                           */
    const char *name;              /**< For messages; copied.                        */
    const acre_allocator_ops *ops; /**< Copied.                                      */
    void *self;                    /**< Handed to every entry.                       */
    void (*destroy)(void *self);   /**< Called when the allocator goes; may be NULL. */
} acre_allocator_desc;

/** Checks a table and makes an allocator of it.
 *
 * On failure destroy is not called.
 * Errors: ACRE_ERR_INVALID (a required entry is missing, the group is
 *         incomplete, no name), ACRE_ERR_UNSUPPORTED (a later version),
 *         ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_allocator_create(const acre_allocator_desc *desc,
                                           acre_allocator **out);

/** Takes an allocator out of both registries and ends it. NULL is accepted.
 *
 * What it allocated must be gone, unless the allocator says otherwise.
 * Threads: no other call may use it at that time or later.
 */
ACRE_API void acre_allocator_destroy(acre_allocator *allocator);

/** The name given at creation. */
ACRE_API const char *acre_allocator_name(const acre_allocator *allocator);

/** Allocates; see acre_allocator_ops.allocate.
 *
 * @p out is written without looking at what it was.
 * Errors: ACRE_ERR_INVALID (an argument is NULL), and what the allocator says.
 */
ACRE_API acre_status acre_allocator_allocate(acre_allocator *allocator, size_t bytes,
                                             acre_data_ptr *out);

/** Copies between two allocations. Errors: what the allocator says. */
ACRE_API acre_status acre_allocator_copy_data(acre_allocator *allocator, void *dst,
                                              const void *src, size_t bytes);

/** Allocates and copies @p bytes from @p src; on failure nothing stays.
 *  Errors: those of the two. */
ACRE_API acre_status acre_allocator_clone(acre_allocator *allocator, const void *src,
                                          size_t bytes, acre_data_ptr *out);

/** The deleter that fits every pointer of this allocator, or NULL. */
ACRE_API acre_deleter acre_allocator_raw_deleter(const acre_allocator *allocator);

/** Allocates and gives the bare pointer; return it with
 *  acre_allocator_raw_deallocate().
 *
 * Errors: ACRE_ERR_UNSUPPORTED (this allocator's data pointers are not simple;
 * nothing stays allocated), and what the allocator says.
 */
ACRE_API acre_status acre_allocator_raw_allocate(acre_allocator *allocator, size_t bytes,
                                                 void **out);

/** Runs the raw deleter on @p pointer; NULL is accepted.
 *  Errors: ACRE_ERR_UNSUPPORTED (there is none). */
ACRE_API acre_status acre_allocator_raw_deallocate(acre_allocator *allocator, void *pointer);

/** Whether the allocator has the group "device allocator". */
ACRE_API bool acre_allocator_is_device(const acre_allocator *allocator);

/** Whether it is ready; false for what is not a device allocator. */
ACRE_API bool acre_allocator_is_initialized(const acre_allocator *allocator);

/** Returns idle memory to the device.
 *  Errors: ACRE_ERR_UNSUPPORTED (not a device allocator). */
ACRE_API acre_status acre_allocator_empty_cache(acre_allocator *allocator);

/** Tells that an allocation is also used on a stream. A data pointer without
 *  data, or of another allocator, is ignored.
 *  Errors: ACRE_ERR_UNSUPPORTED (not a device allocator). */
ACRE_API acre_status acre_allocator_record_stream(acre_allocator *allocator,
                                                  const acre_data_ptr *ptr, acre_stream stream);

/** Reads the statistics of a device; struct_size must be set.
 *  Errors: ACRE_ERR_UNSUPPORTED, ACRE_ERR_INVALID, ACRE_ERR_RANGE (device). */
ACRE_API acre_status acre_allocator_stats_get(acre_allocator *allocator, int device,
                                              acre_allocator_stats *stats);

/** Sets totals and counters to zero. Errors: as acre_allocator_stats_get(). */
ACRE_API acre_status acre_allocator_stats_reset_accumulated(acre_allocator *allocator,
                                                            int device);

/** Sets peaks to the present level. Errors: as acre_allocator_stats_get(). */
ACRE_API acre_status acre_allocator_stats_reset_peak(acre_allocator *allocator, int device);

/** Copies memory that the host reaches; overlapping ranges are fine. For
 *  acre_allocator_ops.copy_data; @p self is not used. Errors: ACRE_ERR_INVALID
 *  (a NULL side with bytes to copy). */
ACRE_API acre_status acre_copy_memory(void *self, void *dst, const void *src, size_t bytes);

/* ---- Which allocator serves a device type ----------------------------------------- */

/** Makes @p allocator serve a device type, unless one of higher priority does.
 *
 * An equal priority replaces. The priority is stored with it. The registry does
 * not own allocators; NULL empties the slot by the same rule. @p out_replaced
 * may be NULL.
 * Threads: any. Errors: ACRE_ERR_INVALID (no such type).
 */
ACRE_API acre_status acre_allocator_set(acre_device_type type, acre_allocator *allocator,
                                        uint8_t priority, bool *out_replaced);

/** The allocator that serves a type, or NULL. Threads: any. */
ACRE_API acre_allocator *acre_allocator_get(acre_device_type type);

/** The allocator of a type, which must be a device allocator.
 *  Errors: ACRE_ERR_INVALID (the CPU has none; no such type), ACRE_ERR_NOT_FOUND
 *  (none is set), ACRE_ERR_UNSUPPORTED (what is set is no device allocator). */
ACRE_API acre_status acre_allocator_get_device(acre_device_type type, acre_allocator **out);

/** As acre_allocator_set(), for page-locked host memory of a device type: a
 *  registry of its own. */
ACRE_API acre_status acre_host_allocator_set(acre_device_type type, acre_allocator *allocator,
                                             uint8_t priority, bool *out_replaced);

/** The allocator of page-locked host memory for a type, or NULL. */
ACRE_API acre_allocator *acre_host_allocator_get(acre_device_type type);

/* ---- Allocators without a cache --------------------------------------------------- */

/** Creates an allocator that asks the current device of @p type for each request.
 *
 * It keeps statistics per device, in requested bytes. Its raw deleter finds the
 * device of a pointer by itself, whatever device is current, and works on: what
 * is live when the allocator is destroyed may still be deleted.
 * Errors: ACRE_ERR_INVALID, ACRE_ERR_UNSUPPORTED (no backend of that type),
 *         ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_plain_allocator_create(acre_device_type type, acre_allocator **out);

/** Creates an allocator of page-locked host memory of the current device of
 *  @p type. Its memory is labelled CPU. Errors: as above. */
ACRE_API acre_status acre_plain_host_allocator_create(acre_device_type type,
                                                      acre_allocator **out);

/** Creates an allocator that passes everything on to @p inner, but labels with
 *  type @p shown the memory that @p inner labels with type @p hidden.
 *
 * Address, context and deleter stay. @p inner must outlive it.
 * Errors: ACRE_ERR_INVALID, ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_relabel_allocator_create(acre_allocator *inner,
                                                   acre_device_type hidden,
                                                   acre_device_type shown,
                                                   acre_allocator **out);

ACRE_END_DECLS

#endif
