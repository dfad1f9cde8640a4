/* SPDX-License-Identifier: MIT */
#include "tests/support/features/stage.h"

#define MIB ((size_t)1 << 20)
#define TRY(call)                                                              \
    do {                                                                       \
        acre_status tried = (call);                                            \
        if (tried != ACRE_OK)                                                  \
            return tried;                                                      \
    } while (0)

const char *const kind_names[KIND_COUNT] = {"plain segments", "expandable", "stitched", "plug-in",
                                            "stream-ordered"};
const char *const feature_names[FEATURE_COUNT] = {
    "private pool", "capture",       "recording", "checkpoint", "sleep",          "share",
    "record_stream", "peers",        "history",   "fraction",   "sub-streams"};
static const size_t sizes[STAGE_BLOCKS] = {1000, 70000, 2 * MIB + 5000}; /* two pages */

/* ---- A plug-in over the device ----------------------------------------------------------- */

static acre_device *plug_device;
static const struct stage *plug_stage; /* whose stream all memory is for */

/* The call that is made to fail may be this one: then the next works. */
static void memory_free(acre_device *device, void *base)
{
    if (acre_device_free(device, base) != ACRE_OK)
        acre_device_free(device, base);
}

static void *plug_alloc(size_t bytes, int device, void *stream)
{
    void *base = NULL;

    (void)device;
    if (plug_stage->stream)
        EXPECT(stream == plug_stage->stream);
    return acre_device_alloc(plug_device, bytes, &base) == ACRE_OK ? base : NULL;
}

static void plug_free(void *base, size_t bytes, int device, void *stream)
{
    (void)bytes, (void)device, (void)stream;
    memory_free(plug_device, base);
}

/* ---- Life ------------------------------------------------------------------------------- */

static acre_status cache_make(struct stage *stage)
{
    acre_cache_config config = {.struct_size = sizeof config,
                                .flags = ACRE_CACHE_NO_ENVIRONMENT,
                                .policy = ACRE_POLICY_ACRE};
    acre_device_type type = acre_device_id_of(stage->device).type;
    acre_pool_id id;

    if (stage->kind == KIND_ORDERED)
        return acre_async_allocator_create(type, &stage->allocator);
    if (stage->kind == KIND_PLUGIN) {
        acre_pluggable_config how = {.struct_size = sizeof how, .alignment = 512};
        plug_device = stage->device;
        plug_stage = stage;
        TRY(acre_pluggable_create(type, plug_alloc, plug_free, &how, &stage->allocator));
        return acre_pluggable_cache(stage->allocator, 0, &config, &stage->cache, &id);
    }
    if (stage->kind == KIND_EXPANDABLE) {
        config.policy = ACRE_POLICY_TORCH;
        config.conf = "expandable_segments:True";
    } else if (stage->kind == KIND_PLAIN) {
        config.conf = "stitched_memory:False";
    }
    acre_device_info info = {.struct_size = sizeof info};
    TRY(acre_device_info_get(stage->device, &info));
    if (stage->kind != KIND_PLAIN && !(info.capabilities & ACRE_CAP_VIRTUAL))
        return ACRE_ERR_UNSUPPORTED;
    return acre_cache_create(stage->device, &config, &stage->cache);
}

acre_status stage_open(struct stage *stage, acre_backend *backend, enum kind kind)
{
    acre_device_info info = {.struct_size = sizeof info};

    *stage = (struct stage){.kind = kind, .backend = backend};
    TRY(acre_backend_device(backend, 0, &stage->device));
    if (acre_backend_device_count(backend) > 1)
        TRY(acre_backend_device(backend, 1, &stage->peer));
    TRY(acre_device_info_get(stage->device, &info));
    if (info.capabilities & ACRE_CAP_STREAMS) {
        TRY(acre_stream_native_create(stage->device, 0, 0, &stage->own_stream));
        TRY(acre_stream_native_create(stage->device, 0, 0, &stage->side));
        TRY(acre_event_native_create(stage->device, 0, &stage->event));
        stage->stream = stage->own_stream;
    }
    return cache_make(stage);
}

static void free_block(struct stage *stage, char **block)
{
    if (*block && stage->cache)
        acre_cache_free(stage->cache, *block);
    else if (*block)
        acre_async_free(stage->allocator, *block);
    *block = NULL;
}

static void capture_drop(struct stage *stage)
{
    if (stage->is_capturing)
        acre_capture_end(stage->device, stage->stream, &stage->graph);
    if (stage->is_marked)
        acre_capture_mark_end(stage->cache, stage->stream);
    if (stage->graph)
        acre_graph_destroy(stage->device, stage->graph);
    stage->is_capturing = stage->is_marked = false;
    stage->graph = NULL;
}

void stage_close(struct stage *stage)
{
    capture_drop(stage);
    acre_recording_destroy(stage->recording);
    if (stage->cache && stage->has_pool) {
        acre_cache_wake(stage->cache, &stage->pool, NULL);
        if (stage->has_scope)
            acre_pool_end(stage->cache, stage->pool);
    }
    acre_pool_state_destroy(stage->state);
    if (stage->opened)
        acre_share_close(stage->device, stage->opened);
    if (stage->own_stream)
        acre_device_synchronize(stage->device);
    for (int i = 0; i < STAGE_BLOCKS; i++)
        free_block(stage, &stage->blocks[i]);
    if (stage->own_stream)
        acre_device_synchronize(stage->device);
    if (stage->cache) {
        EXPECT_EQ(acre_cache_check(stage->cache), ACRE_OK);
        acre_cache_destroy(stage->cache);
    }
    if (stage->allocator && stage->kind == KIND_PLUGIN)
        EXPECT_EQ(acre_pluggable_close(stage->allocator), ACRE_OK);
    else if (stage->allocator)
        acre_allocator_destroy(stage->allocator);
    if (stage->event)
        acre_event_native_destroy(stage->device, stage->event);
    if (stage->side)
        acre_stream_native_destroy(stage->device, stage->side);
    if (stage->green)
        acre_green_destroy(stage->green);
    if (stage->own_stream)
        acre_stream_native_destroy(stage->device, stage->own_stream);
}

/* ---- Contents ----------------------------------------------------------------------------- */

static acre_status block_alloc(struct stage *stage, int i)
{
    void *out = NULL;
    acre_status status =
        stage->cache ? acre_cache_alloc(stage->cache, sizes[i], stage->stream, &out)
                     : acre_async_alloc(stage->allocator, sizes[i], 0, stage->stream, &out);

    stage->blocks[i] = out;
    return status;
}

/* Allocates the blocks that are not there yet. */
static acre_status blocks_alloc(struct stage *stage)
{
    for (int i = 0; i < STAGE_BLOCKS; i++)
        if (!stage->blocks[i])
            TRY(block_alloc(stage, i));
    return ACRE_OK;
}

/* Fills every block with its number, in the order of the stream; captured or not. */
static acre_status blocks_fill(struct stage *stage)
{
    acre_device_info info = {.struct_size = sizeof info};

    TRY(acre_device_info_get(stage->device, &info));
    TRY(blocks_alloc(stage));
    for (int i = 0; i < STAGE_BLOCKS; i++) {
        if (info.capabilities & ACRE_CAP_STREAMS) {
            TRY(acre_fill_async(stage->device, stage->blocks[i], i + 1, sizes[i],
                                stage->stream));
        } else {
            memset(stage->blocks[i], i + 1, sizes[i]);
        }
    }
    return ACRE_OK;
}

acre_status stage_verify(struct stage *stage)
{
    static unsigned char seen[3 * MIB];

    if (stage->own_stream)
        TRY(acre_device_synchronize(stage->device));
    for (int i = 0; i < STAGE_BLOCKS; i++) {
        if (stage->own_stream)
            TRY(acre_copy(stage->device, seen, stage->blocks[i], sizes[i],
                          ACRE_COPY_DEVICE_TO_HOST));
        else
            memcpy(seen, stage->blocks[i], sizes[i]);
        if (seen[0] != i + 1 || memcmp(seen, seen + 1, sizes[i] - 1) != 0) {
            size_t k = 0;
            while (seen[k] == i + 1)
                k++;
            t_fail(__FILE__, __LINE__, "byte %zu of block %d is %d", k, i, seen[k]);
        }
    }
    for (int i = 0; i < STAGE_BLOCKS; i++)
        for (int k = 0; k < i; k++)
            EXPECT(stage->blocks[i] + sizes[i] <= stage->blocks[k] ||
                   stage->blocks[k] + sizes[k] <= stage->blocks[i]);
    return ACRE_OK;
}

/* ---- Features: begin ------------------------------------------------------------------------ */

static acre_status pool_begin(struct stage *stage)
{
    acre_pool_config config = {.struct_size = sizeof config,
                               .flags = stage->kind == KIND_STITCHED ? ACRE_POOL_STITCHED : 0,
                               .allocator = stage->kind == KIND_PLUGIN ? stage->allocator : NULL};

    if (!stage->cache)
        return ACRE_ERR_UNSUPPORTED; /* no call takes stream-ordered memory there */
    if (!stage->has_pool) {
        stage->pool = acre_pool_id_next();
        TRY(acre_pool_create(stage->cache, stage->pool, &config));
        stage->has_pool = true;
    }
    if (!stage->has_scope && !stage->recording) {
        TRY(acre_pool_begin(stage->cache, stage->pool,
                            &(acre_pool_filter){.kind = ACRE_POOL_ANY}));
        stage->has_scope = true;
    }
    return ACRE_OK;
}

static acre_status capture_begin(struct stage *stage)
{
    if (stage->recording)
        return ACRE_OK; /* it captures already */
    bool is_early = stage->kind == KIND_STITCHED && stage->has_scope;
    if (is_early) /* nothing is captured into a stitched pool; the graph uses what is live */
        TRY(blocks_alloc(stage));
    TRY(acre_capture_begin(stage->device, stage->stream));
    stage->is_capturing = true;
    if (stage->cache) {
        TRY(acre_capture_mark_begin(stage->cache, stage->stream));
        stage->is_marked = true;
    }
    if (is_early) {
        void *out;
        EXPECT_EQ(acre_cache_alloc(stage->cache, sizes[0], stage->stream, &out), ACRE_ERR_STATE);
    }
    return ACRE_OK;
}

static acre_status recording_begin(struct stage *stage)
{
    if (!stage->cache)
        return ACRE_ERR_UNSUPPORTED; /* no call records stream-ordered memory */
    bool is_stitched = stage->kind == KIND_STITCHED && stage->has_pool;
    if (is_stitched)
        TRY(blocks_alloc(stage));
    if (stage->has_scope) {
        TRY(acre_pool_end(stage->cache, stage->pool));
        stage->has_scope = false;
    }
    return acre_recording_begin(stage->cache, stage->stream,
                                stage->has_pool && !is_stitched ? &stage->pool : NULL,
                                &stage->recording);
}

static acre_status sub_streams_begin(struct stage *stage)
{
    acre_green_config config = {.struct_size = sizeof config, .units = 1};
    void *stream;

    if (stage->is_capturing || stage->recording)
        return ACRE_OK; /* the order of features puts it first */
    TRY(acre_green_create(stage->device, &config, &stage->green));
    TRY(acre_green_stream(stage->green, &stream));
    stage->stream = stream;
    return ACRE_OK;
}

static acre_status feature_begin(struct stage *stage, enum feature feature)
{
    acre_history_config history = {.struct_size = sizeof history, .max_entries = 1000};

    switch (feature) {
    case FEATURE_POOL:
    case FEATURE_SLEEP:
    case FEATURE_CHECKPOINT:
        return pool_begin(stage);
    case FEATURE_CAPTURE:
        return capture_begin(stage);
    case FEATURE_RECORDING:
        return recording_begin(stage);
    case FEATURE_PEERS:
        if (!stage->peer || !stage->cache)
            return ACRE_ERR_UNSUPPORTED;
        return acre_cache_peer_enable(stage->cache, stage->peer);
    case FEATURE_HISTORY:
        return stage->cache ? acre_cache_history_start(stage->cache, &history)
                            : ACRE_ERR_UNSUPPORTED;
    case FEATURE_FRACTION:
        return stage->cache ? acre_cache_memory_fraction_set(stage->cache, 0.5)
                            : acre_async_memory_fraction_set(stage->allocator, 0, 0.5);
    case FEATURE_SUB_STREAMS:
        return sub_streams_begin(stage);
    default:
        return ACRE_OK;
    }
}

/* ---- Features: use --------------------------------------------------------------------------- */

/* Ends captures, and lets what was captured run. */
static acre_status captures_settle(struct stage *stage)
{
    if (stage->is_capturing) {
        acre_status status = acre_capture_end(stage->device, stage->stream, &stage->graph);
        stage->is_capturing = status != ACRE_OK; /* stage_close tries again */
        if (stage->is_marked)
            acre_capture_mark_end(stage->cache, stage->stream);
        stage->is_marked = false;
        TRY(status);
        TRY(acre_graph_launch(stage->device, stage->graph, stage->stream));
    }
    if (stage->recording && !stage->has_contents) {
        TRY(acre_recording_end(stage->recording));
        TRY(acre_recording_launch(stage->recording, stage->stream));
    }
    if (stage->has_scope) {
        TRY(acre_pool_end(stage->cache, stage->pool));
        stage->has_scope = false;
    }
    return stage->own_stream ? acre_device_synchronize(stage->device) : ACRE_OK;
}

static acre_status checkpoint_use(struct stage *stage)
{
    acre_pool_delta *delta = NULL;

    TRY(acre_pool_save(stage->cache, stage->pool, &stage->state));
    TRY(acre_pool_restore(stage->cache, stage->state, &delta));
    acre_pool_delta_destroy(delta);
    return ACRE_OK;
}

static acre_status sleep_use(struct stage *stage)
{
    TRY(acre_cache_sleep(stage->cache, &stage->pool, NULL, ACRE_SLEEP_SAVE));
    return acre_cache_wake(stage->cache, &stage->pool, NULL);
}

static acre_status share_use(struct stage *stage)
{
    uint8_t handle[ACRE_SHARE_HANDLE_MAX];
    unsigned char byte = 0;
    uint64_t offset, bytes, count;
    size_t length;

    if (!stage->cache)
        return ACRE_ERR_UNSUPPORTED;
    TRY(acre_share_export(stage->cache, stage->blocks[2], handle, sizeof handle, &length,
                          &offset));
    acre_status status = acre_share_open(stage->device, handle, length, &stage->opened, &bytes);
    if (status == ACRE_OK) {
        status = acre_copy(stage->device, &byte, (char *)stage->opened + offset, 1,
                           ACRE_COPY_DEVICE_TO_HOST);
        if (status == ACRE_OK)
            EXPECT_EQ(byte, 3);
        if (acre_share_close(stage->device, stage->opened) == ACRE_OK)
            stage->opened = NULL; /* else stage_close tries again */
    }
    acre_status revoked = acre_share_revoke(stage->cache, stage->blocks[2], &count);
    return status == ACRE_OK ? revoked : status;
}

/* A block that a side stream still writes is freed, and its memory is not handed out. */
static acre_status record_stream_use(struct stage *stage)
{
    char *old = stage->blocks[2];

    if (!stage->own_stream) /* nothing is ever queued: any stream is done */
        return acre_cache_record_stream(stage->cache, old, &stage->side);
    TRY(stage->cache ? acre_cache_record_stream(stage->cache, old, stage->side)
                     : acre_async_record_stream(stage->allocator, old, stage->side));
    TRY(acre_fill_async(stage->device, old, 3, sizes[2], stage->side));
    /* Graphs that are launched again write there, too: after the side stream. */
    TRY(acre_event_native_record(stage->device, stage->event, stage->side));
    return acre_stream_native_wait(stage->device, stage->stream, stage->event);
}

static acre_status peers_use(struct stage *stage)
{
    void *there = NULL;
    unsigned char byte = 0;

    TRY(acre_device_alloc(stage->peer, sizes[1], &there));
    acre_status status = acre_copy_peer_async(stage->device, there, stage->peer,
                                              stage->blocks[1], stage->device, sizes[1],
                                              stage->stream);
    acre_status waited = acre_device_synchronize(stage->device);
    status = status == ACRE_OK ? waited : status;
    if (status == ACRE_OK)
        status = acre_copy(stage->peer, &byte, there, 1, ACRE_COPY_DEVICE_TO_HOST);
    if (status == ACRE_OK)
        EXPECT_EQ(byte, 2);
    memory_free(stage->peer, there);
    return status;
}

static acre_status history_use(struct stage *stage)
{
    acre_history *history = NULL;

    TRY(acre_cache_history_create(stage->cache, &history));
    EXPECT(history->entry_count >= 1);
    acre_history_destroy(history);
    return ACRE_OK;
}

/* Half of the device is allowed, and no more. */
static acre_status fraction_use(struct stage *stage)
{
    uint64_t free_bytes, total;
    void *out = NULL;

    TRY(acre_device_memory(stage->device, &free_bytes, &total));
    size_t bytes = (size_t)(total / 4 * 3);
    acre_status status = stage->cache
                             ? acre_cache_alloc(stage->cache, bytes, stage->stream, &out)
                             : acre_async_alloc(stage->allocator, bytes, 0, stage->stream, &out);
    EXPECT(status != ACRE_OK);
    if (out)
        free_block(stage, (char **)&out);
    return status == ACRE_ERR_DEVICE_MEMORY || status == ACRE_ERR_LIMIT ? ACRE_OK : status;
}

static acre_status feature_use(struct stage *stage, enum feature feature)
{
    switch (feature) {
    case FEATURE_CHECKPOINT:
        return checkpoint_use(stage);
    case FEATURE_SLEEP:
        return sleep_use(stage);
    case FEATURE_SHARE:
        return share_use(stage);
    case FEATURE_RECORD_STREAM:
        return record_stream_use(stage);
    case FEATURE_PEERS:
        return peers_use(stage);
    case FEATURE_HISTORY:
        return history_use(stage);
    case FEATURE_FRACTION:
        return fraction_use(stage);
    default:
        return ACRE_OK;
    }
}

/* ---- Refusals -------------------------------------------------------------------------------- */

struct held {
    int64_t allocated, reserved;
};

static struct held held_now(struct stage *stage)
{
    acre_cache_stats stats = {.struct_size = sizeof stats};

    if (!stage->cache || acre_cache_stats_get(stage->cache, &stats) != ACRE_OK)
        return (struct held){0, 0};
    return (struct held){stats.allocated_bytes.all.current, stats.reserved_bytes.all.current};
}

/* Begins or uses a feature; one that is refused changes nothing. */
static acre_status feature_try(struct stage *stage, enum feature feature,
                               acre_status (*how)(struct stage *, enum feature))
{
    struct held before = held_now(stage);
    acre_status status = how(stage, feature);

    if (status == ACRE_ERR_UNSUPPORTED) {
        struct held after = held_now(stage);
        EXPECT_EQ(after.allocated, before.allocated);
        EXPECT_EQ(after.reserved, before.reserved);
    }
    return status;
}

/* ---- Together ------------------------------------------------------------------------------ */

acre_status stage_run(struct stage *stage, const enum feature *features, int count)
{
    /* Streams first, then what watches, then pools, then captures. */
    static const enum feature order[FEATURE_COUNT] = {
        FEATURE_SUB_STREAMS, FEATURE_HISTORY,       FEATURE_FRACTION, FEATURE_PEERS,
        FEATURE_POOL,        FEATURE_CHECKPOINT,    FEATURE_SLEEP,    FEATURE_SHARE,
        FEATURE_RECORDING,   FEATURE_CAPTURE,       FEATURE_RECORD_STREAM};

    for (int k = 0; k < FEATURE_COUNT; k++)
        for (int i = 0; i < count; i++)
            if (features[i] == order[k])
                TRY(feature_try(stage, order[k], feature_begin));
    TRY(blocks_fill(stage));
    TRY(captures_settle(stage));
    stage->has_contents = true;
    TRY(stage_verify(stage));
    for (int k = 0; k < FEATURE_COUNT; k++)
        for (int i = 0; i < count; i++)
            if (features[i] == order[k])
                TRY(feature_try(stage, order[k], feature_use));
    /* Graphs work on the same addresses whatever happened to the pool since. */
    if (stage->graph)
        TRY(acre_graph_launch(stage->device, stage->graph, stage->stream));
    if (stage->recording)
        TRY(acre_recording_launch(stage->recording, stage->stream));
    return stage_verify(stage);
}
