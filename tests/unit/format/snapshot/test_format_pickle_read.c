/* SPDX-License-Identifier: MIT */
/* Pickles: what is read, what is refused and how, and damage at every byte. */
#include "base/heap.h"
#include "format/snapshot/builder.h"
#include "format/snapshot/builder_finish.h"
#include "format/snapshot/builder_record.h"
#include "format/input.h"
#include "format/snapshot/json_read.h"
#include "format/snapshot/pickle_read.h"
#include "tests/support/files.h"
#include "tests/support/t.h"

#include <dirent.h>

/* A text of pickle instructions: short texts, small numbers. */
#define KEY(text, length) "\x8c" length text "\x94"

/* {"segments": [], "device_traces": [[{action: alloc, addr: 512, size: 100, stream: 0,
 * frames: [F]}, {action: free_completed, ..., frames: the same}]]} in protocol 4. */
static const char sample[] =
    "\x80\x04}\x94(" KEY("segments", "\x08") "]\x94" KEY("device_traces", "\x0d") "]\x94]\x94("
    "}\x94(" KEY("action", "\x06") KEY("alloc", "\x05")                    /* memo 7, 8 */
    KEY("addr", "\x04") "M\x00\x02" KEY("size", "\x04") "Kd" KEY("stream", "\x06") "K\x00"
    KEY("frames", "\x06") "]\x94}\x94(" KEY("filename", "\x08") KEY("a.py", "\x04")
    KEY("line", "\x04") "K\x07" KEY("name", "\x04") KEY("f", "\x01") "ua"
    "u}\x94(h\x07" KEY("free_completed", "\x0e") "h\x09M\x00\x02h\x0aKdh\x0bK\x00h\x0ch\x0d"
    "ueau.";

static acre_status read_bytes(const char *bytes, size_t count, struct snapshot **out)
{
    return snapshot_read(files_write("snapshot.pickle", bytes, count), out);
}

TEST(events_and_shared_stacks)
{
    struct snapshot *snapshot = NULL;

    REQUIRE_OK(read_bytes(sample, sizeof sample - 1, &snapshot));
    EXPECT_EQ(snapshot->device_count, 1);
    EXPECT_EQ(snapshot->trace_count, 1);
    REQUIRE_EQ(snapshot->entry_count, 2);
    EXPECT_EQ(snapshot->entries[0].action, SNAP_ALLOC);
    EXPECT_EQ(snapshot->entries[1].action, SNAP_FREE_COMPLETED);
    for (int i = 0; i < 2; i++) {
        EXPECT_EQ(snapshot->entries[i].address, 512);
        EXPECT_EQ(snapshot->entries[i].bytes, 100);
        EXPECT_EQ(snapshot->entries[i].stack, 0);
        EXPECT_EQ(snapshot->entries[i].has, SNAP_HAS_FRAMES);
        EXPECT_EQ(snapshot_origin(snapshot, &snapshot->entries[i])->pool, SNAP_NONE);
    }
    REQUIRE_EQ(snapshot->stack_count, 1);
    REQUIRE_EQ(snapshot->frame_count, 1);
    EXPECT_EQ(snapshot->frames[0].line, 7);
    EXPECT_STR_EQ(snapshot_string(snapshot, snapshot->frames[0].file, NULL), "a.py");
    EXPECT_STR_EQ(snapshot_string(snapshot, snapshot->frames[0].name, NULL), "f");
    snapshot_destroy(snapshot);
}

TEST(every_truncation_is_an_error_that_names_file_and_offset)
{
    struct snapshot *snapshot = NULL;

    for (size_t count = 0; count < sizeof sample - 1; count++) {
        EXPECT_EQ(read_bytes(sample, count, &snapshot), ACRE_ERR_FORMAT);
        EXPECT_HAS(acre_last_error(), "snapshot.pickle");
        EXPECT_HAS(acre_last_error(), "offset ");
    }
}

TEST(every_changed_byte_is_read_or_refused)
{
    char copy[sizeof sample];
    uint64_t live = heap_live_count(), state = t_seed();

    for (size_t at = 0; at < sizeof sample - 1; at++)
        for (uint64_t i = 0; i < t_count(16, 256); i++) {
            struct snapshot *snapshot = NULL;
            memcpy(copy, sample, sizeof sample);
            copy[at] = (char)t_random(&state);
            if (read_bytes(copy, sizeof sample - 1, &snapshot) == ACRE_OK)
                snapshot_destroy(snapshot);
            EXPECT_EQ(heap_live_count(), live);
        }
}

TEST(instructions_that_run_code_are_refused_by_name)
{
    static const struct {
        const char *bytes, *name;
    } cases[] = {
        {"\x80\x02" "cos\nsystem\n.", "GLOBAL"}, {"\x80\x02)R.", "REDUCE"},
        {"\x80\x02}b.", "BUILD"},                 {"\x80\x02(i", "INST"},
        {"\x80\x02(o.", "OBJ"},                   {"\x80\x02P1\n.", "PERSID"},
        {"\x80\x02Q.", "BINPERSID"},              {"\x80\x02\x81.", "NEWOBJ"},
        {"\x80\x02\x92.", "NEWOBJ_EX"},           {"\x80\x04\x93.", "STACK_GLOBAL"},
        {"\x80\x02\x82\x01.", "EXT1"},            {"\x80\x02\x83\x01\x01.", "EXT2"},
        {"\x80\x02\x84\x01\x01\x01\x01.", "EXT4"}, {"\x80\x02" "C\x01x.", "SHORT_BINBYTES"},
    };
    struct snapshot *snapshot = NULL;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        EXPECT_EQ(read_bytes(cases[i].bytes, strlen(cases[i].bytes), &snapshot), ACRE_ERR_FORMAT);
        EXPECT_HAS(acre_last_error(), cases[i].name);
        EXPECT_HAS(acre_last_error(), "offset ");
    }
}

static void expect_refused(const char *bytes, size_t count, const char *part)
{
    struct snapshot *snapshot = NULL;

    EXPECT_EQ(read_bytes(bytes, count, &snapshot), ACRE_ERR_FORMAT);
    EXPECT_HAS(acre_last_error(), part);
}

TEST(damage_is_told_apart)
{
    char deep[200] = "\x80\x04";

    expect_refused("", 0, "the file is empty");
    expect_refused("a 1 2 3\n", 8, "neither a pickle nor JSON");
    expect_refused("\x80\x06.", 3, "protocol 6");
    expect_refused("\x80\x04h\x05.", 5, "memo 5 was never set");
    expect_refused("\x80\x04" "N\xff.", 5, "0xff is no pickle instruction");
    expect_refused("\x80\x04K\x01.", 5, "no memory snapshot");
    expect_refused("\x80\x04}.", 4, "neither \"segments\" nor");
    expect_refused("\x80\x04}}.", 5, "2 values instead of one");
    expect_refused("\x80\x04.", 3, "0 values instead of one");
    expect_refused("\x80\x04K\x01" "a.", 6, "lacks its list");
    expect_refused("\x80\x04K\x01K\x02" "a.", 8, "what is no list");
    expect_refused("\x80\x04]K\x01K\x02s.", 8, "what is no dict");
    expect_refused("\x80\x04" "e.", 4, "without its beginning");
    expect_refused("\x80\x04}(Nu.", 7, "a key without a value");
    expect_refused("\x80\x04r\xff\xff\xff\x7f.", 8, "nothing to remember");
    expect_refused("\x80\x04Nr\xff\xff\xff\x7f.", 9, "beyond what the file can hold");
    expect_refused("\x80\x04X\xff\xff\xff\x7f.", 8, "more than the");
    expect_refused("\x80\x04X\xff\xff\x00\x00.", 8, "only 1 are left");
    memset(deep + 2, '(', 100);
    expect_refused(deep, 102, "nested more than 64 deep");
}

/* Marks, memo numbers and empty lists cost one byte of a file and many of memory. */
TEST(a_file_made_to_eat_memory_is_stopped)
{
    size_t count = (size_t)8 << 20;
    char *bytes = malloc(count);

    REQUIRE(bytes);
    for (int which = 0; which < 2; which++) {
        memset(bytes, which ? ']' : 'N', count);
        if (which)
            for (size_t i = 3; i < count; i += 2)
                bytes[i] = (char)0x94;
        memcpy(bytes, "\x80\x04", 2);
        struct snapshot *snapshot = NULL;
        EXPECT_EQ(read_bytes(bytes, count, &snapshot), ACRE_ERR_FORMAT);
    }
    free(bytes);
}

TEST(every_host_allocation_may_fail)
{
    const char *path = files_write("snapshot.pickle", sample, sizeof sample - 1);

    for (unsigned nth = 1;; nth++) {
        struct snapshot *snapshot = NULL;
        uint64_t live = heap_live_count();
        heap_fail_nth(nth);
        acre_status status = snapshot_read(path, &snapshot);
        if (!heap_fail_disarm()) {
            EXPECT_EQ(status, ACRE_OK);
            snapshot_destroy(snapshot);
            break;
        }
        EXPECT_EQ(status, ACRE_ERR_HOST_MEMORY);
        EXPECT_EQ(heap_live_count(), live);
    }
}

T_MAIN()
