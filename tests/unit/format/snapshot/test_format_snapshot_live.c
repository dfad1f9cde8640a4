/* SPDX-License-Identifier: MIT */
/* Snapshots of live caches: schema, consistency, what an OOM writes. */
#include "backend/backend.h"
#include "cache/cache.h"
#include "format/snapshot/snapshot.h"
#include "tests/support/files.h"
#include "tests/support/lab.h"

#include <acre/history.h>
#include <acre/pool.h>

#include <unistd.h>

static void start(struct lab *lab, acre_context_level level)
{
    acre_history_config config = {.struct_size = sizeof config, .level = level,
                                  .max_entries = ACRE_HISTORY_UNBOUNDED};

    REQUIRE_OK(acre_cache_history_start(lab->cache, &config));
}

static struct snapshot *take(struct lab *lab, const acre_snapshot_choice *choice)
{
    acre_snapshot *snapshot;

    REQUIRE_OK(acre_cache_snapshot(&lab->cache, 1, choice, &snapshot));
    REQUIRE_OK(acre_snapshot_check(snapshot));
    return (struct snapshot *)snapshot;
}

TEST(B117_a_snapshot_appears_in_the_next_one)
{
    struct lab lab;

    lab_open(&lab, NULL);
    start(&lab, ACRE_CONTEXT_NEVER);
    void *a = lab_alloc(&lab, 1000);
    struct snapshot *first = take(&lab, NULL), *second = take(&lab, NULL);
    EXPECT_EQ(first->entry_count, 2);
    REQUIRE_EQ(second->entry_count, 3);
    EXPECT_EQ(second->entries[2].action, SNAP_SNAPSHOT);
    EXPECT_EQ(second->entries[2].bytes, 1024);
    EXPECT_EQ(second->entries[2].address, 0);
    snapshot_destroy(first);
    snapshot_destroy(second);
    lab_free(&lab, a);
    lab_close(&lab);
}

TEST(B123_without_history_the_segments_are_the_same)
{
    struct lab lab;
    acre_snapshot_choice choice = {.struct_size = sizeof choice, .no_history = 1};

    lab_open(&lab, NULL);
    start(&lab, ACRE_CONTEXT_NEVER);
    void *a = lab_alloc(&lab, 1000), *b = lab_alloc(&lab, 3 * MIB);
    struct snapshot *whole = take(&lab, NULL), *bare = take(&lab, &choice);
    EXPECT_EQ(bare->entry_count, 0);
    EXPECT_EQ(bare->trace_count, 0);
    REQUIRE_EQ(bare->segment_count, 2);
    REQUIRE_EQ(whole->segment_count, 2);
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(bare->segments[i].address, whole->segments[i].address);
        EXPECT_EQ(bare->segments[i].active_bytes, whole->segments[i].active_bytes);
        EXPECT_EQ(bare->segments[i].block_count, whole->segments[i].block_count);
    }
    snapshot_destroy(whole);
    snapshot_destroy(bare);
    lab_free(&lab, a);
    lab_free(&lab, b);
    lab_close(&lab);
}

TEST(B124_segments_by_address_with_their_pool)
{
    struct lab lab;
    struct fake_config device = {.is_descending = true};
    acre_pool_id id = acre_pool_id_next();

    lab_open_with(&lab, &device, NULL);
    start(&lab, ACRE_CONTEXT_NEVER);
    REQUIRE_OK(acre_pool_create(lab.cache, id, NULL));
    void *a = lab_alloc(&lab, 1000);
    REQUIRE_OK(acre_pool_begin(lab.cache, id, NULL));
    void *b = lab_alloc(&lab, 1000);
    REQUIRE_OK(acre_pool_end(lab.cache, id));
    struct snapshot *snapshot = take(&lab, NULL);
    REQUIRE_EQ(snapshot->segment_count, 2);
    EXPECT_LT(snapshot->segments[0].address, snapshot->segments[1].address);
    EXPECT_EQ(snapshot->pools[snapshot->segments[0].pool].id[1], id.user);
    EXPECT_EQ(snapshot->pools[snapshot->segments[1].pool].id[1], 0);
    const struct snap_entry *last = &snapshot->entries[snapshot->entry_count - 1];
    EXPECT_EQ(last->action, SNAP_ALLOC);
    EXPECT_EQ(snapshot->pools[snapshot_origin(snapshot, last)->pool].id[1], id.user);
    snapshot_destroy(snapshot);

    acre_snapshot_choice choice = {.struct_size = sizeof choice, .pool = {id.graph, id.user}};
    snapshot = take(&lab, &choice);
    EXPECT_EQ(snapshot->segment_count, 1);
    snapshot_destroy(snapshot);
    choice.pool[1] = 999; /* B90: of an unknown pool there is nothing */
    snapshot = take(&lab, &choice);
    EXPECT_EQ(snapshot->segment_count, 0);
    snapshot_destroy(snapshot);
    lab_free(&lab, a);
    lab_free(&lab, b);
    REQUIRE_OK(acre_pool_release(lab.cache, id));
    REQUIRE_OK(acre_cache_empty(lab.cache));
    lab_close(&lab);
}

TEST(B125_B126_states_and_frames)
{
    struct lab lab;
    struct fake_config device = {0};

    lab_open_with(&lab, &device, NULL);
    start(&lab, ACRE_CONTEXT_NEVER);
    void *a = lab_alloc(&lab, 512), *b = lab_alloc(&lab, 512);
    REQUIRE_OK(acre_cache_record_stream(lab.cache, b, fake_stream(1)));
    lab_free(&lab, b);
    struct snapshot *snapshot = take(&lab, NULL);
    REQUIRE_EQ(snapshot->block_count, 3);
    EXPECT_STR_EQ(snapshot_state_name(snapshot->blocks[0].state), "active_allocated");
    EXPECT_STR_EQ(snapshot_state_name(snapshot->blocks[1].state), "active_pending_free");
    EXPECT_STR_EQ(snapshot_state_name(snapshot->blocks[2].state), "inactive");
    for (size_t i = 0; i < snapshot->entry_count; i++)
        EXPECT(!(snapshot->entries[i].has & SNAP_HAS_FRAMES));
    EXPECT(snapshot->blocks[0].has & SNAP_HAS_FRAMES);
    EXPECT_EQ(snapshot->stacks[snapshot->blocks[0].stack].count, 0);
    snapshot_destroy(snapshot);
    fake_finish(lab.fake, fake_stream(1));
    lab_free(&lab, a);
    lab_close(&lab);
}

TEST(W12_a_segment_keeps_its_stack)
{
    struct lab lab;

    lab_open(&lab, NULL);
    start(&lab, ACRE_CONTEXT_STATE);
    void *a = lab_alloc(&lab, 512), *b = lab_alloc(&lab, 512);
    lab_free(&lab, a);
    struct snapshot *snapshot = take(&lab, NULL);
    REQUIRE_EQ(snapshot->segment_count, 1);
    EXPECT_GT(snapshot->stacks[snapshot->segments[0].stack].count, 0);
    EXPECT_EQ(snapshot->stacks[snapshot->blocks[0].stack].count, 0);
    EXPECT_GT(snapshot->stacks[snapshot->blocks[1].stack].count, 0);
    snapshot_destroy(snapshot);
    lab_free(&lab, b);
    lab_close(&lab);
}

/* The law of section 8.5 between a snapshot and the statistics. */
static void check_law(struct lab *lab)
{
    struct snapshot *snapshot = take(lab, NULL);
    int64_t reserved = 0, allocated = 0, active = 0, requested = 0, segments = 0;
    int64_t split = 0, split_bytes = 0;

    for (size_t i = 0; i < snapshot->segment_count; i++) {
        const struct snap_segment *segment = &snapshot->segments[i];
        reserved += (int64_t)segment->bytes;
        allocated += (int64_t)segment->allocated_bytes;
        active += (int64_t)segment->active_bytes;
        requested += (int64_t)segment->requested_bytes;
        segments += !segment->is_expandable;
        for (uint64_t k = 0; k < segment->block_count; k++) {
            const struct snap_block *block = &snapshot->blocks[segment->first_block + k];
            bool is_split = block->state == SNAP_INACTIVE && segment->block_count > 1 &&
                            !segment->is_expandable;
            split += is_split;
            split_bytes += is_split ? (int64_t)block->bytes : 0;
        }
    }
    snapshot_destroy(snapshot);
    REQUIRE_EQ(reserved, CURRENT(lab, reserved_bytes));
    REQUIRE_EQ(allocated, CURRENT(lab, allocated_bytes));
    REQUIRE_EQ(active, CURRENT(lab, active_bytes));
    REQUIRE_EQ(requested, CURRENT(lab, requested_bytes));
    REQUIRE_EQ(segments, CURRENT(lab, segment));
    REQUIRE_EQ(split, CURRENT(lab, inactive_split));
    REQUIRE_EQ(split_bytes, CURRENT(lab, inactive_split_bytes));
}

static void random_walk(struct lab *lab)
{
    uint64_t state = t_seed();
    void *held[40] = {0};

    for (uint64_t i = 0; i < t_count(400, 20000); i++) {
        void **slot = &held[t_random(&state) % 40];
        if (*slot)
            lab_free(lab, *slot);
        size_t bytes = (size_t)1 << (9 + t_random(&state) % 16);
        *slot = t_random(&state) % 3
                    ? lab_alloc_on(lab, 1 + t_random(&state) % bytes, (int)(state % 3))
                    : NULL;
        if (i % 10 == 0)
            check_law(lab);
        if (i % 100 == 99)
            REQUIRE_OK(acre_cache_empty(lab->cache));
    }
    for (int i = 0; i < 40; i++)
        if (held[i])
            lab_free(lab, held[i]);
    check_law(lab);
}

TEST(B127_sums_agree_with_statistics)
{
    struct lab lab;

    lab_open(&lab, NULL);
    random_walk(&lab);
    lab_close(&lab);
}

TEST(B127_with_expandable_segments)
{
    struct lab lab;
    struct fake_config device = {.page_bytes = 2 * MIB};
    acre_cache_config config = {.struct_size = sizeof config, .policy = ACRE_POLICY_TORCH,
                                .conf = "expandable_segments:True",
                                .flags = ACRE_CACHE_NO_ENVIRONMENT};

    lab_open_with(&lab, &device, &config);
    random_walk(&lab);
    lab_close(&lab);
}

TEST(B128_divisions_have_sixteen_keys)
{
    struct lab lab;

    lab_open(&lab, "roundup_power2_divisions:[256:1,512:2,1024:4,>:8]");
    struct snapshot *snapshot = take(&lab, NULL);
    const struct snap_value *value = snapshot_setting(snapshot, "roundup_power2_divisions");
    REQUIRE(value && value->kind == SNAP_DICT);
    int count = 0;
    for (uint32_t i = value->as.child; i != SNAP_NONE; i = snapshot->values[i].next) {
        char key[16];
        snprintf(key, sizeof key, "%d", 1 << count++);
        EXPECT_STR_EQ(snapshot_string(snapshot, snapshot->values[i].key, NULL), key);
    }
    EXPECT_EQ(count, 16);
    value = snapshot_setting(snapshot, "max_split_size");
    REQUIRE(value);
    EXPECT_EQ(value->as.integer, -1);
    snapshot_destroy(snapshot);
    lab_close(&lab);
}

/* Opens a cache that writes to path when memory runs out, and makes it run out. */
static void run_out(struct lab *lab, const char *path)
{
    char conf[300];

    snprintf(conf, sizeof conf, "snapshot_on_oom:%s", path);
    lab_open(lab, conf);
    lab_limit(lab, 100 * MIB);
    start(lab, ACRE_CONTEXT_NEVER);
    void *a = lab_alloc(lab, 3 * MIB);
    EXPECT_EQ(lab_try(lab, 101 * MIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "out of memory");
    lab_free(lab, a);
}

TEST(an_oom_writes_a_snapshot_that_can_be_read)
{
    static const char *const names[] = {"oom.pickle", "oom.json", "oom.pickle.gz"};
    for (int i = 0; i < 3; i++) {
        struct lab lab;
        struct snapshot *snapshot;
        const char *path = files_path(names[i]);
        run_out(&lab, path);
        acre_status status = snapshot_read(path, &snapshot);
        unlink(path);
        if (status == ACRE_ERR_IO && i == 2)
            T_SKIP("this build has no zlib");
        REQUIRE_OK(status);
        EXPECT_EQ(snapshot->segment_count, 1);
        EXPECT_EQ(snapshot->entries[snapshot->entry_count - 1].action, SNAP_OOM);
        snapshot_destroy(snapshot);
        lab_close(&lab);
    }
}

TEST(a_snapshot_that_cannot_be_written_does_not_hide_the_error)
{
    struct lab lab;

    run_out(&lab, "/nowhere/at/all/oom.pickle");
    lab_close(&lab);
}

TEST(wrong_arguments_are_refused)
{
    struct lab lab;
    acre_snapshot *snapshot;
    acre_snapshot_choice choice = {0};

    lab_open(&lab, NULL);
    acre_cache *twice[] = {lab.cache, lab.cache}, *none[] = {NULL};
    EXPECT_EQ(acre_cache_snapshot(twice, 2, NULL, &snapshot), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_snapshot(none, 1, NULL, &snapshot), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_snapshot(twice, 0, NULL, &snapshot), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_snapshot(twice, 1, &choice, &snapshot), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_cache_snapshot(twice, 1, NULL, NULL), ACRE_ERR_INVALID);
    lab_close(&lab);
}

/* ---- Objects behind entries -------------------------------------------------------- */

static int references, resolved;

static void *object_take(void *arg)
{
    references++;
    return arg;
}

static void object_retain(void *arg, void *object)
{
    (void)arg;
    (void)object;
    references++;
}

static void object_release(void *arg, void *object)
{
    (void)arg;
    (void)object;
    references--;
}

static size_t object_resolve(void *arg, void *object, acre_frame *out, size_t capacity)
{
    EXPECT_PTR_EQ(arg, object);
    EXPECT_GE(capacity, 2);
    out[0] = (acre_frame){.name = "inner", .file = "o.py", .line = 3};
    out[1] = (acre_frame){.name = "outer", .file = "o.py", .line = 7};
    resolved++;
    return 2;
}

TEST(frames_of_objects_are_named_once_and_the_objects_go_back)
{
    struct lab lab;
    acre_context_objects objects = {object_take, object_retain, object_release, object_resolve,
                                    &references};
    acre_history_config config = {.struct_size = sizeof config, .level = ACRE_CONTEXT_ALL,
                                  .max_entries = 100, .objects = &objects};

    lab_open(&lab, NULL);
    REQUIRE_OK(acre_cache_history_start(lab.cache, &config));
    void *a = lab_alloc(&lab, 1000), *b = lab_alloc(&lab, 1000);
    lab_free(&lab, a);
    struct snapshot *snapshot = take(&lab, NULL);
    EXPECT_EQ(resolved, 1);
    for (size_t i = 0; i < snapshot->entry_count; i++) {
        const struct snap_run *run = &snapshot->stacks[snapshot->entries[i].stack];
        REQUIRE_EQ(run->count, 2);
        const struct snap_frame *inner = &snapshot->frames[snapshot->frame_ids[run->first]];
        EXPECT_STR_EQ(snapshot_string(snapshot, inner->name, NULL), "inner");
        EXPECT_EQ(inner->line, 3);
    }
    snapshot_destroy(snapshot);
    objects.resolve = NULL; /* then there are entries without frames */
    REQUIRE_OK(acre_cache_history_start(lab.cache, &config));
    lab_free(&lab, b);
    snapshot = take(&lab, NULL);
    EXPECT_EQ(resolved, 1);
    snapshot_destroy(snapshot);
    acre_cache_history_stop(lab.cache);
    EXPECT_EQ(references, 0);
    lab_close(&lab);
}

T_MAIN()
