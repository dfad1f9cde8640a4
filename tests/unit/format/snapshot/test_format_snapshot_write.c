/* SPDX-License-Identifier: MIT */
/* What is written reads back as the same snapshot, in both formats, plain and gzip. */
#include "base/heap.h"
#include "format/snapshot/json_write.h"
#include "format/snapshot/keys.h"
#include "format/snapshot/pickle_write.h"
#include "format/sink.h"
#include "format/snapshot/snapshot.h"
#include "tests/support/files.h"
#include "tests/support/json.h"
#include "tests/support/recorder.h"
#include "tests/support/t.h"

#include <sys/stat.h>
#include <unistd.h>

static struct recorder recorder;

static struct snapshot *record(uint64_t seed)
{
    recorder_begin(&recorder, "", seed);
    recorder_run(&recorder, 300, (uint64_t)8 << 20);
    struct snapshot *snapshot = recorder_end(&recorder);
    struct snap_annotation *annotation;
    uint32_t last = SNAP_NONE, key, pool;

    REQUIRE_OK(snapshot_add_pool(snapshot, 0, 3, &pool));
    snapshot->segments[0].pool = pool;
    struct snap_origin origin = *snapshot_origin(snapshot, &snapshot->entries[2]);
    origin.pool = pool;
    REQUIRE_OK(snapshot_add_origin(snapshot, &origin, &snapshot->entries[2].origin));
    snapshot->entries[2].has |= SNAP_HAS_POOL;
    snapshot->segments[0].has |= SNAP_HAS_POOL | SNAP_HAS_EXPANDABLE;
    origin = *snapshot_origin(snapshot, &snapshot->entries[1]);
    REQUIRE_OK(snapshot_add_string(snapshot, "quote \" back \\ \xc3\xa9 \xed\xa0\x80 \x01", 21,
                                   &origin.user_metadata));
    REQUIRE_OK(snapshot_add_origin(snapshot, &origin, &snapshot->entries[1].origin));
    snapshot->has_settings = snapshot->has_annotations = true;
    REQUIRE_OK(snapshot_add_string(snapshot, "garbage_collection_threshold", 28, &key));
    REQUIRE_OK(snapshot_add_value(snapshot, &snapshot->settings, &last,
                                  (struct snap_value){.key = key, .kind = SNAP_REAL,
                                                      .as.real = 0.1}));
    REQUIRE_OK(snapshot_add_annotation(snapshot, &annotation));
    annotation->time_us = -5;
    annotation->device = 1;
    annotation->has_device = annotation->has_time = 1;
    snapshot->entries[3].address = UINT64_MAX - 511;
    return snapshot;
}

/* Compares all that is independent of the numbering of tables. */
static void expect_same(const struct snapshot *a, const struct snapshot *b)
{
    REQUIRE_EQ(a->entry_count, b->entry_count);
    REQUIRE_EQ(a->segment_count, b->segment_count);
    REQUIRE_EQ(a->block_count, b->block_count);
    REQUIRE_EQ(a->annotation_count, b->annotation_count);
    for (size_t i = 0; i < a->entry_count; i++) {
        const struct snap_entry *x = &a->entries[i], *y = &b->entries[i];
        const struct snap_origin *o = snapshot_origin(a, x), *p = snapshot_origin(b, y);
        EXPECT(x->address == y->address && x->bytes == y->bytes && o->stream == p->stream &&
               x->time_us == y->time_us && x->action == y->action && x->has == y->has);
        EXPECT_STR_EQ(snapshot_string(a, o->user_metadata, NULL),
                      snapshot_string(b, p->user_metadata, NULL));
        EXPECT_EQ(x->stack == SNAP_NONE, y->stack == SNAP_NONE);
        EXPECT_EQ(o->pool == SNAP_NONE ? 0 : a->pools[o->pool].id[1],
                  p->pool == SNAP_NONE ? 0 : b->pools[p->pool].id[1]);
        if (x->stack == SNAP_NONE)
            continue;
        const struct snap_frame *f = &a->frames[a->frame_ids[a->stacks[x->stack].first]];
        const struct snap_frame *g = &b->frames[b->frame_ids[b->stacks[y->stack].first]];
        EXPECT_STR_EQ(snapshot_string(a, f->name, NULL), snapshot_string(b, g->name, NULL));
        EXPECT_EQ(f->line, g->line);
    }
    for (size_t i = 0; i < a->segment_count; i++) {
        const struct snap_segment *x = &a->segments[i], *y = &b->segments[i];
        EXPECT(x->address == y->address && x->bytes == y->bytes && x->has == y->has &&
               x->first_block == y->first_block && x->block_count == y->block_count &&
               x->is_small == y->is_small && x->requested_bytes == y->requested_bytes);
    }
    for (size_t i = 0; i < a->block_count; i++)
        EXPECT(a->blocks[i].address == b->blocks[i].address &&
               a->blocks[i].state == b->blocks[i].state && a->blocks[i].has == b->blocks[i].has);
    EXPECT_EQ(b->annotations[0].time_us, -5);
    const struct snap_value *value = snapshot_setting(b, "garbage_collection_threshold");
    REQUIRE(value && value->kind == SNAP_REAL);
    EXPECT(value->as.real == 0.1);
}

TEST(both_formats_round_trip)
{
    static const char *const names[] = {"a.pickle", "a.json", "a.pickle.gz", "a.json.gz"};

    struct snapshot *snapshot = record(t_seed());
    for (int i = 0; i < 4; i++) {
        struct snapshot *back = NULL;
        const char *path = files_path(names[i]);
        acre_status status = snapshot_write(snapshot, path,
                                            i % 2 ? SNAPSHOT_JSON : SNAPSHOT_PICKLE);
        if (status == ACRE_ERR_UNSUPPORTED)
            continue;
        REQUIRE_OK(status);
        REQUIRE_OK(snapshot_read(path, &back));
        expect_same(snapshot, back);
        snapshot_destroy(back);
    }
    struct json *json = json_read_file(files_path("a.json"));
    REQUIRE(json);
    EXPECT_EQ(json_get(json, key_names[KEY_ACRE_SNAPSHOT])->number, JSON_VERSION);
    json_free(json);
    snapshot_destroy(snapshot);
}

TEST(a_file_appears_whole_or_not_at_all)
{
    struct snapshot *snapshot = record(1);
    struct stat facts;

    EXPECT_EQ(snapshot_write(snapshot, "/nowhere/a.json", SNAPSHOT_JSON), ACRE_ERR_IO);
    EXPECT_HAS(acre_last_error(), "/nowhere/a.json");
    EXPECT_EQ(snapshot_write(snapshot, "/dev/full", SNAPSHOT_JSON), ACRE_ERR_IO);
    EXPECT_HAS(acre_last_error(), "cannot write /dev/full: ");
    for (unsigned nth = 1;; nth++) {
        uint64_t live = heap_live_count();
        heap_fail_nth(nth);
        acre_status status = snapshot_write(snapshot, files_path("b.pickle"), SNAPSHOT_PICKLE);
        if (!heap_fail_disarm()) {
            EXPECT_EQ(status, ACRE_OK);
            break;
        }
        EXPECT_EQ(status, ACRE_ERR_HOST_MEMORY);
        EXPECT_EQ(heap_live_count(), live);
        EXPECT(stat(files_path("b.pickle"), &facts) != 0);
    }
    snapshot_destroy(snapshot);
}

T_MAIN()
