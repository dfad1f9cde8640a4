/* SPDX-License-Identifier: MIT */
/** @file view.h
 *  @brief Memory over time as one page for a browser.
 *
 * A view collects what happened to the memory of one or several devices and
 * writes it as a single HTML file that needs nothing else, no network either:
 * live allocations stacked over time, what the device gave against what is used,
 * the segments at any moment, search and filters.
 *
 *     acre_view *view;
 *     if (acre_view_create("my job", &view) == ACRE_OK) {
 *         if (acre_view_read(view, "job.trace.gz", NULL) == ACRE_OK)
 *             acre_view_write(view, "job.html");
 *         acre_view_destroy(view);
 *     }
 *
 * Threads: one at a time per view.
 *
 * Fork: a child may use what the parent made, and make its own.
 */
#ifndef ACRE_VIEW_H
#define ACRE_VIEW_H

#include <acre/trace.h>

ACRE_BEGIN_DECLS

/** What is collected for one page. */
typedef struct acre_view acre_view;

/** Largest number of a device in a view. */
#define ACRE_VIEW_DEVICE_MAX 1023

/** What happened. */
typedef enum acre_view_action {
    ACRE_VIEW_ALLOC = 1,          /**< Allocation of a block.                              */
    ACRE_VIEW_FREE_REQUESTED = 2, /**< Its free; streams may still use it.                 */
    ACRE_VIEW_FREE_COMPLETED = 3, /**< Nothing uses it any more. Comes with or without the
                                       request before it.                                  */
    ACRE_VIEW_SEGMENT_ALLOC = 4,  /**< A segment, or pages of one, from the device.        */
    ACRE_VIEW_SEGMENT_FREE = 5,   /**< It, or a part of it, goes back.                     */
    ACRE_VIEW_OOM = 6,            /**< A request failed.                                   */
    ACRE_VIEW_MARK = 7,           /**< A moment with a name.                               */
} acre_view_action;

/** Bits of acre_view_event.flags. */
typedef enum acre_view_flag {
    ACRE_VIEW_EXPANDABLE = 1u << 0, /**< A segment of mapped pages.              */
    ACRE_VIEW_SMALL = 1u << 1,      /**< A segment for requests up to 1 MiB.     */
} acre_view_flag;

/** One event. Zero means none or unknown. */
typedef struct acre_view_event {
    uint32_t action;      /**< An @ref acre_view_action.                                   */
    int32_t device;       /**< 0 to ACRE_VIEW_DEVICE_MAX.                                  */
    uint64_t address;     /**< Of block or segment; of a failed request, the free memory of
                               the device.                                                 */
    uint64_t bytes;       /**< As requested.                                               */
    uint64_t block_bytes; /**< What the block takes; 0: bytes rounded up to 512.           */
    uint64_t time_us;     /**< Microseconds, not falling.                                  */
    uint64_t stream;      /**< Any number that tells streams apart; 0: the default one.    */
    uint64_t pool[2];     /**< Id of the pool; 0, 0: the shared one.                       */
    uint32_t stack;       /**< From acre_view_stack_add(); 0: unknown.                     */
    uint32_t flags;       /**< Bits of @ref acre_view_flag.                                */
    const char *text;     /**< Of a mark, copied; else NULL.                               */
} acre_view_event;

/** A frame of a stack. Texts are copied; NULL counts as empty. */
typedef struct acre_view_frame {
    const char *name; /**< Function.                     */
    const char *file; /**< Where it is.                  */
    int64_t line;     /**< In the file; below 1: unknown. */
} acre_view_frame;

/** How a file is read. Zero means default. */
typedef struct acre_view_config {
    uint32_t struct_size;  /**< sizeof(acre_view_config).                                  */
    acre_policy policy;    /**< Traces: who decides where blocks go.                       */
    const char *conf;      /**< Traces: options in PyTorch's grammar, or NULL.             */
    uint64_t device_bytes; /**< Traces: capacity; 0: ACRE_REPLAY_DEVICE_BYTES.             */
    acre_progress_fn progress; /**< Or NULL. Called on the calling thread.                 */
    void *progress_arg;        /**< Handed to it.                                          */
    const char *label;     /**< Snapshots: put before the numbers of devices on the page, or
                                NULL.                                                      */
    uint32_t device_first; /**< Snapshots: added to the numbers of devices, so that several
                                files have room on one page.                               */
    uint32_t reserved;     /**< 0.                                                         */
} acre_view_config;

/** Begins an empty view. @p title is copied.
 *  Errors: ACRE_ERR_INVALID, ACRE_ERR_HOST_MEMORY. */
ACRE_API acre_status acre_view_create(const char *title, acre_view **out);

/** Ends a view. NULL is accepted. */
ACRE_API void acre_view_destroy(acre_view *view);

/** Tells a stack, innermost frame first; the same stack gives the same number.
 *
 * Numbers begin at 1 and last as long as the view. No frames give 0.
 * Errors: ACRE_ERR_INVALID, ACRE_ERR_LIMIT (2^32 stacks), ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_view_stack_add(acre_view *view, const acre_view_frame *frames,
                                         size_t count, uint32_t *out);

/** Adds an event behind those of its device.
 *
 * A free of what was never seen was there from the start; an allocation where
 * something still lies ends that.
 * Errors: ACRE_ERR_INVALID (unknown action, stack or device), ACRE_ERR_LIMIT
 *         (2^31 events of one device), ACRE_ERR_HOST_MEMORY. The view is as
 *         before then.
 */
ACRE_API acre_status acre_view_event_add(acre_view *view, const acre_view_event *event);

/** Tells the segments of a cache as they are now, for a device of the view.
 *
 * What came and went since the last call becomes events. Streams and pools are
 * told apart as in @p layout, so events of blocks give the same: the native
 * stream as a number. Called after the cache went to its device, at best before
 * the event that made it do so.
 * Errors: as acre_view_event_add(); some of the events may have been added then.
 */
ACRE_API acre_status acre_view_layout_add(acre_view *view, int device,
                                          const acre_cache_layout *layout);

/** Adds a text to read, shown under its heading below the pictures. Both copied.
 *  Lines are paragraphs; a line with a tab is a row of a table.
 *  Errors: ACRE_ERR_INVALID, ACRE_ERR_HOST_MEMORY. */
ACRE_API acre_status acre_view_note_add(acre_view *view, const char *heading,
                                        const char *text);

/** Adds a whole file: a memory snapshot (pickle or JSON, gzip or not), or a
 *  trace, which is replayed on a simulated device; told by its content.
 *
 * @p config may be NULL for the defaults. An inconsistent snapshot
 * is shown as it is; acre_view_warning() tells.
 * Errors: those of reading and replaying the file. The view may hold a part of
 *         the file then and is only fit for acre_view_destroy().
 */
ACRE_API acre_status acre_view_read(acre_view *view, const char *path,
                                    const acre_view_config *config);

/** What is doubtful about the files read, as a sentence that lasts as long as the
 *  view is not changed; NULL: nothing. */
ACRE_API const char *acre_view_warning(const acre_view *view);

/** Writes the page; a file of that name is replaced only by a whole page.
 *
 * The view may be added to and written again.
 * Errors: ACRE_ERR_IO, ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_view_write(acre_view *view, const char *path);

ACRE_END_DECLS

#endif
