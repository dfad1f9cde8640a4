/* SPDX-License-Identifier: MIT */
/* A memory snapshot in memory: what a PyTorch snapshot holds, as plain arrays.
 *
 *   devices ──► entries[first_entry ...]        the history, oldest first
 *   segments ──► blocks[first_block ...]        the state at the end
 *   entries, blocks, segments ──► stacks ──► frame_ids ──► frames ──► strings
 *   entries ──► origins                         what many events have in common
 *
 * Everything refers to everything else by index, so that a million events cost
 * 40 bytes each and shared stacks stay shared. SNAP_NONE stands for "none".
 * Equal strings, frames, stacks and pools have one index: comparing indices is
 * comparing contents. Equal origins mostly have one index, but need not.
 *
 * Fields named bytes_* and address are as recorded; flags say which keys the
 * record had, so that writing it again gives the same data.
 *
 * Not thread-safe while it is built; read-only afterwards, by any thread.
 */
#ifndef SRC_FORMAT_SNAPSHOT_H
#define SRC_FORMAT_SNAPSHOT_H

#include "format/source.h"

#include <acre/base.h>

#include <stdbool.h>

#define SNAP_NONE UINT32_MAX

/* Actions of the history: constant, name in files. */
#define SNAP_ACTIONS(X)                                                        \
    X(SNAP_ALLOC, "alloc")                                                     \
    X(SNAP_FREE_REQUESTED, "free_requested")                                   \
    X(SNAP_FREE_COMPLETED, "free_completed")                                   \
    X(SNAP_SEGMENT_ALLOC, "segment_alloc")                                     \
    X(SNAP_SEGMENT_FREE, "segment_free")                                       \
    X(SNAP_SEGMENT_MAP, "segment_map")                                         \
    X(SNAP_SEGMENT_UNMAP, "segment_unmap")                                     \
    X(SNAP_SNAPSHOT, "snapshot")                                               \
    X(SNAP_OOM, "oom")

enum snap_action {
#define SNAP_ACTION(constant, name) constant,
    SNAP_ACTIONS(SNAP_ACTION)
#undef SNAP_ACTION
    SNAP_OTHER /* this and above: snapshot.other_actions[action - SNAP_OTHER] */
};

/* States of a block: constant, name in files. */
#define SNAP_STATES(X)                                                         \
    X(SNAP_INACTIVE, "inactive")                                               \
    X(SNAP_ALLOCATED, "active_allocated")                                      \
    X(SNAP_PENDING, "active_pending_free")                                     \
    X(SNAP_AWAITING, "active_awaiting_free") /* only in the documentation */

enum snap_state {
#define SNAP_STATE(constant, name) constant,
    SNAP_STATES(SNAP_STATE)
#undef SNAP_STATE
};

/* Which keys a record had; bits of the fields has. */
enum snap_has {
    SNAP_HAS_TIME = 1 << 0,       /* time_us                            */
    SNAP_HAS_FRAMES = 1 << 1,     /* frames, also when the list is empty */
    SNAP_HAS_POOL = 1 << 2,       /* pool_id, segment_pool_id           */
    SNAP_HAS_POOL_LIST = 1 << 3,  /* the pool was a list, not a tuple   */
    SNAP_HAS_ADDRESS = 1 << 4,    /* address of a block                 */
    SNAP_HAS_REQUESTED = 1 << 5,  /* requested_size                     */
    SNAP_HAS_EXPANDABLE = 1 << 6, /* is_expandable                      */
    SNAP_HAS_HISTORY = 1 << 7,    /* history of a legacy block          */
};

/* Where events come from: what an event nearly always shares with the one before. */
struct snap_origin {
    uint64_t stream;          /* native handle, 0 the default stream               */
    uint32_t forward;         /* texts: forward_frames, or SNAP_NONE               */
    uint32_t compile_context; /* string, or SNAP_NONE: key absent                  */
    uint32_t user_metadata;   /* string, or SNAP_NONE: key absent                  */
    uint32_t pool;            /* index of pools; SNAP_NONE: key absent             */
};

/* One event of the history. */
struct snap_entry {
    uint64_t address;         /* device_free for SNAP_OOM                          */
    uint64_t bytes;           /* requested; segment_*: of the device; oom: rounded */
    int64_t time_us;          /* since 1970; 0 without SNAP_HAS_TIME               */
    uint32_t stack;           /* or SNAP_NONE                                      */
    uint32_t origin;          /* index of origins                                  */
    uint16_t action;          /* an enum snap_action                               */
    uint8_t has;              /* SNAP_HAS_* bits                                   */
    uint8_t reserved[5];
};

/* One block of a segment. */
struct snap_block {
    uint64_t address;         /* computed where the file has none                  */
    uint64_t bytes;           /* rounded                                           */
    uint64_t requested_bytes; /* stale unless active                               */
    uint32_t stack, forward;  /* as in entries                                     */
    uint32_t first_past, past_count; /* of pasts: the legacy key history           */
    uint8_t state;            /* an enum snap_state                                */
    uint8_t has;
};

/* One item of a legacy block's history. */
struct snap_past {
    uint64_t address, bytes; /* addr, real_size */
    uint32_t stack;
    uint8_t has;
};

/* One segment of a device. */
struct snap_segment {
    uint64_t address;
    uint64_t bytes;           /* total_size                                        */
    uint64_t allocated_bytes, active_bytes, requested_bytes;
    uint64_t stream;
    uint64_t first_block;     /* index of blocks, in address order                 */
    uint64_t block_count;
    uint32_t device;
    uint32_t stack, forward;
    uint32_t pool;            /* index of pools; SNAP_NONE: key absent             */
    uint32_t type;            /* string: "small", "large"                          */
    uint8_t is_small;
    uint8_t is_expandable;
    uint8_t has;
};

struct snap_frame {
    uint32_t file, name;      /* strings                                           */
    int64_t line;
    uint32_t extra;           /* first of values: the keys fx_*, or SNAP_NONE      */
};

/* A run of an array of indices: of frame_ids for stacks, innermost frame first,
 * of text_ids for forward frames. */
struct snap_run {
    uint64_t first;
    uint32_t count;
};

struct snap_pool {
    uint64_t id[2]; /* 0, 0: the shared pool */
};

/* What a value of settings and annotations is. */
enum snap_kind { SNAP_NULL, SNAP_BOOL, SNAP_INTEGER, SNAP_REAL, SNAP_STRING, SNAP_LIST, SNAP_DICT,
                 SNAP_TUPLE };

/* A value with its key, in a chain of siblings. */
struct snap_value {
    union {
        int64_t integer;      /* and booleans                                      */
        double real;
        uint32_t string;
        uint32_t child;       /* first of values below, or SNAP_NONE               */
    } as;
    uint32_t key;             /* string; SNAP_NONE in lists                        */
    uint32_t next;            /* sibling, or SNAP_NONE                             */
    uint8_t kind;             /* an enum snap_kind                                 */
};

/* A mark that the program set. */
struct snap_annotation {
    int64_t time_us;
    uint32_t device;
    uint32_t values;          /* first of values: the other keys, or SNAP_NONE     */
    uint8_t has_device, has_time;
};

/* The history of one device. */
struct snap_device {
    uint64_t first_entry, entry_count;
};

/* A growing array that finds equal items again; see snapshot.c. */
struct snap_index {
    uint32_t *slots;          /* item + 1; 0: empty                                */
    size_t slot_count;        /* 0 or a power of two                               */
};

struct snapshot {
    struct snap_device *devices;      /* by device number                          */
    size_t device_count, device_capacity;
    size_t trace_count;               /* lists in device_traces: at most device_count */
    struct snap_entry *entries;       /* all devices, one after the other          */
    size_t entry_count, entry_capacity;
    struct snap_origin *origins;      /* the first: default stream, and no more    */
    size_t origin_count, origin_capacity;
    uint32_t last_origin;             /* asked for last                            */
    struct snap_segment *segments;    /* in the order of the file                  */
    size_t segment_count, segment_capacity;
    struct snap_block *blocks;
    size_t block_count, block_capacity;
    struct snap_past *pasts;
    size_t past_count, past_capacity;

    struct snap_run *stacks;
    size_t stack_count, stack_capacity;
    uint32_t *frame_ids;
    size_t frame_id_count, frame_id_capacity;
    struct snap_frame *frames;
    size_t frame_count, frame_capacity;
    struct snap_run *texts;           /* forward frames                            */
    size_t text_count, text_capacity;
    uint32_t *text_ids;               /* strings                                   */
    size_t text_id_count, text_id_capacity;
    struct snap_pool *pools;
    size_t pool_count, pool_capacity;

    struct snap_run *strings;         /* runs of bytes, each followed by a zero    */
    size_t string_count, string_capacity;
    char *bytes;
    size_t byte_count, byte_capacity;

    struct snap_annotation *annotations;
    size_t annotation_count, annotation_capacity;
    struct snap_value *values;
    size_t value_count, value_capacity;
    uint32_t settings;                /* first of values, or SNAP_NONE             */
    uint32_t *other_actions;          /* strings                                   */
    size_t other_action_count, other_action_capacity;

    /* Which keys the top level had; a bare list has none. */
    bool is_bare_list, has_traces, has_settings, has_annotations;

    struct snap_index string_index, frame_index, stack_index, text_index, pool_index,
        origin_index;
};

/* Creates an empty one. Errors: ACRE_ERR_HOST_MEMORY. */
acre_status snapshot_create(struct snapshot **out);
void snapshot_destroy(struct snapshot *snapshot); /* NULL is fine */

/* Reads a file: pickle or our JSON, plain or gzip, told by its content.
 *
 * A note about what was odd but harmless is not kept. Errors: ACRE_ERR_FORMAT
 * (names file, offset and what to do), ACRE_ERR_IO, ACRE_ERR_UNSUPPORTED (gzip
 * without zlib), ACRE_ERR_HOST_MEMORY. */
acre_status snapshot_read(const char *path, struct snapshot **out);

/* The same for a source that is open, which is closed afterwards. */
acre_status snapshot_read_source(const char *path, struct source *source, struct snapshot **out);

/* Whether a file looks like a snapshot rather than a trace: its first byte that is
 * not blank, decompressed, is 0x80, '{' or '['; an empty one, which neither is, counts
 * as a snapshot unless its name says trace. Errors: those of opening. */
acre_status snapshot_is_one(const char *path, bool *out);

/* ---- Reading -------------------------------------------------------------------- */

/* Texts are zero-terminated; SNAP_NONE gives "". length may be NULL. */
const char *snapshot_string(const struct snapshot *snapshot, uint32_t id, size_t *length);
const char *snapshot_action_name(const struct snapshot *snapshot, uint16_t action);
const char *snapshot_state_name(uint8_t state);
/* A setting by its key at the top of the settings, or NULL. */
const struct snap_value *snapshot_setting(const struct snapshot *snapshot, const char *key);

/* The history of a device, oldest first; NULL when no device has any. */
static inline const struct snap_entry *snapshot_history(const struct snapshot *snapshot,
                                                        uint32_t device)
{
    return snapshot->entries ? snapshot->entries + snapshot->devices[device].first_entry : NULL;
}

static inline const struct snap_origin *snapshot_origin(const struct snapshot *snapshot,
                                                        const struct snap_entry *entry)
{
    return &snapshot->origins[entry->origin];
}

/* Whether the segments add up: blocks tile their segment, sums agree. Otherwise
 * ACRE_ERR_FORMAT with a sentence about the first that does not. */
acre_status snapshot_check(const struct snapshot *snapshot);

/* ---- Building ------------------------------------------------------------------- */

/* Give the index of an equal one, old or new. Errors: ACRE_ERR_HOST_MEMORY,
 * ACRE_ERR_LIMIT (more than 2^32 - 2). */
acre_status snapshot_add_string(struct snapshot *snapshot, const char *text, size_t length,
                                uint32_t *out);
acre_status snapshot_add_frame(struct snapshot *snapshot, const struct snap_frame *frame,
                               uint32_t *out);
acre_status snapshot_add_stack(struct snapshot *snapshot, const uint32_t *frames, uint32_t count,
                               uint32_t *out);
/* As snapshot_add_stack, for frames that are in frame_ids already. */
acre_status snapshot_adopt_stack(struct snapshot *snapshot, struct snap_run run, uint32_t *out);
acre_status snapshot_add_texts(struct snapshot *snapshot, const uint32_t *strings, uint32_t count,
                               uint32_t *out);
acre_status snapshot_add_pool(struct snapshot *snapshot, uint64_t first, uint64_t second,
                              uint32_t *out);
acre_status snapshot_add_origin(struct snapshot *snapshot, const struct snap_origin *origin,
                                uint32_t *out);
/* The action of a name, new ones included. */
acre_status snapshot_add_action(struct snapshot *snapshot, uint32_t name, uint16_t *out);

/* Append a zeroed record, whose indices are SNAP_NONE; the pointer is valid until
 * the next of its kind. Errors: ACRE_ERR_HOST_MEMORY. Entries belong to the last
 * device and have the first origin, blocks belong to the last segment. */
acre_status snapshot_add_device(struct snapshot *snapshot, struct snap_device **out);
acre_status snapshot_add_entry(struct snapshot *snapshot, struct snap_entry **out);
acre_status snapshot_add_segment(struct snapshot *snapshot, struct snap_segment **out);
acre_status snapshot_add_block(struct snapshot *snapshot, struct snap_block **out);
acre_status snapshot_add_annotation(struct snapshot *snapshot, struct snap_annotation **out);
/* Appends a value behind *last, the end of a chain that starts at *first; both
 * are SNAP_NONE for an empty chain. */
acre_status snapshot_add_value(struct snapshot *snapshot, uint32_t *first, uint32_t *last,
                               struct snap_value value);

/* ---- Writing -------------------------------------------------------------------- */

enum snapshot_format { SNAPSHOT_PICKLE, SNAPSHOT_JSON };

/* Writes a file, gzip when its name ends with ".gz". The file appears whole or
 * not at all. Errors: ACRE_ERR_IO, ACRE_ERR_HOST_MEMORY, ACRE_ERR_UNSUPPORTED,
 * ACRE_ERR_LIMIT (sink_limit_set). */
acre_status snapshot_write(const struct snapshot *snapshot, const char *path,
                           enum snapshot_format format);

#endif
