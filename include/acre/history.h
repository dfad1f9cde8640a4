/* SPDX-License-Identifier: MIT */
/** @file history.h
 *  @brief What happened in a cache: a ring of events, with the stacks behind them.
 *
 * Recording is switched on and off at run time, per cache. Every allocation, free
 * and exchange with the device becomes an entry; the newest max_entries are kept.
 * An entry may carry the stack that led to it: frames are plain words, gathered
 * by a callback of the user or by the built-in one (return addresses of the
 * native stack), and turned into names only when somebody asks.
 *
 *     acre_history_config config = {.struct_size = sizeof config, .max_entries = 100000};
 *     acre_cache_history_start(cache, &config);
 *     ...
 *     acre_history *history;
 *     acre_cache_history_create(cache, &history);
 *
 * Threads: every call may come from any thread. Labels (acre_history_metadata_set()
 * and acre_history_compile_push()) belong to the calling thread.
 *
 * Fork: see acre/base.h. In a child, what was recorded before can be read.
 */
#ifndef ACRE_HISTORY_H
#define ACRE_HISTORY_H

#include <acre/cache.h>
#include <acre/snapshot.h>

ACRE_BEGIN_DECLS

/** The one list of actions: name in capitals, name in files, what happened. */
#define ACRE_HISTORY_ACTIONS(X)                                                \
    X(ALLOC, alloc, "a block was handed out; bytes as asked for")              \
    X(FREE_REQUESTED, free_requested, "its free was asked for")                \
    X(FREE_COMPLETED, free_completed, "it is free: no stream uses it any more") \
    X(SEGMENT_ALLOC, segment_alloc, "a segment came from the device")          \
    X(SEGMENT_FREE, segment_free, "a segment went back to the device")         \
    X(SEGMENT_MAP, segment_map, "pages were mapped into a range")              \
    X(SEGMENT_UNMAP, segment_unmap, "pages were taken out of a range")         \
    X(SNAPSHOT, snapshot, "a snapshot was taken; bytes live or waiting")       \
    X(OOM, oom, "a request failed; address is what the device had free")

/** What an entry tells. */
typedef enum acre_action {
#define ACRE_HISTORY_ACTION(NAME, name, text) ACRE_ACTION_##NAME, /**< See the list. */
    ACRE_HISTORY_ACTIONS(ACRE_HISTORY_ACTION)
#undef ACRE_HISTORY_ACTION
    ACRE_ACTION_COUNT /**< How many there are. */
} acre_action;

/** The name of an action as it stands in files ("alloc"); NULL for other values. */
ACRE_API const char *acre_action_name(acre_action action);

/** When stacks are gathered; each level includes those before it. */
typedef enum acre_context_level {
    ACRE_CONTEXT_NEVER = 0, /**< Never.                                                  */
    ACRE_CONTEXT_STATE = 1, /**< At allocations; kept with live blocks and segments.     */
    ACRE_CONTEXT_ALLOC = 2, /**< Also in entries; those of a free show its allocation.   */
    ACRE_CONTEXT_ALL = 3,   /**< Frees and acre_cache_empty() gather their own.          */
} acre_context_level;

/** A frame with names. */
typedef struct acre_frame {
    char name[256]; /**< Function; "??" when not known. */
    char file[256]; /**< Source or object file.         */
    int32_t line;   /**< Line, or 0.                    */
} acre_frame;

/** Most frames that are kept of a stack; deeper ones lose their outermost. */
#define ACRE_STACK_MAX 64

/** Where stacks come from.
 *
 * Both functions run without any lock of the library held.
 */
typedef struct acre_context_source {
    /** Writes the frames of the calling thread, innermost first, and returns how
     *  many; at most @p capacity. */
    size_t (*gather)(void *arg, uint64_t *frames, size_t capacity);
    /** Names a frame. */
    void (*resolve)(void *arg, uint64_t frame, acre_frame *out);
    void *arg; /**< Handed to both; must outlive the recording. */
} acre_context_source;

/** Return addresses of the native stack, named by the dynamic linker. */
ACRE_API const acre_context_source *acre_context_native(void);

/** Objects of the user behind entries, instead of frames: counted, and named late.
 *
 * An object is made where a stack would be gathered. Each entry, live block and segment that it
 * belongs to keeps it, as do copies of the history; the library holds references of its own and
 * gives every one of them back. retain and release may be called with a lock of the library
 * held: they must not call the cache, nor fork (which would wait for that lock for ever), nor
 * wait for a thread that does either.
 */
typedef struct acre_context_objects {
    /** An object with one reference for the library, or NULL for none. No lock is held. */
    void *(*take)(void *arg);
    /** One reference more. */
    void (*retain)(void *arg, void *object);
    /** One reference less. */
    void (*release)(void *arg, void *object);
    /** Names the frames behind an object, innermost first, and returns how many; at most
     *  @p capacity. No lock is held. May be NULL: then snapshots show no frames. */
    size_t (*resolve)(void *arg, void *object, acre_frame *out, size_t capacity);
    void *arg; /**< Handed to all four; must outlive every reference. */
} acre_context_objects;

/** As many entries as host memory holds. */
#define ACRE_HISTORY_UNBOUNDED UINT64_MAX

/** How to record. */
typedef struct acre_history_config {
    uint32_t struct_size;     /**< sizeof(acre_history_config).                          */
    acre_context_level level; /**< When stacks are gathered.                             */
    uint64_t max_entries;     /**< Entries kept, the newest; 0 counts as 1.              */
    const acre_context_source *source; /**< NULL: acre_context_native(). Copied.         */
    /** Names of actions that are not kept, separated by commas, or NULL. Trackers
     *  see them all the same. */
    const char *skip_actions;
    bool clear; /**< Forgets what was recorded before. */
    /** Objects instead of what source gathers, or NULL. Copied. Caches only. */
    const acre_context_objects *objects;
} acre_history_config;

/** Starts recording, or changes how: what was recorded stays, in order, as far
 *  as the new bound allows.
 *
 * @p config may be NULL: no stacks, unbounded.
 * Objects that another acre_history_config.objects made are given back; what they belonged to
 * stays without them.
 * Errors: ACRE_ERR_INVALID (struct_size, level, an unknown action, a function missing), and
 * ACRE_ERR_HOST_MEMORY; nothing has changed then.
 */
ACRE_API acre_status acre_cache_history_start(acre_cache *cache,
                                              const acre_history_config *config);

/** Stops recording and forgets entries, annotations and the stacks of entries. */
ACRE_API void acre_cache_history_stop(acre_cache *cache);

/** Whether it records. */
ACRE_API bool acre_cache_history_is_on(const acre_cache *cache);

/** An entry. */
typedef struct acre_history_entry {
    acre_action action;   /**< What happened.                                            */
    uint32_t stack;       /**< Index in acre_history.stacks; 0: none.                    */
    uint64_t address;     /**< Of the block or segment; for an oom, free device memory.  */
    uint64_t bytes;       /**< Asked for, of the segment, or rounded (oom).              */
    void *stream;         /**< Native stream.                                            */
    uint64_t pool[2];     /**< Id of the pool; 0, 0: the shared one.                     */
    uint64_t time_us;     /**< Microseconds since 1970 began.                            */
    const char *compile_context; /**< Top of the thread's stack of them, or "N/A".       */
    const char *user_metadata;   /**< What the thread had set, or "".                    */
} acre_history_entry;

/** A stack: frames as gathered, innermost first. */
typedef struct acre_stack {
    const uint64_t *frames; /**< frame_count of them. */
    uint64_t frame_count;   /**< May be 0.            */
} acre_stack;

/** An annotation: strings with a time. */
typedef struct acre_annotation {
    uint64_t time_us;          /**< Microseconds since 1970 began.               */
    uint64_t pair_count;       /**< How many keys, and values.                   */
    const char *const *pairs;  /**< Key, value, key, value, ...                  */
} acre_annotation;

/** What was recorded, copied. */
typedef struct acre_history {
    uint32_t struct_size;         /**< sizeof(acre_history), set by the library. */
    uint32_t reserved;            /**< 0.                                        */
    acre_history_entry *entries;  /**< Oldest first.                             */
    uint64_t entry_count;         /**< May be 0.                                 */
    acre_stack *stacks;           /**< stacks[0] is empty.                       */
    uint64_t stack_count;         /**< At least 1.                               */
    acre_annotation *annotations; /**< Oldest first.                             */
    uint64_t annotation_count;    /**< May be 0.                                 */
    acre_context_source source;   /**< Who gathered the stacks, and names them.  */
    /** By stack: the object behind it, or NULL where there are frames. NULL as a whole when
     *  there are no objects. The copy holds a reference to each. */
    void **objects;
    acre_context_objects object_source; /**< Whose objects they are.             */
} acre_history;

/** Copies what was recorded; give it to acre_history_destroy().
 *  Errors: ACRE_ERR_HOST_MEMORY. */
ACRE_API acre_status acre_cache_history_create(acre_cache *cache, acre_history **out);

/** Frees a copy. NULL is accepted. */
ACRE_API void acre_history_destroy(acre_history *history);

/** Copies the frames of the stack that allocated @p pointer, a live allocation.
 *
 * Returns how many there are, of which at most @p capacity are written; 0 when
 * none were gathered or the pointer is not the base of a live allocation. */
ACRE_API size_t acre_cache_stack_of(acre_cache *cache, const void *pointer, uint64_t *frames,
                                    size_t capacity);

/** Adds an annotation: @p pair_count keys, each followed by its value, copied.
 *  Ignored while nothing is recorded. Errors: ACRE_ERR_INVALID,
 *  ACRE_ERR_HOST_MEMORY. */
ACRE_API acre_status acre_cache_annotate(acre_cache *cache, const char *const *pairs,
                                         uint64_t pair_count);

/** Sets the text that the entries of the calling thread carry, on all caches;
 *  NULL or "" for none. Errors: ACRE_ERR_HOST_MEMORY, ACRE_ERR_LIMIT (more than
 *  a million different texts in one process). */
ACRE_API acre_status acre_history_metadata_set(const char *text);

/** The text set last on the calling thread, or "". */
ACRE_API const char *acre_history_metadata_get(void);

/** Enters a compiled region: the calling thread's entries name it until
 *  acre_history_compile_pop(). Ignored while no cache records.
 *  Errors: ACRE_ERR_HOST_MEMORY, ACRE_ERR_LIMIT (64 deep, or as above). */
ACRE_API acre_status acre_history_compile_push(const char *text);

/** Leaves the innermost region; nothing when there is none. */
ACRE_API void acre_history_compile_pop(void);

/* ---- Snapshots --------------------------------------------------------------------- */

/** What a snapshot is to hold. Zero: everything. */
typedef struct acre_snapshot_choice {
    uint32_t struct_size; /**< sizeof(acre_snapshot_choice).                         */
    uint32_t no_history;  /**< 1: segments and settings only.                        */
    uint64_t pool[2];     /**< Segments of this pool only; 0, 0: of all.             */
} acre_snapshot_choice;

/** Takes a snapshot of caches, in the order of their devices: segments and blocks,
 *  history, annotations, and the settings of the first.
 *
 * Segments and history of a cache are of one moment, other threads notwithstanding.
 * That it was taken becomes an entry of each history, after the copy. Stacks are
 * named here, without any lock held. @p choice may be NULL. Write it with
 * acre_snapshot_write(), end it with acre_snapshot_close(). In libacre_tools.
 * Errors: ACRE_ERR_INVALID (no cache, one of NULL, two of one device),
 *         ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_cache_snapshot(acre_cache *const *caches, size_t count,
                                         const acre_snapshot_choice *choice,
                                         acre_snapshot **out);

/** Takes a snapshot of one cache and writes it to @p path: as JSON when the name ends in .json or
 *  .json.gz, as a pickle otherwise. Refuses when the disk has no room for it. In libacre_tools.
 *  Errors: as acre_cache_snapshot() and acre_snapshot_write(). */
ACRE_API acre_status acre_cache_snapshot_write(acre_cache *cache, const char *path);

/** What an option of a snapshot holds. */
typedef enum acre_option_kind {
    ACRE_OPTION_NUMBER = 0, /**< acre_snapshot_option.number.                 */
    ACRE_OPTION_BOOL,       /**< The number is 0 or 1.                        */
    ACRE_OPTION_REAL,       /**< acre_snapshot_option.real.                   */
    ACRE_OPTION_TEXT,       /**< acre_snapshot_option.text.                   */
    ACRE_OPTION_NUMBERS     /**< acre_snapshot_option.numbers, by powers of 2. */
} acre_option_kind;

/** One option of a cache, by the name it has in PyTorch's snapshots. */
typedef struct acre_snapshot_option {
    const char *key;        /**< Its name.                          */
    acre_option_kind kind;  /**< Which of the following holds it.   */
    uint32_t number_count;  /**< How many numbers there are.        */
    int64_t number;         /**< A number or a truth value.         */
    double real;            /**< A fraction.                        */
    const char *text;       /**< A string.                          */
    const int64_t *numbers; /**< number_count of them.              */
} acre_snapshot_option;

/** What a snapshot of one cache is made of, copied at one moment. */
typedef struct acre_snapshot_parts {
    uint32_t struct_size;                /**< sizeof(acre_snapshot_parts), set by the library. */
    int32_t device;                      /**< Number of the device.                            */
    uint32_t device_count;               /**< How many the allocator has; 1 of a cache.        */
    uint32_t reserved;                   /**< 0.                                               */
    acre_cache_layout *layout;           /**< Segments and blocks.                             */
    acre_history *history;               /**< Entries, stacks and annotations.                 */
    const acre_snapshot_option *options; /**< option_count of them.                            */
    uint64_t option_count;               /**< 0 of an allocator without options.               */
} acre_snapshot_parts;

/** Copies what acre_cache_snapshot() needs of one cache. Programs that bring their own format use
 *  it; others call acre_cache_snapshot(). @p choice may be NULL.
 *  Errors: ACRE_ERR_INVALID, ACRE_ERR_HOST_MEMORY. */
ACRE_API acre_status acre_cache_snapshot_parts(acre_cache *cache,
                                               const acre_snapshot_choice *choice,
                                               acre_snapshot_parts **out);

/** Frees parts; NULL is accepted. */
ACRE_API void acre_snapshot_parts_destroy(acre_snapshot_parts *parts);

/** Told every action as it happens, those in skip_actions too.
 *
 * Runs with the lock of the cache held, in the order the trackers were added: it
 * must not call this cache, nor fork: that waits for the lock, for ever. What starts programs
 * without fork, as posix_spawn() and system() do, is allowed. @p entry is valid during the call;
 * its stack is 0. */
typedef void (*acre_tracker_fn)(void *arg, const acre_history_entry *entry);

/** Adds a tracker, with or without a history. Errors: ACRE_ERR_HOST_MEMORY. */
ACRE_API acre_status acre_cache_tracker_add(acre_cache *cache, acre_tracker_fn fn, void *arg);

/** Removes it. */
ACRE_API void acre_cache_tracker_remove(acre_cache *cache, acre_tracker_fn fn, void *arg);

ACRE_END_DECLS

#endif
