/* SPDX-License-Identifier: MIT */
/* History of a cache of policy torch on a fake device: what is recorded, in which
 * order, with which texts and stacks. */
#include "base/heap.h"
#include "cache/observe/history.h"
#include "cache/observe/record.h"
#include "tests/support/lab.h"

#include <acre/history.h>

#include <stdlib.h>
#include <string.h>

/* Starts with a bound and a level; the source counts. */
static uint64_t next_frame;

static size_t source_gather(void *arg, uint64_t *frames, size_t capacity)
{
    (void)arg;
    (void)capacity;
    frames[0] = ++next_frame;
    frames[1] = 1000;
    return 2;
}

static void source_resolve(void *arg, uint64_t frame, acre_frame *out)
{
    (void)arg;
    *out = (acre_frame){.name = "f", .file = "x.c", .line = (int32_t)frame};
}

static const acre_context_source source = {source_gather, source_resolve, NULL};

static void start(struct lab *lab, uint64_t max, acre_context_level level, const char *skip)
{
    acre_history_config config = {.struct_size = sizeof config, .max_entries = max,
                                  .level = level, .source = &source, .skip_actions = skip};

    REQUIRE_OK(acre_cache_history_start(lab->cache, &config));
}

/* "alloc 1000,free_requested 1000" of all entries, oldest first. */
static const char *said(struct lab *lab)
{
    static char text[4096];
    acre_history *history;
    size_t at = 0;

    REQUIRE_OK(acre_cache_history_create(lab->cache, &history));
    text[0] = 0;
    for (uint64_t i = 0; i < history->entry_count; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%s %llu", i ? "," : "",
                               acre_action_name(history->entries[i].action),
                               (unsigned long long)history->entries[i].bytes);
    acre_history_destroy(history);
    return text;
}

TEST(B114_order_and_sizes)
{
    struct lab lab;

    lab_open(&lab, NULL);
    start(&lab, 100, ACRE_CONTEXT_NEVER, NULL);
    void *a = lab_alloc(&lab, 1000), *b = lab_alloc(&lab, 3 * MIB);
    EXPECT_STR_EQ(said(&lab), "segment_alloc 2097152,alloc 1000,segment_alloc 20971520,"
                              "alloc 3145728");
    lab_free(&lab, a);
    lab_free(&lab, b);
    lab_close(&lab);
}

TEST(B115_a_ring_of_four)
{
    struct lab lab;

    lab_open(&lab, NULL);
    start(&lab, 4, ACRE_CONTEXT_NEVER, NULL);
    for (int i = 0; i < 3; i++)
        lab_free(&lab, lab_alloc(&lab, 512));
    EXPECT_STR_EQ(said(&lab), "free_completed 512,alloc 512,free_requested 512,"
                              "free_completed 512");
    lab_close(&lab);
}

TEST(B116_no_entries_is_one)
{
    struct lab lab;

    lab_open(&lab, NULL);
    start(&lab, 0, ACRE_CONTEXT_NEVER, NULL);
    void *a = lab_alloc(&lab, 700);
    EXPECT_STR_EQ(said(&lab), "alloc 700");
    lab_free(&lab, a);
    lab_close(&lab);
}

TEST(W3_resizing_keeps_order)
{
    struct lab lab;
    void *all[8];

    lab_open(&lab, NULL);
    start(&lab, 4, ACRE_CONTEXT_NEVER, NULL);
    for (int i = 0; i < 6; i++)
        all[i] = lab_alloc(&lab, (size_t)(i + 1) * 100);
    start(&lab, 2, ACRE_CONTEXT_NEVER, NULL);
    EXPECT_STR_EQ(said(&lab), "alloc 500,alloc 600");
    start(&lab, 5, ACRE_CONTEXT_NEVER, NULL);
    all[6] = lab_alloc(&lab, 700);
    all[7] = lab_alloc(&lab, 800);
    EXPECT_STR_EQ(said(&lab), "alloc 500,alloc 600,alloc 700,alloc 800");
    for (int i = 0; i < 8; i++)
        lab_free(&lab, all[i]);
    lab_close(&lab);
}

static uint64_t tracked;

static void track(void *arg, const acre_history_entry *entry)
{
    (void)entry;
    ++*(uint64_t *)arg;
}

TEST(B118_skipped_actions_are_not_kept_but_tracked)
{
    struct lab lab;

    lab_open(&lab, NULL);
    tracked = 0;
    start(&lab, 100, ACRE_CONTEXT_NEVER, "free_requested,segment_alloc");
    REQUIRE_OK(acre_cache_tracker_add(lab.cache, track, &tracked));
    lab_free(&lab, lab_alloc(&lab, 512));
    EXPECT_STR_EQ(said(&lab), "alloc 512,free_completed 512");
    EXPECT_EQ(tracked, 4);
    acre_cache_tracker_remove(lab.cache, track, &tracked);
    lab_free(&lab, lab_alloc(&lab, 512));
    EXPECT_EQ(tracked, 4);
    lab_close(&lab);
}

TEST(B118_an_unknown_action_is_refused_and_nothing_starts)
{
    struct lab lab;
    acre_history_config config = {.struct_size = sizeof config, .skip_actions = "alloc,frei"};

    lab_open(&lab, NULL);
    EXPECT_EQ(acre_cache_history_start(lab.cache, &config), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "\"frei\"");
    EXPECT(!acre_cache_history_is_on(lab.cache));
    lab_close(&lab);
}

/* Number of the first frame of entry i's stack, or 0. */
static uint64_t frame_of(const acre_history *history, uint64_t i)
{
    const acre_stack *stack = &history->stacks[history->entries[i].stack];

    return stack->frame_count ? stack->frames[0] : 0;
}

/* Entries: segment_alloc, alloc, free_requested, free_completed. */
static void record_one(struct lab *lab, acre_context_level level, uint64_t frames[4],
                       uint64_t *of_block)
{
    acre_history *history;
    uint64_t words[4] = {0};

    lab_open(lab, NULL);
    next_frame = 0;
    start(lab, 100, level, NULL);
    void *a = lab_alloc(lab, 512);
    *of_block = acre_cache_stack_of(lab->cache, a, words, 4) ? words[0] : 0;
    lab_free(lab, a);
    REQUIRE_OK(acre_cache_history_create(lab->cache, &history));
    REQUIRE_EQ(history->entry_count, 4);
    for (uint64_t i = 0; i < 4; i++)
        frames[i] = frame_of(history, i);
    acre_history_destroy(history);
    lab_close(lab);
}

TEST(B119_levels_of_context)
{
    struct lab lab;
    uint64_t frames[4], block;

    record_one(&lab, ACRE_CONTEXT_NEVER, frames, &block);
    EXPECT(!block && !frames[0] && !frames[1] && !frames[2] && !frames[3]);
    record_one(&lab, ACRE_CONTEXT_STATE, frames, &block);
    EXPECT(block == 1 && !frames[0] && !frames[1] && !frames[2] && !frames[3]);
    record_one(&lab, ACRE_CONTEXT_ALLOC, frames, &block);
    EXPECT(block == 1 && frames[0] == 1 && frames[1] == 1 && frames[2] == 1 && frames[3] == 1);
    record_one(&lab, ACRE_CONTEXT_ALL, frames, &block);
    EXPECT(block == 1 && frames[0] == 1 && frames[1] == 1 && frames[2] == 2 && frames[3] == 2);
}

TEST(B120_texts_of_the_thread)
{
    struct lab lab;
    acre_history *history;

    /* Texts are kept for good: known before the heap is compared. */
    REQUIRE_OK(acre_history_metadata_set("phase a"));
    REQUIRE_OK(acre_history_metadata_set(NULL));
    lab_open(&lab, NULL);
    REQUIRE_OK(acre_history_compile_push("ignored while nothing records"));
    start(&lab, 100, ACRE_CONTEXT_NEVER, NULL);
    void *a = lab_alloc(&lab, 512);
    REQUIRE_OK(acre_history_metadata_set("phase a"));
    void *b = lab_alloc(&lab, 512);
    acre_history_compile_pop();
    REQUIRE_OK(acre_history_metadata_set(""));
    EXPECT_STR_EQ(acre_history_metadata_get(), "");
    REQUIRE_OK(acre_cache_history_create(lab.cache, &history));
    REQUIRE_EQ(history->entry_count, 3);
    EXPECT_STR_EQ(history->entries[1].user_metadata, "");
    EXPECT_STR_EQ(history->entries[1].compile_context, "N/A");
    EXPECT_STR_EQ(history->entries[2].user_metadata, "phase a");
    EXPECT_GE(history->entries[2].time_us, history->entries[1].time_us);
    acre_history_destroy(history);
    lab_free(&lab, a);
    lab_free(&lab, b);
    lab_close(&lab);
}

TEST(B121_stopping_forgets_and_annotations_need_a_history)
{
    struct lab lab;
    acre_history *history;
    const char *const pairs[] = {"name", "step", "stage", "START"};

    lab_open(&lab, NULL);
    REQUIRE_OK(acre_cache_annotate(lab.cache, pairs, 2));
    start(&lab, 100, ACRE_CONTEXT_NEVER, NULL);
    REQUIRE_OK(acre_cache_annotate(lab.cache, pairs, 2));
    lab_free(&lab, lab_alloc(&lab, 512));
    REQUIRE_OK(acre_cache_history_create(lab.cache, &history));
    REQUIRE_EQ(history->annotation_count, 1);
    EXPECT_STR_EQ(history->annotations[0].pairs[3], "START");
    acre_history_destroy(history);
    acre_cache_history_stop(lab.cache);
    REQUIRE_OK(acre_cache_annotate(lab.cache, pairs, 2));
    REQUIRE_OK(acre_cache_history_create(lab.cache, &history));
    EXPECT_EQ(history->entry_count, 0);
    EXPECT_EQ(history->annotation_count, 0);
    acre_history_destroy(history);
    lab_close(&lab);
}

TEST(B122_a_tracker_needs_no_history)
{
    struct lab lab;

    lab_open(&lab, NULL);
    tracked = 0;
    REQUIRE_OK(acre_cache_tracker_add(lab.cache, track, &tracked));
    lab_free(&lab, lab_alloc(&lab, 512));
    EXPECT_EQ(tracked, 4);
    EXPECT_STR_EQ(said(&lab), "");
    lab_close(&lab);
}

TEST(B56_what_is_freed_comes_before_the_oom)
{
    struct lab lab;
    acre_history *history;

    lab_open(&lab, NULL);
    lab_limit(&lab, 100 * MIB);
    LAB_CACHE(&lab, 60);
    start(&lab, 100, ACRE_CONTEXT_NEVER, NULL);
    EXPECT_EQ(lab_try(&lab, 101 * MIB), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_STR_EQ(said(&lab), "segment_free 62914560,oom 105906176");
    REQUIRE_OK(acre_cache_history_create(lab.cache, &history));
    EXPECT_EQ(history->entries[1].address, 8 * GIB);
    acre_history_destroy(history);
    lab_close(&lab);
}

TEST(B70_growth_of_an_expandable_segment)
{
    struct lab lab;
    struct fake_config device = {.page_bytes = 2 * MIB};
    acre_cache_config config = {.struct_size = sizeof config, .policy = ACRE_POLICY_TORCH,
                                .conf = "expandable_segments:True",
                                .flags = ACRE_CACHE_NO_ENVIRONMENT};

    lab_open_with(&lab, &device, &config);
    start(&lab, 100, ACRE_CONTEXT_NEVER, NULL);
    void *a = lab_alloc(&lab, 30 * MIB);
    EXPECT_STR_EQ(said(&lab), "segment_map 41943040,alloc 31457280");
    lab_free(&lab, a);
    lab_close(&lab);
}

TEST(B129_an_exact_address_is_told_in_the_metadata)
{
    struct lab lab;
    acre_history *history;

    /* Texts are kept for good: known before the heap is compared. */
    REQUIRE_OK(acre_history_metadata_set("mallocWithAddress"));
    REQUIRE_OK(acre_history_metadata_set(NULL));
    lab_open(&lab, NULL);
    start(&lab, 100, ACRE_CONTEXT_NEVER, NULL);
    char *a = lab_alloc(&lab, 512);
    lab_free(&lab, a);
    REQUIRE_OK(acre_cache_alloc_at(lab.cache, 512, NULL, a + 4096));
    EXPECT_STR_EQ(said(&lab), "segment_alloc 2097152,alloc 512,free_requested 512,"
                              "free_completed 512,alloc 4096,alloc 512,free_requested 4096,"
                              "free_completed 4096");
    REQUIRE_OK(acre_cache_history_create(lab.cache, &history));
    EXPECT_STR_EQ(history->entries[1].user_metadata, "");
    EXPECT_STR_EQ(history->entries[4].user_metadata, "mallocWithAddress");
    acre_history_destroy(history);
    EXPECT_STR_EQ(acre_history_metadata_get(), "");
    lab_free(&lab, a + 4096);
    lab_close(&lab);
}

TEST(stacks_are_forgotten_with_the_history)
{
    struct lab lab;
    uint64_t frame;

    lab_open(&lab, NULL);
    start(&lab, 100, ACRE_CONTEXT_STATE, NULL);
    void *a = lab_alloc(&lab, 512);
    EXPECT_EQ(acre_cache_stack_of(lab.cache, a, &frame, 1), 2);
    acre_cache_history_stop(lab.cache);
    EXPECT_EQ(acre_cache_stack_of(lab.cache, a, &frame, 1), 0);
    lab_free(&lab, a);
    a = lab_alloc(&lab, 512);
    EXPECT_EQ(acre_cache_stack_of(lab.cache, a, &frame, 1), 0);
    lab_free(&lab, a);
    lab_close(&lab);
}

TEST(the_native_stack_names_this_program)
{
    const acre_context_source *native = acre_context_native();
    uint64_t frames[ACRE_STACK_MAX];
    acre_frame frame;

    size_t count = native->gather(native->arg, frames, ACRE_STACK_MAX);
    REQUIRE(count >= 2);
    native->resolve(native->arg, frames[count - 1], &frame);
    EXPECT_HAS(frame.file, "test_cache_record");
    EXPECT_EQ(native->gather(native->arg, frames, 1), 1);
}

/* ---- Objects behind entries ---------------------------------------------------- */

/* An object of the user; taken is how many there were, alive how many are left. */
struct object {
    int references;
    int number;
};

static int objects_taken, objects_alive;

static void *object_take(void *arg)
{
    struct object *object = malloc(sizeof *object);

    (void)arg;
    REQUIRE(object);
    *object = (struct object){1, ++objects_taken};
    objects_alive++;
    return object;
}

static void object_retain(void *arg, void *pointer)
{
    struct object *object = pointer;

    (void)arg;
    REQUIRE(object->references > 0);
    object->references++;
}

static void object_release(void *arg, void *pointer)
{
    struct object *object = pointer;

    (void)arg;
    REQUIRE(object->references > 0);
    if (--object->references == 0) {
        objects_alive--;
        free(object);
    }
}

static size_t object_resolve(void *arg, void *pointer, acre_frame *out, size_t capacity)
{
    const struct object *object = pointer;

    (void)arg;
    REQUIRE(capacity >= 2);
    out[0] = (acre_frame){.name = "inner", .file = "o.py", .line = object->number};
    out[1] = (acre_frame){.name = "outer", .file = "o.py", .line = 7};
    return 2;
}

static const acre_context_objects objects = {object_take, object_retain, object_release,
                                             object_resolve, NULL};

static void start_with_objects(struct lab *lab, uint64_t max, acre_context_level level)
{
    acre_history_config config = {.struct_size = sizeof config, .max_entries = max,
                                  .level = level, .objects = &objects};

    REQUIRE_OK(acre_cache_history_start(lab->cache, &config));
}

/* The number of the object behind an entry; 0: none. */
static int object_of(const acre_history *history, uint64_t entry)
{
    const struct object *object = history->objects[history->entries[entry].stack];

    return object ? object->number : 0;
}

TEST(an_entry_carries_the_object_that_was_taken_for_it)
{
    struct lab lab;
    acre_history *history;

    objects_taken = 0;
    lab_open(&lab, NULL);
    start_with_objects(&lab, 100, ACRE_CONTEXT_ALL);
    void *a = lab_alloc(&lab, 1000), *b = lab_alloc(&lab, 1000);
    lab_free(&lab, a);
    REQUIRE_OK(acre_cache_history_create(lab.cache, &history));
    REQUIRE_EQ(history->entry_count, 5); /* segment, alloc, alloc, and two of a free */
    EXPECT_EQ(object_of(history, 0), 1);
    EXPECT_EQ(object_of(history, 1), 1);
    EXPECT_EQ(object_of(history, 2), 2);
    EXPECT_EQ(object_of(history, 3), 3);
    EXPECT_EQ(object_of(history, 4), 3);
    acre_cache_history_stop(lab.cache);
    EXPECT_EQ(objects_alive, 3); /* the copy has them */
    EXPECT_EQ(object_of(history, 2), 2);
    acre_history_destroy(history);
    EXPECT_EQ(objects_alive, 0);
    lab_free(&lab, b);
    lab_close(&lab);
}

TEST(below_level_all_a_free_shows_the_object_of_its_allocation)
{
    struct lab lab;
    acre_history *history;

    objects_taken = 0;
    lab_open(&lab, NULL);
    start_with_objects(&lab, 100, ACRE_CONTEXT_ALLOC);
    lab_free(&lab, lab_alloc(&lab, 1000));
    REQUIRE_OK(acre_cache_history_create(lab.cache, &history));
    EXPECT_EQ(objects_taken, 1);
    EXPECT_EQ(object_of(history, history->entry_count - 1), 1);
    acre_history_destroy(history);
    lab_close(&lab);
    EXPECT_EQ(objects_alive, 0);
}

TEST(an_object_goes_with_the_last_entry_and_block_that_had_it)
{
    struct lab lab;

    lab_open(&lab, NULL);
    lab_free(&lab, lab_alloc(&lab, 1000)); /* the segment is there already */
    start_with_objects(&lab, 4, ACRE_CONTEXT_ALL);
    void *kept = lab_alloc(&lab, 1000);
    for (int i = 0; i < 1000; i++) {
        lab_free(&lab, lab_alloc(&lab, 512));
        REQUIRE(objects_alive <= 5);
    }
    lab_free(&lab, kept);
    REQUIRE_OK(acre_cache_empty(lab.cache));
    EXPECT(objects_alive <= 4);
    acre_cache_history_stop(lab.cache);
    EXPECT_EQ(objects_alive, 0);
    lab_close(&lab);
}

TEST(objects_go_when_recording_goes_on_with_frames)
{
    struct lab lab;
    acre_history *history;

    lab_open(&lab, NULL);
    start_with_objects(&lab, 100, ACRE_CONTEXT_ALL);
    void *a = lab_alloc(&lab, 1000);
    EXPECT_EQ(objects_alive, 1);
    start(&lab, 100, ACRE_CONTEXT_ALL, NULL);
    EXPECT_EQ(objects_alive, 0);
    lab_free(&lab, a);
    REQUIRE_OK(acre_cache_history_create(lab.cache, &history));
    EXPECT_PTR_EQ(history->objects, NULL);
    EXPECT_EQ(history->stacks[history->entries[0].stack].frame_count, 0);
    EXPECT_EQ(history->stacks[history->entries[2].stack].frame_count, 2);
    acre_history_destroy(history);
    lab_close(&lab);
}

TEST(a_request_that_fails_gives_its_object_back)
{
    struct lab lab;
    void *out;

    lab_open(&lab, NULL);
    start_with_objects(&lab, 100, ACRE_CONTEXT_ALL);
    EXPECT_EQ(acre_cache_alloc(lab.cache, (size_t)1 << 45, NULL, &out), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(objects_alive, 1); /* of the entry */
    EXPECT_EQ(acre_cache_free(lab.cache, &lab), ACRE_ERR_INVALID);
    acre_cache_history_stop(lab.cache);
    EXPECT_EQ(objects_alive, 0);
    lab_close(&lab);
}

TEST(without_host_memory_no_object_is_lost)
{
    for (uint64_t nth = 1; nth < 12; nth++) {
        struct lab lab;
        acre_history *history = NULL;
        lab_open(&lab, NULL);
        start_with_objects(&lab, 100, ACRE_CONTEXT_ALL);
        void *a = lab_alloc(&lab, 1000);
        heap_fail_nth(nth);
        if (acre_cache_history_create(lab.cache, &history) == ACRE_OK)
            acre_history_destroy(history);
        heap_fail_disarm();
        heap_fail_nth(nth);
        void *b = NULL;
        (void)acre_cache_alloc(lab.cache, 1000, NULL, &b);
        heap_fail_disarm();
        lab_free(&lab, a);
        lab_free(&lab, b);
        acre_cache_history_stop(lab.cache);
        REQUIRE_EQ(objects_alive, 0);
        lab_close(&lab);
    }
}

TEST(objects_need_three_functions)
{
    struct lab lab;
    acre_context_objects half = objects;
    acre_history_config config = {.struct_size = sizeof config, .objects = &half};

    lab_open(&lab, NULL);
    half.release = NULL;
    EXPECT_EQ(acre_cache_history_start(lab.cache, &config), ACRE_ERR_INVALID);
    EXPECT(strstr(acre_last_error(), "take, retain and release"));
    half.release = object_release;
    half.resolve = NULL; /* names can be missing */
    REQUIRE_OK(acre_cache_history_start(lab.cache, &config));
    lab_close(&lab);
}

T_MAIN()
