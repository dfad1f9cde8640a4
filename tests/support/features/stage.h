/* SPDX-License-Identifier: MIT */
/* One kind of memory with features that meet on it; tests/model/test_features.c.
 *
 *   stage_open   begin of each feature   blocks with contents   settle   use   verify   end   close
 *
 * Every step returns a status. A feature that a kind, or a device, does not have answers
 * ACRE_ERR_UNSUPPORTED from begin or use, and changes nothing. Whatever failed, stage_close
 * ends everything and leaves nothing behind. */
#ifndef TESTS_SUPPORT_STAGE_H
#define TESTS_SUPPORT_STAGE_H

#include "tests/support/t.h"

#include <acre/acre.h>

enum kind { KIND_PLAIN, KIND_EXPANDABLE, KIND_STITCHED, KIND_PLUGIN, KIND_ORDERED, KIND_COUNT };
enum feature {
    FEATURE_POOL,
    FEATURE_CAPTURE,
    FEATURE_RECORDING,
    FEATURE_CHECKPOINT,
    FEATURE_SLEEP,
    FEATURE_SHARE,
    FEATURE_RECORD_STREAM,
    FEATURE_PEERS,
    FEATURE_HISTORY,
    FEATURE_FRACTION,
    FEATURE_SUB_STREAMS,
    FEATURE_COUNT
};
enum { STAGE_BLOCKS = 3 };

struct stage {
    enum kind kind;
    acre_backend *backend;
    acre_device *device, *peer;   /* peer: NULL when there is one device */
    acre_allocator *allocator;    /* of plug-ins and of stream-ordered memory */
    acre_cache *cache;            /* NULL for stream-ordered memory */
    void *stream, *own_stream, *side, *event;
    acre_pool_id pool;            /* private pool in use; {0, 0}: none */
    bool has_pool, has_scope, is_marked, is_capturing;
    void *graph;
    acre_recording *recording;
    acre_green *green;
    acre_pool_state *state;
    char *blocks[STAGE_BLOCKS];
    bool has_contents;            /* the fills have run */
    void *opened;                 /* base of a share */
};

extern const char *const kind_names[KIND_COUNT];
extern const char *const feature_names[FEATURE_COUNT];

acre_status stage_open(struct stage *stage, acre_backend *backend, enum kind kind);
/* Runs features one after another, or together, on an open stage. */
acre_status stage_run(struct stage *stage, const enum feature *features, int count);
/* Waits for the device and compares the contents of all blocks. */
acre_status stage_verify(struct stage *stage);
/* Ends everything. */
void stage_close(struct stage *stage);

#endif
