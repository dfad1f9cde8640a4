/* SPDX-License-Identifier: MIT */
#include "tests/support/recorder.h"

#include "tests/support/t.h"

static void add_frames(struct recorder *recorder, struct snap_entry *entry, unsigned which)
{
    char name[16];
    struct snap_frame frame = {.line = which, .extra = SNAP_NONE};

    snprintf(name, sizeof name, "layer%u", which);
    REQUIRE_OK(snapshot_add_string(recorder->snapshot, "model.py", 8, &frame.file));
    REQUIRE_OK(snapshot_add_string(recorder->snapshot, name, strlen(name), &frame.name));
    uint32_t id, stack;
    REQUIRE_OK(snapshot_add_frame(recorder->snapshot, &frame, &id));
    REQUIRE_OK(snapshot_add_stack(recorder->snapshot, &id, 1, &stack));
    entry->stack = stack;
    entry->has |= SNAP_HAS_FRAMES;
}

static void add_entry(struct recorder *recorder, uint16_t action, uint64_t address,
                      uint64_t bytes, uint64_t stream)
{
    struct snap_origin origin = recorder->snapshot->origins[0];
    struct snap_entry *entry;

    origin.stream = stream;
    REQUIRE_OK(snapshot_add_entry(recorder->snapshot, &entry));
    REQUIRE_OK(snapshot_add_origin(recorder->snapshot, &origin, &entry->origin));
    entry->action = action;
    entry->address = address;
    entry->bytes = bytes;
    entry->time_us = recorder->time_us += 10;
    entry->has = SNAP_HAS_TIME;
    if (action <= SNAP_FREE_COMPLETED)
        add_frames(recorder, entry, (unsigned)(bytes % 7));
}

static int find_segment(const struct recorder *recorder, const acre_cache_layout *layout,
                        int known)
{
    for (uint64_t i = 0; i < layout->segment_count; i++)
        if ((uint64_t)(uintptr_t)layout->segments[i].base == recorder->segments[known].base)
            return (int)i;
    return -1;
}

static bool is_known(const struct recorder *recorder, uint64_t base)
{
    for (int i = 0; i < recorder->segment_count; i++)
        if (recorder->segments[i].base == base)
            return true;
    return false;
}

/* Records what the last call did to the segments. */
static void note_segments(struct recorder *recorder)
{
    acre_cache_layout *layout;

    REQUIRE_OK(acre_cache_layout_create(recorder->cache, &layout));
    for (int i = 0; i < recorder->segment_count;) {
        if (find_segment(recorder, layout, i) >= 0) {
            i++;
            continue;
        }
        add_entry(recorder, SNAP_SEGMENT_FREE, recorder->segments[i].base,
                  recorder->segments[i].bytes, recorder->segments[i].stream);
        recorder->segments[i] = recorder->segments[--recorder->segment_count];
    }
    for (uint64_t i = 0; i < layout->segment_count; i++) {
        const acre_segment_info *segment = &layout->segments[i];
        uint64_t base = (uint64_t)(uintptr_t)segment->base;
        if (is_known(recorder, base))
            continue;
        uint64_t stream = (uint64_t)(uintptr_t)segment->stream;
        add_entry(recorder, SNAP_SEGMENT_ALLOC, base, segment->bytes, stream);
        recorder->segments[recorder->segment_count].base = base;
        recorder->segments[recorder->segment_count].stream = stream;
        recorder->segments[recorder->segment_count++].bytes = segment->bytes;
    }
    acre_cache_layout_destroy(layout);
}

void recorder_begin(struct recorder *recorder, const char *conf, uint64_t seed)
{
    acre_sim_config sim = {.struct_size = sizeof sim, .dry = 1, .name = "recorder",
                           .memory_bytes = recorder->device_bytes ? recorder->device_bytes
                                                                  : (uint64_t)64 << 30};
    acre_cache_config config = {.struct_size = sizeof config, .policy = ACRE_POLICY_TORCH,
                                .conf = conf, .flags = ACRE_CACHE_NO_ENVIRONMENT};
    struct snap_device *device;

    memset(recorder, 0, sizeof *recorder);
    recorder->device_bytes = 0; /* holds for one recording */
    recorder->state = seed;
    recorder->time_us = 1700000000000000;
    REQUIRE_OK(snapshot_create(&recorder->snapshot));
    recorder->snapshot->has_traces = true;
    REQUIRE_OK(snapshot_add_device(recorder->snapshot, &device));
    recorder->snapshot->trace_count = 1;
    REQUIRE_OK(acre_sim_create(&sim, &recorder->backend));
    REQUIRE_OK(acre_backend_device(recorder->backend, 0, &recorder->device));
    REQUIRE_OK(acre_cache_create(recorder->device, &config, &recorder->cache));
    for (int i = 1; i < 3; i++)
        REQUIRE_OK(acre_stream_native_create(recorder->device, 0, 0, &recorder->streams[i]));
}

static void step_alloc(struct recorder *recorder, uint64_t largest)
{
    uint64_t bits = 1 + t_random(&recorder->state) % (uint64_t)(64 - __builtin_clzll(largest));
    uint64_t bytes = 1 + t_random(&recorder->state) % ((uint64_t)1 << bits);
    void *stream = recorder->streams[t_random(&recorder->state) % 8 < 6
                                         ? 0 : 1 + t_random(&recorder->state) % 2];
    int at = recorder->live_count++;

    if (bytes > largest)
        bytes = largest;
    recorder->live[at].bytes = bytes;
    recorder->live[at].stream = (uint64_t)(uintptr_t)stream;
    REQUIRE_OK(acre_cache_alloc(recorder->cache, bytes, stream, &recorder->live[at].pointer));
    note_segments(recorder);
    add_entry(recorder, SNAP_ALLOC, (uint64_t)(uintptr_t)recorder->live[at].pointer, bytes,
              recorder->live[at].stream);
}

static void step_free(struct recorder *recorder)
{
    int at = (int)(t_random(&recorder->state) % (uint64_t)recorder->live_count);
    uint64_t address = (uint64_t)(uintptr_t)recorder->live[at].pointer;

    add_entry(recorder, SNAP_FREE_REQUESTED, address, recorder->live[at].bytes,
              recorder->live[at].stream);
    REQUIRE_OK(acre_cache_free(recorder->cache, recorder->live[at].pointer));
    add_entry(recorder, SNAP_FREE_COMPLETED, address, recorder->live[at].bytes,
              recorder->live[at].stream);
    recorder->live[at] = recorder->live[--recorder->live_count];
}

void recorder_run(struct recorder *recorder, int steps, uint64_t largest)
{
    for (int i = 0; i < steps; i++) {
        uint64_t die = t_random(&recorder->state) % 1000;
        if (die < 2) {
            REQUIRE_OK(acre_cache_empty(recorder->cache));
            note_segments(recorder);
        } else if (recorder->live_count == 0 || (recorder->live_count < 200 && die < 530)) {
            step_alloc(recorder, largest);
        } else {
            step_free(recorder);
        }
    }
}

static void add_segment(struct recorder *recorder, const acre_cache_layout *layout, uint64_t i)
{
    const acre_segment_info *from = &layout->segments[i];
    struct snapshot *snapshot = recorder->snapshot;
    const char *type = from->is_small ? "small" : "large";
    struct snap_segment *segment;

    REQUIRE_OK(snapshot_add_segment(snapshot, &segment));
    REQUIRE_OK(snapshot_add_string(snapshot, type, 5, &segment->type));
    segment->address = (uint64_t)(uintptr_t)from->base;
    segment->bytes = from->bytes;
    segment->stream = (uint64_t)(uintptr_t)from->stream;
    segment->is_small = from->is_small != 0;
    segment->has = SNAP_HAS_REQUESTED;
    for (uint64_t k = 0; k < from->block_count; k++) {
        const acre_block_info *info = &layout->blocks[from->first_block + k];
        struct snap_block *block;
        REQUIRE_OK(snapshot_add_block(snapshot, &block));
        block->address = (uint64_t)(uintptr_t)info->base;
        block->bytes = info->bytes;
        block->requested_bytes = info->requested_bytes;
        block->state = info->state == ACRE_BLOCK_LIVE ? SNAP_ALLOCATED : SNAP_INACTIVE;
        block->has = SNAP_HAS_ADDRESS | SNAP_HAS_REQUESTED | SNAP_HAS_FRAMES;
        if (block->state == SNAP_ALLOCATED) {
            segment->allocated_bytes += block->bytes;
            segment->active_bytes += block->bytes;
            segment->requested_bytes += block->requested_bytes;
        }
    }
}

struct snapshot *recorder_end(struct recorder *recorder)
{
    acre_cache_layout *layout;

    REQUIRE_OK(acre_cache_layout_create(recorder->cache, &layout));
    for (uint64_t i = 0; i < layout->segment_count; i++)
        add_segment(recorder, layout, i);
    acre_cache_layout_destroy(layout);
    acre_cache_destroy(recorder->cache);
    for (int i = 1; i < 3; i++)
        acre_stream_native_destroy(recorder->device, recorder->streams[i]);
    acre_backend_unregister(recorder->backend);
    return recorder->snapshot;
}

void recorder_forget(struct snapshot *snapshot, uint64_t count)
{
    snapshot->devices[0].first_entry += count;
    snapshot->devices[0].entry_count -= count;
}
