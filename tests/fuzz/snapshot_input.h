/* SPDX-License-Identifier: MIT */
/* What the fuzzers of snapshot formats share: a file of any bytes is read or refused
 * with a sentence; what is accepted is sound, can be written, and can be explained. */
#ifndef TESTS_FUZZ_SNAPSHOT_INPUT_H
#define TESTS_FUZZ_SNAPSHOT_INPUT_H

#include "base/heap.h"
#include "format/snapshot/json_write.h"
#include "format/snapshot/pickle_write.h"
#include "format/snapshot/snapshot.h"
#include "replay/history.h"
#include "replay/verify.h"
#include "tests/fuzz/fuzz.h"

#include <acre/explain.h>

#include <sys/mman.h>
#include <unistd.h>

/* Every index of a record lies in its table. */
static void check_sound(const struct snapshot *s)
{
    for (size_t i = 0; i < s->device_count; i++)
        FUZZ_EXPECT(s->devices[i].first_entry + s->devices[i].entry_count <= s->entry_count);
    for (size_t i = 0; i < s->entry_count; i++) {
        const struct snap_entry *entry = &s->entries[i];
        FUZZ_EXPECT(entry->action < SNAP_OTHER + s->other_action_count);
        FUZZ_EXPECT(entry->stack == SNAP_NONE || entry->stack < s->stack_count);
        FUZZ_EXPECT(entry->origin < s->origin_count);
    }
    for (size_t i = 0; i < s->origin_count; i++) {
        const struct snap_origin *origin = &s->origins[i];
        FUZZ_EXPECT(origin->forward == SNAP_NONE || origin->forward < s->text_count);
        FUZZ_EXPECT(origin->pool == SNAP_NONE || origin->pool < s->pool_count);
    }
    for (size_t i = 0; i < s->segment_count; i++) {
        const struct snap_segment *segment = &s->segments[i];
        FUZZ_EXPECT(segment->first_block + segment->block_count <= s->block_count);
        FUZZ_EXPECT(segment->device < s->device_count);
        FUZZ_EXPECT(segment->stack == SNAP_NONE || segment->stack < s->stack_count);
    }
    for (size_t i = 0; i < s->block_count; i++)
        FUZZ_EXPECT((uint64_t)s->blocks[i].first_past + s->blocks[i].past_count <= s->past_count);
    for (size_t i = 0; i < s->stack_count; i++)
        for (uint32_t k = 0; k < s->stacks[i].count; k++)
            FUZZ_EXPECT(s->frame_ids[s->stacks[i].first + k] < s->frame_count);
}

static void write_both(const struct snapshot *snapshot)
{
    struct sink sink;

    for (int i = 0; i < 2; i++) {
        FUZZ_EXPECT(sink_open(&sink, "/dev/null", false) == ACRE_OK);
        if (i)
            json_write(snapshot, &sink);
        else
            FUZZ_EXPECT(pickle_write(snapshot, &sink) == ACRE_OK);
        FUZZ_EXPECT(sink_finish(&sink) == ACRE_OK);
    }
}

static void use(struct snapshot *snapshot)
{
    struct trace_history *history;
    acre_verify_result result;
    acre_why *why;

    check_sound(snapshot);
    write_both(snapshot);
    if (snapshot_check(snapshot) != ACRE_OK || snapshot->device_count > 16)
        return;
    if (acre_why_create((acre_snapshot *)snapshot, NULL, &why) == ACRE_OK)
        acre_why_destroy(why);
    for (uint32_t i = 0; i < snapshot->device_count; i++) {
        if (history_create(snapshot, i, true, &history) == ACRE_OK)
            history_destroy(history);
        acre_status status = verify_device(snapshot, i, &result);
        FUZZ_EXPECT(status == ACRE_OK || *acre_last_error());
    }
}

static int run_snapshot(const uint8_t *data, size_t size)
{
    static int fd = -1;
    char path[64];
    struct snapshot *snapshot;
    uint64_t live = heap_live_count();

    if (fd < 0)
        fd = memfd_create("snapshot", 0);
    if (size > 200000 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    acre_status status = snapshot_read(path, &snapshot);
    if (status == ACRE_OK) {
        use(snapshot);
        snapshot_destroy(snapshot);
    } else {
        FUZZ_EXPECT(status == ACRE_ERR_FORMAT && *acre_last_error());
    }
    FUZZ_EXPECT(heap_live_count() == live);
    return 0;
}

#endif
