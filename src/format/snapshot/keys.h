/* SPDX-License-Identifier: MIT */
/* The names that snapshots are written in: keys of dicts, then actions, then states.
 * Builders know them as the first strings of a snapshot, by the same numbers. */
#ifndef SRC_FORMAT_KEYS_H
#define SRC_FORMAT_KEYS_H

#include "format/snapshot/snapshot.h"

/* Keys: constant, name in files. */
#define SNAP_KEYS(X)                                                        \
    X(KEY_ACTION, "action")                                                    \
    X(KEY_ADDR, "addr")                                                        \
    X(KEY_DEVICE_FREE, "device_free")                                          \
    X(KEY_SIZE, "size")                                                        \
    X(KEY_STREAM, "stream")                                                    \
    X(KEY_TIME_US, "time_us")                                                  \
    X(KEY_COMPILE_CONTEXT, "compile_context")                                  \
    X(KEY_USER_METADATA, "user_metadata")                                      \
    X(KEY_POOL_ID, "pool_id")                                                  \
    X(KEY_FRAMES, "frames")                                                    \
    X(KEY_FORWARD_FRAMES, "forward_frames")                                    \
    X(KEY_STACK, "stack")                                                      \
    X(KEY_DEVICE, "device")                                                    \
    X(KEY_ADDRESS, "address")                                                  \
    X(KEY_TOTAL_SIZE, "total_size")                                            \
    X(KEY_ALLOCATED_SIZE, "allocated_size")                                    \
    X(KEY_ACTIVE_SIZE, "active_size")                                          \
    X(KEY_REQUESTED_SIZE, "requested_size")                                    \
    X(KEY_SEGMENT_TYPE, "segment_type")                                        \
    X(KEY_SEGMENT_POOL_ID, "segment_pool_id")                                  \
    X(KEY_IS_EXPANDABLE, "is_expandable")                                      \
    X(KEY_BLOCKS, "blocks")                                                    \
    X(KEY_STATE, "state")                                                      \
    X(KEY_HISTORY, "history")                                                  \
    X(KEY_REAL_SIZE, "real_size")                                              \
    X(KEY_FILENAME, "filename")                                                \
    X(KEY_LINE, "line")                                                        \
    X(KEY_NAME, "name")                                                        \
    X(KEY_SEGMENTS, "segments")                                                \
    X(KEY_DEVICE_TRACES, "device_traces")                                      \
    X(KEY_ALLOCATOR_SETTINGS, "allocator_settings")                            \
    X(KEY_EXTERNAL_ANNOTATIONS, "external_annotations")                        \
    X(KEY_STACKS, "stacks")                                                    \
    X(KEY_ACRE_SNAPSHOT, "acre_snapshot")

enum snap_key {
#define SNAP_KEY(constant, name) constant,
    SNAP_KEYS(SNAP_KEY)
#undef SNAP_KEY
    KEY_COUNT,                          /* below it: a known key                    */
    FIRST_ACTION = KEY_COUNT,           /* the actions follow ...        */
    FIRST_STATE = FIRST_ACTION + SNAP_OTHER, /* ... and the states               */
    NAME_COUNT = FIRST_STATE + SNAP_AWAITING + 1,
};

extern const char *const key_names[NAME_COUNT];

#endif
