/* SPDX-License-Identifier: MIT */
/* Views as users make them, and the page as text; tests/view looks at it in a browser. */
#include "view/view.h"

#include "base/heap.h"
#include "format/snapshot/snapshot.h"
#include "tests/support/t.h"
#include "view/adopt.h"
#include "view/layout.h"
#include "view/level.h"
#include "view/page.h"
#include "view/pieces.h"
#include "view/watch.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[256];

static const char *page_path(void)
{
    snprintf(path, sizeof path, "%s/test_view_%ld.html", ACRE_BUILD, (long)getpid());
    return path;
}

/* The whole of a file, zero-terminated; the caller frees it. */
static char *content(const char *name)
{
    FILE *file = fopen(name, "r");
    struct stat facts;

    REQUIRE(file && fstat(fileno(file), &facts) == 0);
    char *text = calloc(1, (size_t)facts.st_size + 1);
    REQUIRE(text && fread(text, 1, (size_t)facts.st_size, file) == (size_t)facts.st_size);
    fclose(file);
    return text;
}

static void write_trace(const char *name, const char *text)
{
    FILE *file = fopen(name, "w");

    REQUIRE(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* A view with all kinds of things in it. */
static acre_status fill(acre_view *view)
{
    acre_view_frame frames[] = {{"alloc<T>", "a.cpp", 3}, {"main", NULL, 0}};
    acre_view_event event = {.action = ACRE_VIEW_SEGMENT_ALLOC, .address = 4096, .bytes = 1 << 21,
                             .device = 1, .flags = ACRE_VIEW_SMALL};
    acre_status status = acre_view_stack_add(view, frames, 2, &event.stack);

    if (status == ACRE_OK)
        status = acre_view_event_add(view, &event);
    event.action = ACRE_VIEW_ALLOC;
    for (int i = 0; i < 20 && status == ACRE_OK; i++) {
        event.address = 4096 + 512 * (uint64_t)i;
        event.bytes = 100;
        event.stream = (uint64_t)i % 3;
        event.pool[1] = (uint64_t)i % 2;
        status = acre_view_event_add(view, &event);
    }
    event.action = ACRE_VIEW_MARK;
    event.text = "</script><img src=x onerror=alert(1)>";
    if (status == ACRE_OK)
        status = acre_view_event_add(view, &event);
    return status == ACRE_OK ? acre_view_note_add(view, "Heading & co", "a <b> text") : status;
}

TEST(a_page_holds_what_was_told_and_nothing_that_runs)
{
    acre_view *view;

    REQUIRE_EQ(acre_view_create("<script>alert(1)</script> & \"more\"", &view), ACRE_OK);
    REQUIRE_EQ(fill(view), ACRE_OK);
    REQUIRE_EQ(acre_view_write(view, page_path()), ACRE_OK);
    acre_view_destroy(view);
    char *text = content(path);
    EXPECT(strncmp(text, "<!DOCTYPE html>", 15) == 0);
    EXPECT(strstr(text, "<title>&#60;script&#62;alert(1)&#60;/script&#62; &#38; &#34;more&#34;<"));
    EXPECT(!strstr(text, "<script>alert"));
    EXPECT(!strstr(text, "<img src=x"));
    EXPECT(strstr(text, "\\u003c/script\\u003e\\u003cimg"));
    EXPECT(strstr(text, "\"device\":1,\"events\":22,\"moments\":22,\"blocks\":20,\"ranges\":1"));
    EXPECT(!strstr(text, "\"device\":0")); /* nothing happened there */
    EXPECT(strstr(text, "[\"Heading \\u0026 co\",\"a \\u003cb\\u003e text\"]"));
    EXPECT(!strstr(text, "http://") && !strstr(text, "https://"));
    EXPECT(strcmp(text + strlen(text) - 8, "</html>\n") == 0);
    EXPECT(!strstr(text, "@DATA@") && !strstr(text, "@TITLE@") && !strstr(text, "@SCRIPT@"));
    free(text);
    remove(path);
    EXPECT_EQ(heap_live_count(), 0);
}

TEST(stacks_are_numbered_from_one)
{
    acre_view *view;
    acre_view_frame frames[] = {{"f", "a.c", 1}, {"g", "a.c", 2}}, odd = {NULL, NULL, -5};
    uint32_t first, second, again, none;

    REQUIRE_EQ(acre_view_create("", &view), ACRE_OK);
    EXPECT_EQ(acre_view_stack_add(view, frames, 2, &first), ACRE_OK);
    EXPECT_EQ(acre_view_stack_add(view, &odd, 1, &second), ACRE_OK);
    EXPECT_EQ(acre_view_stack_add(view, frames, 2, &again), ACRE_OK);
    EXPECT_EQ(acre_view_stack_add(view, NULL, 0, &none), ACRE_OK);
    EXPECT_EQ(first, 1);
    EXPECT_EQ(second, 2);
    EXPECT_EQ(again, 1);
    EXPECT_EQ(none, 0);
    acre_view_destroy(view);
}

TEST(bad_arguments_are_refused)
{
    acre_view *view = NULL;
    acre_view_event event = {.action = ACRE_VIEW_ALLOC};
    acre_view_config config = {0};
    acre_cache_layout layout = {0};
    uint32_t number;

    EXPECT_EQ(acre_view_create(NULL, &view), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_view_create("x", NULL), ACRE_ERR_INVALID);
    REQUIRE_EQ(acre_view_create("x", &view), ACRE_OK);
    EXPECT_EQ(acre_view_stack_add(NULL, NULL, 0, &number), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_view_stack_add(view, NULL, 1, &number), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_view_stack_add(view, NULL, 0, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_view_event_add(NULL, &event), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_view_event_add(view, NULL), ACRE_ERR_INVALID);
    event.device = -1;
    EXPECT_EQ(acre_view_event_add(view, &event), ACRE_ERR_INVALID);
    event.device = ACRE_VIEW_DEVICE_MAX + 1;
    EXPECT_EQ(acre_view_event_add(view, &event), ACRE_ERR_INVALID);
    event = (acre_view_event){.action = ACRE_VIEW_ALLOC, .stack = 1};
    EXPECT_EQ(acre_view_event_add(view, &event), ACRE_ERR_INVALID);
    event = (acre_view_event){.action = 0};
    EXPECT_EQ(acre_view_event_add(view, &event), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_view_note_add(view, NULL, ""), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_view_layout_add(view, 0, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_view_layout_add(NULL, 0, &layout), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_view_layout_add(view, -1, &layout), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_view_read(view, NULL, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_view_read(view, "x", &config), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_view_read(view, "no/such/file", NULL), ACRE_ERR_IO);
    EXPECT_EQ(acre_view_write(view, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_view_write(NULL, "x"), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_view_write(view, "no/such/folder/x.html"), ACRE_ERR_IO);
    EXPECT(strstr(acre_last_error(), "no/such/folder/x.html"));
    EXPECT_EQ(acre_view_write(view, "/dev/full"), ACRE_ERR_IO);
    EXPECT_EQ(acre_view_write(view, "/dev/null"), ACRE_OK);
    acre_view_destroy(view);
    acre_view_destroy(NULL);
    EXPECT_EQ(heap_live_count(), 0);
}

/* The second trace outgrows its device. */
TEST(traces_are_replayed)
{
    acre_view_config config = {.struct_size = sizeof config, .policy = ACRE_POLICY_TORCH,
                               .device_bytes = 64 << 20};
    acre_view *view;

    page_path();
    write_trace(path, "a 1 1000 0\na 2 30000000 1\nu 2 0\nf 2\ns *\ne\na 3 1000 0\n");
    REQUIRE_EQ(acre_view_create("t", &view), ACRE_OK);
    REQUIRE_EQ(acre_view_read(view, path, &config), ACRE_OK);
    const struct view_history *history = &view->devices[0];
    EXPECT_EQ(history->blocks.count, 3);
    EXPECT_EQ(history->blocks.items[1].block_bytes, 30000128);
    EXPECT_EQ(history->ranges.count, 2);
    EXPECT_EQ(history->ranges.items[0].bytes, 2 << 20);
    EXPECT_EQ(history->ranges.items[1].bytes, 30 << 20);
    EXPECT_LT(history->ranges.items[1].end, history->event_count); /* went with "e" */
    EXPECT_EQ(history->mark_count, 0);
    acre_view_destroy(view);
    write_trace(path, "a 1 50000000 0\na 2 50000000 0\nf 2\nf 1\n");
    REQUIRE_EQ(acre_view_create("t", &view), ACRE_OK);
    REQUIRE_EQ(acre_view_read(view, path, &config), ACRE_OK);
    EXPECT_EQ(view->devices[0].mark_count, 1);
    EXPECT_EQ(view->devices[0].marks[0].action, ACRE_VIEW_OOM);
    EXPECT_EQ(view->devices[0].blocks.count, 1);
    acre_view_destroy(view);
    write_trace(path, "a 1 50000000 0\nf 7\n");
    REQUIRE_EQ(acre_view_create("t", &view), ACRE_OK);
    EXPECT_EQ(acre_view_read(view, path, &config), ACRE_ERR_FORMAT);
    acre_view_destroy(view);
    remove(path);
    EXPECT_EQ(heap_live_count(), 0);
}

/* Each allocation is a segment of its own, and looking at all of them each time is too much. */
TEST(a_trace_of_many_segments_says_what_is_shown_late)
{
    enum { COUNT = 10000 };
    acre_view_config config = {.struct_size = sizeof config, .policy = ACRE_POLICY_TORCH,
                               .device_bytes = (uint64_t)1 << 40};
    acre_view *view;

    page_path();
    FILE *file = fopen(path, "w");
    REQUIRE(file);
    for (int i = 0; i < COUNT; i++)
        fprintf(file, "a %d 11000000 %d\n", i, i % 1000);
    for (int i = 0; i < COUNT / 2; i++)
        fprintf(file, "f %d\n", i);
    fprintf(file, "e\n");
    REQUIRE_EQ(fclose(file), 0);
    REQUIRE_EQ(acre_view_create("t", &view), ACRE_OK);
    REQUIRE_EQ(acre_view_read(view, path, &config), ACRE_OK);
    remove(path);
    const struct view_history *history = &view->devices[0];
    uint64_t held = 0, late = 0;
    EXPECT_EQ(history->ranges.count, COUNT);
    for (size_t i = 0; i < history->ranges.count; i++) {
        const struct span *range = &history->ranges.items[i];
        EXPECT(range->stream < 1000);
        held += range->end == UINT32_MAX;
        for (size_t k = i + 1; k < history->ranges.count && late < 2; k++)
            late += range->begin == history->ranges.items[k].begin;
    }
    EXPECT_EQ(held, COUNT / 2);
    REQUIRE_EQ(view->note_count, 1);
    EXPECT_HAS(view->notes[0].text, "shown some events late");
    acre_view_destroy(view);
    EXPECT_EQ(heap_live_count(), 0);
}

/* Whether live ranges cover the first and the last byte of a block. */
static bool is_covered(const struct view_history *history, const struct span *block,
                       uint32_t moment)
{
    unsigned ends = 0;

    for (size_t i = 0; i < history->ranges.count; i++) {
        const struct span *range = &history->ranges.items[i];
        if (range->begin > moment || range->end <= moment)
            continue;
        ends += block->address >= range->address &&
                block->address - range->address < range->bytes;
        uint64_t last = block->address + block->block_bytes - 1;
        ends += last >= range->address && last - range->address < range->bytes;
    }
    return ends == 2;
}

/* Pages come and go; what is live always has memory behind it. */
TEST(expandable_segments_are_followed)
{
    acre_view_config config = {.struct_size = sizeof config, .policy = ACRE_POLICY_TORCH,
                               .conf = "expandable_segments:True"};
    acre_view *view;

    page_path();
    write_trace(path, "a 1 5000000 0\na 2 30000000 0\na 3 5000000 0\nf 2\ne\na 4 7000000 0\n"
                      "a 5 100 1\nf 1\na 6 90000000 0\nf 6\ne\n");
    REQUIRE_EQ(acre_view_create("t", &view), ACRE_OK);
    REQUIRE_EQ(acre_view_read(view, path, &config), ACRE_OK);
    remove(path);
    const struct view_history *history = &view->devices[0];
    EXPECT_EQ(history->blocks.count, 6);
    for (uint32_t moment = 0; moment < history->event_count; moment++)
        for (size_t i = 0; i < history->blocks.count; i++) {
            const struct span *block = &history->blocks.items[i];
            if (block->begin <= moment && moment < block->end)
                EXPECT(is_covered(history, block, moment));
        }
    acre_view_destroy(view);
}

/* Two segments of device 1, a history that begins in the middle, an annotation. */
static const char snapshot_text[] =
    "{\"segments\": [{\"device\": 1, \"address\": 4096, \"total_size\": 2097152, \"stream\": 9,"
    " \"allocated_size\": 1536, \"active_size\": 1536, \"requested_size\": 1400,"
    " \"segment_type\": \"small\", \"segment_pool_id\": [0, 3], \"blocks\": ["
    "  {\"address\": 4096, \"size\": 512, \"requested_size\": 400, \"state\": \"active_allocated\","
    "   \"frames\": [{\"filename\": \"a.py\", \"line\": 3, \"name\": \"early\"}]},"
    "  {\"address\": 4608, \"size\": 1024, \"requested_size\": 1000,"
    "   \"state\": \"active_allocated\", \"frames\": []},"
    "  {\"address\": 5632, \"size\": 2095616, \"requested_size\": 77, \"state\": \"inactive\","
    "   \"frames\": []}]}],"
    " \"device_traces\": [[], ["
    "  {\"action\": \"free_completed\", \"addr\": 9216, \"size\": 100, \"stream\": 9,"
    "   \"time_us\": 1000, \"frames\": []},"
    "  {\"action\": \"alloc\", \"addr\": 4608, \"size\": 1000, \"stream\": 9, \"time_us\": 2000,"
    "   \"frames\": [{\"filename\": \"b.py\", \"line\": 4, \"name\": \"late\"}]},"
    "  {\"action\": \"oom\", \"device_free\": 5, \"size\": 512, \"stream\": 9, \"time_us\": 3000,"
    "   \"frames\": []}]],"
    " \"external_annotations\": [{\"device\": 1, \"time_us\": 1500, \"name\": \"step\","
    "   \"stage\": \"START\"}],"
    " \"allocator_settings\": {\"PYTORCH_CUDA_ALLOC_CONF\": \"max_split_size_mb:64\"}}";

TEST(snapshots_are_adopted)
{
    acre_view *view;

    page_path();
    write_trace(path, snapshot_text);
    REQUIRE_EQ(acre_view_create("t", &view), ACRE_OK);
    acre_status status = acre_view_read(view, path, NULL);
    remove(path);
    if (status != ACRE_OK)
        t_fail(__FILE__, __LINE__, "%s", acre_last_error());
    REQUIRE_EQ(view->device_count, 2);
    const struct view_history *history = &view->devices[1];
    EXPECT_EQ(history->event_count, 3);
    EXPECT_EQ(history->ranges.count, 1);
    EXPECT(history->ranges.items[0].flags & ACRE_VIEW_SMALL);
    EXPECT_EQ(history->blocks.count, 3);
    EXPECT_EQ(history->blocks.items[0].address, 9216); /* freed, so there from the start */
    EXPECT(history->blocks.items[0].flags & SPAN_EARLY);
    EXPECT_EQ(history->blocks.items[1].address, 4608);
    EXPECT_EQ(history->blocks.items[1].block_bytes, 1024);
    EXPECT_EQ(history->blocks.items[2].address, 4096);
    EXPECT_NE(history->blocks.items[2].stack, history->blocks.items[1].stack);
    EXPECT_NE(history->blocks.items[2].stack, 0);
    REQUIRE_EQ(history->mark_count, 2);
    EXPECT_EQ(history->marks[0].action, ACRE_VIEW_OOM);
    EXPECT_EQ(history->marks[0].free_bytes, 5);
    EXPECT_EQ(history->marks[1].moment, 1);
    EXPECT(strstr(history->marks[1].text, "step") && strstr(history->marks[1].text, "START"));
    REQUIRE_EQ(view->note_count, 1);
    EXPECT_STR_EQ(view->notes[0].text, "PYTORCH_CUDA_ALLOC_CONF\tmax_split_size_mb:64");
    EXPECT_PTR_EQ(acre_view_warning(view), NULL);
    acre_view_destroy(view);
    EXPECT_PTR_EQ(acre_view_warning(NULL), NULL);
    EXPECT_EQ(heap_live_count(), 0);
}

TEST(two_snapshots_have_room_on_one_page)
{
    acre_view_config config = {.struct_size = sizeof config, .label = "before"};
    acre_view *view;

    page_path();
    write_trace(path, snapshot_text);
    REQUIRE_EQ(acre_view_create("t", &view), ACRE_OK);
    REQUIRE_EQ(acre_view_read(view, path, &config), ACRE_OK);
    config.label = "after <b>";
    config.device_first = 512;
    REQUIRE_EQ(acre_view_read(view, path, &config), ACRE_OK);
    remove(path);
    EXPECT_EQ(view->devices[513].event_count, 3);
    EXPECT_EQ(view->devices[513].mark_count, 2);
    EXPECT_EQ(view->devices[513].blocks.count, view->devices[1].blocks.count);
    REQUIRE_EQ(acre_view_write(view, page_path()), ACRE_OK);
    char *page = content(path);
    EXPECT(strstr(page, "\"name\":\"before, device 1\",\"device\":1,"));
    EXPECT(strstr(page, "\"name\":\"after \\u003cb\\u003e, device 1\",\"device\":513,"));
    free(page);
    remove(path);
    acre_view_destroy(view);
    EXPECT_EQ(heap_live_count(), 0);
}

TEST(snapshots_that_do_not_add_up_are_shown_with_a_warning)
{
    acre_view *view;
    static char text[sizeof snapshot_text];
    char *total = strstr(strcpy(text, snapshot_text), "2097152");

    page_path();
    total[6] = '1';
    write_trace(path, text);
    REQUIRE_EQ(acre_view_create("t", &view), ACRE_OK);
    REQUIRE_EQ(acre_view_read(view, path, NULL), ACRE_OK);
    remove(path);
    REQUIRE(acre_view_warning(view) != NULL);
    EXPECT(strstr(acre_view_warning(view), "2097151"));
    REQUIRE_EQ(acre_view_write(view, page_path()), ACRE_OK);
    char *page = content(path);
    EXPECT(strstr(page, "\"warning\":\"segment 0 of device 1"));
    free(page);
    remove(path);
    acre_view_destroy(view);
    EXPECT_EQ(heap_live_count(), 0);
}

/* At the last moment the view holds what the segments of the snapshot hold. */
static void compare_end(const struct snapshot *snapshot, const acre_view *view, uint32_t device)
{
    uint64_t allocated = 0, reserved = 0;
    struct totals totals;

    for (size_t i = 0; i < snapshot->segment_count; i++) {
        const struct snap_segment *segment = &snapshot->segments[i];
        if (segment->device != device)
            continue;
        reserved += segment->bytes;
        for (uint64_t k = 0; k < segment->block_count; k++) {
            const struct snap_block *block = &snapshot->blocks[segment->first_block + k];
            allocated += block->state == SNAP_INACTIVE ? 0 : block->bytes;
        }
    }
    REQUIRE_EQ(totals_init(&totals, &view->devices[device], view->stacks.count), ACRE_OK);
    EXPECT_EQ(totals.reserved[totals.moments - 1], reserved);
    EXPECT_EQ(totals.allocated[totals.moments - 1], allocated);
    EXPECT_LE(totals.allocated[totals.peak], totals.reserved_peak);
    totals_fini(&totals);
}

TEST(real_snapshots_end_in_their_segments)
{
    const char *found = t_shared("snapshots");
    acre_view_config config = {.struct_size = sizeof config};
    char folder[512], name[1024];
    struct dirent *item;
    unsigned count = 0;

    if (!found)
        T_SKIP("the shared snapshots are not there");
    snprintf(folder, sizeof folder, "%s", found);
    DIR *files = opendir(folder);
    REQUIRE(files != NULL);
    while ((item = readdir(files))) {
        struct snapshot *snapshot;
        acre_view *view;
        if (!strstr(item->d_name, ".pickle"))
            continue;
        snprintf(name, sizeof name, "%s/%s", folder, item->d_name);
        acre_status status = snapshot_read(name, &snapshot);
        if (status == ACRE_ERR_UNSUPPORTED)
            break; /* gzip in a build without zlib */
        REQUIRE_EQ(status, ACRE_OK);
        REQUIRE_EQ(acre_view_create(item->d_name, &view), ACRE_OK);
        REQUIRE_EQ(adopt_snapshot(view, snapshot, &config), ACRE_OK);
        for (uint32_t d = 0; d < view->device_count && !acre_view_warning(view); d++, count++)
            compare_end(snapshot, view, d);
        acre_view_destroy(view);
        snapshot_destroy(snapshot);
    }
    closedir(files);
    printf("     %u devices compared\n", count);
    EXPECT_EQ(heap_live_count(), 0);
}

/* Each failing host allocation gives one clean error and leaves nothing behind. */
TEST(every_host_allocation_may_fail)
{
    for (unsigned nth = 1; nth < 2000; nth++) {
        acre_view *view = NULL;
        heap_fail_nth(nth);
        acre_status status = acre_view_create("t", &view);
        if (status == ACRE_OK)
            status = fill(view);
        if (status == ACRE_OK)
            status = acre_view_write(view, page_path());
        int has_failed = heap_fail_disarm();
        acre_view_destroy(view);
        EXPECT_EQ(heap_live_count(), 0);
        if (!has_failed) {
            EXPECT_EQ(status, ACRE_OK);
            remove(path);
            return;
        }
        EXPECT_EQ(status, ACRE_ERR_HOST_MEMORY);
        EXPECT(access(path, F_OK) != 0);
    }
    EXPECT(!"the scenario runs out of allocations to fail");
}

T_MAIN()
