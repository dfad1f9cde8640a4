/* SPDX-License-Identifier: MIT */
/* What PyTorch refuses for plug-ins (B154) works without a cache on top as well: history,
 * snapshots, observers of failed requests. */
#include "cache/observe/plug_history.h"
#include "tests/support/files.h"
#include "tests/support/plug_bed.h"

#include <pthread.h>

static const acre_action whole_life[] = {ACRE_ACTION_SEGMENT_ALLOC, ACRE_ACTION_ALLOC,
                                         ACRE_ACTION_FREE_REQUESTED, ACRE_ACTION_FREE_COMPLETED,
                                         ACRE_ACTION_SEGMENT_FREE};

static acre_history *history_of_device(int device)
{
    acre_history *history;

    REQUIRE_OK(acre_pluggable_history_create(allocator, device, &history));
    return history;
}

TEST(B154_a_plugin_has_a_history)
{
    void *stream, *pointer, *other;

    start();
    stream = native_of(some_stream(1));
    REQUIRE_OK(acre_pluggable_history_start(allocator, 1, NULL));
    REQUIRE_OK(acre_pluggable_alloc(allocator, 1000, 1, stream, &pointer));
    REQUIRE_OK(acre_pluggable_alloc(allocator, 500, 0, NULL, &other));
    REQUIRE_OK(acre_pluggable_free(allocator, pointer));
    REQUIRE_OK(acre_pluggable_free(allocator, other));
    acre_history *history = history_of_device(1);
    REQUIRE_EQ(history->entry_count, 5);
    for (int i = 0; i < 5; i++) {
        EXPECT_EQ(history->entries[i].action, whole_life[i]);
        EXPECT_EQ(history->entries[i].address, (uintptr_t)pointer);
        EXPECT_EQ(history->entries[i].bytes, 1000);
        EXPECT_PTR_EQ(history->entries[i].stream, stream);
        EXPECT(i == 0 || history->entries[i].time_us >= history->entries[i - 1].time_us);
    }
    acre_history_destroy(history);
    history = history_of_device(0);
    EXPECT_EQ(history->entry_count, 0);
    acre_history_destroy(history);
    REQUIRE_OK(acre_pluggable_history_stop(allocator, 1));
    history = history_of_device(1);
    EXPECT_EQ(history->entry_count, 0);
    acre_history_destroy(history);
    stop();
}

/* Frames that tell whose they are. */
static uint64_t frame_now;

static size_t gather_one(void *arg, uint64_t *frames, size_t capacity)
{
    (void)arg;
    (void)capacity;
    frames[0] = frame_now;
    return 1;
}

static void resolve_number(void *arg, uint64_t frame, acre_frame *out)
{
    (void)arg;
    snprintf(out->name, sizeof out->name, "step_%d", (int)frame);
}

static const acre_context_source numbers = {gather_one, resolve_number, NULL};

TEST(stacks_of_allocations_and_frees_are_kept)
{
    const acre_history_config config = {.struct_size = sizeof config, .level = ACRE_CONTEXT_ALL,
                                        .max_entries = 100, .source = &numbers};
    void *pointer;

    start();
    REQUIRE_OK(acre_pluggable_history_start(allocator, 0, &config));
    frame_now = 1;
    REQUIRE_OK(acre_pluggable_alloc(allocator, 64, 0, NULL, &pointer));
    frame_now = 2;
    REQUIRE_OK(acre_pluggable_free(allocator, pointer));
    acre_history *history = history_of_device(0);
    REQUIRE_EQ(history->entry_count, 5);
    for (int i = 0; i < 5; i++) {
        const acre_stack *stack = &history->stacks[history->entries[i].stack];

        REQUIRE_EQ(stack->frame_count, 1);
        EXPECT_EQ(stack->frames[0], i < 2 ? 1 : 2);
    }
    acre_history_destroy(history);
    stop();
}

TEST(B154_a_plugin_has_snapshots)
{
    const acre_history_config config = {.struct_size = sizeof config, .level = ACRE_CONTEXT_ALLOC,
                                        .max_entries = 100, .source = &numbers};
    acre_snapshot_info info = {.struct_size = sizeof info};
    acre_replay_result result = {.struct_size = sizeof result};
    const char *path = files_path("plugged.pickle");
    acre_snapshot *snapshot;
    void *kept[3], *gone;

    start();
    REQUIRE_OK(acre_pluggable_alloc(allocator, 4096, 0, NULL, &kept[0]));
    REQUIRE_OK(acre_pluggable_history_start(allocator, 0, &config));
    REQUIRE_OK(acre_pluggable_alloc(allocator, 1 << 20, 0, NULL, &kept[1]));
    REQUIRE_OK(acre_pluggable_alloc(allocator, 3 << 20, 0, NULL, &gone));
    REQUIRE_OK(acre_pluggable_alloc(allocator, 512, 1, NULL, &kept[2]));
    REQUIRE_OK(acre_pluggable_free(allocator, gone));
    REQUIRE_OK(acre_pluggable_snapshot(allocator, &snapshot));
    REQUIRE_OK(acre_snapshot_check(snapshot));
    REQUIRE_OK(acre_snapshot_info_get(snapshot, &info));
    EXPECT_EQ(info.device_count, 2);
    EXPECT_EQ(info.segment_count, 3);
    EXPECT_EQ(info.event_count, 7);
    EXPECT_EQ(info.allocated_bytes, 4096 + (1 << 20) + 512);
    REQUIRE_OK(acre_snapshot_write(snapshot, path, ACRE_SNAPSHOT_PICKLE));
    acre_snapshot_close(snapshot);
    REQUIRE_OK(acre_replay(path, NULL, &result));
    EXPECT_EQ(result.start_allocs, 1);
    EXPECT_EQ(result.first.allocs, 3);
    for (int i = 0; i < 3; i++)
        REQUIRE_OK(acre_pluggable_free(allocator, kept[i]));
    stop();
}

struct failure {
    int count, device;
    uint64_t bytes, limit;
};

static void note_failure(void *arg, int device, uint64_t bytes, uint64_t limit_bytes,
                         uint64_t free_bytes)
{
    struct failure *failure = arg;

    (void)free_bytes;
    failure->count++;
    failure->device = device;
    failure->bytes = bytes;
    failure->limit = limit_bytes;
    acre_pluggable_oom_observer_remove(allocator, note_failure, arg); /* no lock is held */
}

TEST(B154_observers_hear_of_failed_requests)
{
    struct failure failure = {.count = 0};
    void *pointer;

    start();
    REQUIRE_OK(acre_pluggable_history_start(allocator, 1, NULL));
    REQUIRE_OK(acre_pluggable_oom_observer_add(allocator, note_failure, &failure));
    REQUIRE_OK(acre_pluggable_memory_fraction_set(allocator, 1, 0.5));
    EXPECT_EQ(acre_pluggable_alloc(allocator, 48 << 20, 1, NULL, &pointer),
              ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "raise the memory fraction");
    EXPECT_EQ(failure.count, 1);
    EXPECT_EQ(failure.device, 1);
    EXPECT_EQ(failure.bytes, 48 << 20);
    EXPECT_EQ(failure.limit, 32 << 20);
    EXPECT_EQ(acre_pluggable_alloc(allocator, 48 << 20, 1, NULL, &pointer),
              ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(failure.count, 1);
    acre_history *history = history_of_device(1);
    REQUIRE_EQ(history->entry_count, 2);
    EXPECT_EQ(history->entries[0].action, ACRE_ACTION_OOM);
    EXPECT_EQ(history->entries[0].bytes, 48 << 20);
    acre_history_destroy(history);
    stop();
}

TEST(what_is_no_plugin_or_no_device_is_refused)
{
    acre_snapshot *snapshot;
    acre_history *history;

    start();
    EXPECT_EQ(acre_pluggable_history_start(allocator, 2, NULL), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_pluggable_history_stop(allocator, -1), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_pluggable_history_create(allocator, 2, &history), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_pluggable_history_create(allocator, 0, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_pluggable_snapshot(allocator, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_pluggable_snapshot(NULL, &snapshot), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_pluggable_history_start(NULL, 0, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_pluggable_oom_observer_add(allocator, NULL, NULL), ACRE_ERR_INVALID);
    acre_pluggable_oom_observer_remove(NULL, NULL, NULL);
    stop();
}

TEST(every_host_allocation_of_history_may_fail)
{
    struct failure failure = {.count = 0};

    start();
    bool is_hit = true;
    for (unsigned nth = 1; is_hit; nth++) {
        acre_snapshot *snapshot = NULL;

        heap_fail_nth(nth);
        acre_status status = acre_pluggable_history_start(allocator, 0, NULL);
        if (status == ACRE_OK)
            status = acre_pluggable_oom_observer_add(allocator, note_failure, &failure);
        if (status == ACRE_OK)
            status = acre_pluggable_snapshot(allocator, &snapshot);
        is_hit = heap_fail_disarm();
        EXPECT_EQ(status, is_hit ? ACRE_ERR_HOST_MEMORY : ACRE_OK);
        acre_snapshot_close(snapshot);
        acre_pluggable_oom_observer_remove(allocator, note_failure, &failure);
        REQUIRE(nth < 1000);
    }
    stop();
}

static void *allocate_and_free(void *arg)
{
    void *pointer;

    for (uint64_t i = t_count(200, 20000); i; i--) {
        EXPECT_EQ(acre_pluggable_alloc(allocator, 64 + i, (int)(uintptr_t)arg, NULL, &pointer),
                  ACRE_OK);
        EXPECT_EQ(acre_pluggable_free(allocator, pointer), ACRE_OK);
    }
    return NULL;
}

TEST(threads_record_while_history_is_switched)
{
    pthread_t threads[4];

    start();
    for (uintptr_t i = 0; i < 4; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, allocate_and_free, (void *)(i % 2)), 0);
    for (uint64_t i = t_count(20, 500); i; i--) {
        REQUIRE_OK(acre_pluggable_history_start(allocator, (int)(i % 2), NULL));
        acre_history_destroy(history_of_device((int)(i % 2)));
        REQUIRE_OK(acre_pluggable_history_stop(allocator, (int)(i % 2)));
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    stop();
}

T_MAIN()
