/* SPDX-License-Identifier: MIT */
/* Traces: every kind of line, and every refusal with its line. */
#include <acre/trace.h>

#include "base/heap.h"
#include "format/trace.h"
#include "tests/support/files.h"
#include "tests/support/t.h"

/* Reads a text as a trace, capacity events at a time. */
static acre_status read_text(const char *text, acre_trace_event *events, size_t capacity,
                             size_t *out_count)
{
    acre_trace *trace;
    size_t count = 0, got = 1;
    acre_status status = acre_trace_open(files_write("t.trace", text, strlen(text)), &trace);

    if (status != ACRE_OK)
        return status;
    while (status == ACRE_OK && got > 0) {
        status = acre_trace_read(trace, events + count, capacity, &got);
        count += status == ACRE_OK ? got : 0;
    }
    acre_trace_close(trace);
    *out_count = count;
    return status;
}

static void expect_refused(const char *text, const char *why)
{
    acre_trace_event events[64];
    size_t count;

    EXPECT_EQ(read_text(text, events, 4, &count), ACRE_ERR_FORMAT);
    EXPECT_HAS(acre_last_error(), "t.trace:");
    EXPECT_HAS(acre_last_error(), why);
}

TEST(reads_every_kind_of_line)
{
    acre_trace_event events[16];
    size_t count = 0;

    for (size_t capacity = 1; capacity <= 3; capacity++) {
        REQUIRE_OK(read_text("# header\n\na 5 1000 0\r\n  a\t6 1152921504606846976 65535 # big\n"
                             "u 5 3\ns 3\ns *\nf 5\ne\n# iter 2\na 7 1 1\nf 6\nf 7",
                             events, capacity, &count));
        REQUIRE_EQ(count, 10);
        EXPECT_EQ(events[0].kind, ACRE_TRACE_ALLOC);
        EXPECT_EQ(events[0].id, 5);
        EXPECT_EQ(events[0].bytes, 1000);
        EXPECT_EQ(events[0].stream, 0);
        EXPECT_EQ(events[0].slot, 0);
        EXPECT_EQ(events[1].bytes, (uint64_t)1 << 60);
        EXPECT_EQ(events[1].stream, 65535);
        EXPECT_EQ(events[1].slot, 1);
        EXPECT_EQ(events[2].kind, ACRE_TRACE_USE);
        EXPECT_EQ(events[2].slot, 0);
        EXPECT_EQ(events[2].stream, 3);
        EXPECT_EQ(events[3].kind, ACRE_TRACE_SYNC);
        EXPECT_EQ(events[3].stream, 3);
        EXPECT_EQ(events[4].stream, ACRE_TRACE_ALL_STREAMS);
        EXPECT_EQ(events[5].kind, ACRE_TRACE_FREE);
        EXPECT_EQ(events[5].slot, 0);
        EXPECT_EQ(events[6].kind, ACRE_TRACE_EMPTY);
        EXPECT_EQ(events[7].slot, 0);
        EXPECT_EQ(events[8].slot, 1);
    }
}

TEST(an_empty_file_is_an_empty_trace)
{
    acre_trace_event event;
    size_t count = 7;

    REQUIRE_OK(read_text("", &event, 1, &count));
    EXPECT_EQ(count, 0);
    REQUIRE_OK(read_text("\n#\n \n", &event, 1, &count));
    EXPECT_EQ(count, 0);
}

TEST(lives_are_checked)
{
    expect_refused("f 1\n", ":1: free of allocation 1, which was never made");
    expect_refused("a 1 1 0\nf 1\n\nf 1\n", ":4: free of allocation 1, which was freed before");
    expect_refused("a 1 1 0\nu 2 0\n", ":2: use of allocation 2, which was never made");
    expect_refused("a 1 1 0\nf 1\nu 1 0\n", ":3: use of allocation 1, which was freed before");
    expect_refused("a 1 1 0\na 1 1 0\n", ":2: allocation 1 was there before");
    expect_refused("a 1 1 0\na 2 1 0\nf 1\na 1 1 0\n", ":4: allocation 1 was there before");
}

TEST(sizes_are_checked)
{
    expect_refused("a 1 0 0\n", ":1: allocation 1 has a size of 0");
    expect_refused("a 1 1152921504606846977 0\n", "between 1 and 2^60");
}

TEST(numbers_are_checked)
{
    expect_refused("a x 1 0\n", ":1: \"x\" is not a whole number");
    expect_refused("a -1 1 0\n", "\"-1\"");
    expect_refused("a 1 1.5 0\n", "\"1.5\"");
    expect_refused("a 1 0x10 0\n", "\"0x10\"");
    expect_refused("a 18446744073709551616 1 0\n", "below 2^64");
    expect_refused("a 1 1 -1\n", "\"-1\"");
    expect_refused("a 1 1 65536\n", "stream 65536 is above 65535");
    expect_refused("f +1\n", "\"+1\"");
    expect_refused("s **\n", "\"**\"");
    expect_refused("a 1 1 0\nu 1 *\n", "\"*\"");
    expect_refused("a 1 \x01\x02\xff 0\n", "\"???\"");
}

TEST(the_form_of_lines_is_checked)
{
    expect_refused("a 1 1\n", ":1: the line has 3 words; it should read \"a ID BYTES STREAM\"");
    expect_refused("a 1 1 0 0\n", "more than 4 words");
    expect_refused("a 1 1 0 0 0 0\n", "more than 4 words");
    expect_refused("f\n", "\"f ID\"");
    expect_refused("f 1 2\n", "has 3 words");
    expect_refused("e 1\n", "\"e\"");
    expect_refused("s\n", "\"s STREAM\"");
    expect_refused("alloc 1 1 0\n", ":1: \"alloc\" is no event");
    expect_refused("\n\nx\n", ":3: \"x\" is no event");
    expect_refused("\x80\x04\x95 a long word that is not printed in full at all\n", "???");
}

/* As replays of a pipe see it, which cannot be looked at twice. */
TEST(a_snapshot_is_known_as_one)
{
    expect_refused("\x80\x04\x95}(", "begins like a memory snapshot");
    expect_refused("{\"segments\": []}", "not a pipe: save it first");
    expect_refused(" [\n", "begins like a memory snapshot");
    expect_refused("a 1 512 0\n[ 2\n", "no event of a trace");
}

TEST(long_lines_are_refused)
{
    static char text[9000];
    acre_trace_event events[4];
    size_t count;

    memset(text, ' ', 4088);
    strcpy(text + 4088, " a 1 1 0");
    REQUIRE_EQ(strlen(text), 4096);
    REQUIRE_OK(read_text(text, events, 4, &count));
    EXPECT_EQ(count, 1);
    memmove(text + 1, text, 4097);
    expect_refused(text, ":1: the line is longer than 4096 bytes");
    memset(text, 'x', 8000);
    text[0] = '#';
    text[8000] = '\0';
    expect_refused(text, ":1: the line is longer");
    text[4096] = '\n';
    text[4097] = '#';
    REQUIRE_OK(read_text(text, events, 4, &count));
}

TEST(a_zero_byte_is_no_event)
{
    acre_trace *trace;
    acre_trace_event event;
    size_t count;

    REQUIRE_OK(acre_trace_open(files_write("t.trace", "e\n\0\n", 4), &trace));
    EXPECT_EQ(acre_trace_read(trace, &event, 1, &count), ACRE_OK);
    EXPECT_EQ(acre_trace_read(trace, &event, 1, &count), ACRE_ERR_FORMAT);
    EXPECT_HAS(acre_last_error(), ":2: \"?\" is no event");
    acre_trace_close(trace);
}

TEST(an_error_stays)
{
    acre_trace *trace;
    acre_trace_event events[8];
    size_t count = 99;

    REQUIRE_OK(acre_trace_open(files_write("t.trace", "e\nx\ne\n", 6), &trace));
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(acre_trace_read(trace, events, 8, &count), ACRE_ERR_FORMAT);
        EXPECT_HAS(acre_last_error(), ":2:");
        EXPECT_EQ(acre_trace_open("nowhere", &(acre_trace *){NULL}), ACRE_ERR_IO);
    }
    EXPECT_EQ(count, 99);
    REQUIRE_OK(acre_trace_rewind(trace));
    REQUIRE_OK(acre_trace_read(trace, events, 1, &count));
    EXPECT_EQ(count, 1);
    acre_trace_close(trace);
    acre_trace_close(NULL);
    EXPECT_EQ(acre_trace_open(NULL, &trace), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_trace_open("x", NULL), ACRE_ERR_INVALID);
}

TEST(a_truncated_gzip_names_the_last_line)
{
    static char text[100000];
    size_t length = 0;
    const unsigned char *bytes;
    acre_trace *trace;
    acre_trace_event events[256];
    size_t got = 1, total = 0;
    acre_status status = ACRE_OK;

    for (int i = 1; length < sizeof text - 64; i++)
        length += (size_t)sprintf(text + length, "a %d %d 0\nf %d\n", i, i * 7, i);
    const char *path = files_gzip("t.gz", text, length);
    if (!path)
        T_SKIP("there is no gzip command");
    size_t whole = files_read(path, &bytes);
    acre_status opened = acre_trace_open(files_write("cut.gz", bytes, whole - 100), &trace);
    if (opened == ACRE_ERR_UNSUPPORTED)
        T_SKIP("this build has no zlib");
    REQUIRE_OK(opened);
    while (status == ACRE_OK && got > 0) {
        status = acre_trace_read(trace, events, 256, &got);
        total += status == ACRE_OK ? got : 0;
    }
    EXPECT_EQ(status, ACRE_ERR_FORMAT);
    EXPECT_HAS(acre_last_error(), "truncated gzip");
    EXPECT_HAS(acre_last_error(), "after line");
    EXPECT_GT(total, 100);
    acre_trace_close(trace);
}

TEST(memory_grows_with_live_allocations_only)
{
    acre_trace *trace;
    acre_trace_event events[512];
    size_t got = 1;
    uint64_t pieces = 0;
    const char *path = files_path("long.trace");
    FILE *file = fopen(path, "w");
    const int pairs = (int)t_count(200000, 5000000);

    REQUIRE_EQ(file != NULL, 1);
    for (int i = 0; i < pairs; i++)
        fprintf(file, "a %d 512 0\nf %d\n", i, i);
    fclose(file);
    REQUIRE_OK(acre_trace_open(path, &trace));
    while (got > 0) {
        REQUIRE_OK(acre_trace_read(trace, events, 512, &got));
        if (!pieces)
            pieces = heap_live_count();
        EXPECT_EQ(heap_live_count(), pieces);
    }
    EXPECT_EQ(trace_slots(trace), 1);
    uint64_t done, total;
    trace_progress(trace, &done, &total);
    EXPECT_EQ(done, total);
    EXPECT_GT(total, 0);
    acre_trace_close(trace);
}

TEST(every_host_allocation_may_fail)
{
    acre_trace_event events[16];
    size_t count;

    for (unsigned nth = 1;; nth++) {
        uint64_t live = heap_live_count();
        heap_fail_nth(nth);
        acre_status status = read_text("a 1 1 0\na 9 1 0\nf 1\ne\n", events, 16, &count);
        int failed = heap_fail_disarm();
        EXPECT_EQ(heap_live_count(), live);
        EXPECT_EQ(status, failed ? ACRE_ERR_HOST_MEMORY : ACRE_OK);
        if (!failed)
            return;
    }
}

T_MAIN()
