/* SPDX-License-Identifier: MIT */
/* Events that are read in one go are those that are read step by step. */
#include "format/snapshot/pickle_event.h"

#include "tests/support/dice.h"
#include "tests/support/files.h"
#include "tests/support/t.h"

#define EVENTS 60

/* A pickle under way. */
static unsigned char bytes[65536];
static size_t count;
static unsigned memo; /* places taken */

static void put(const void *from, size_t length)
{
    REQUIRE(count + length <= sizeof bytes);
    memcpy(bytes + count, from, length);
    count += length;
}

static void put_byte(unsigned byte)
{
    put((unsigned char[]){(unsigned char)byte}, 1);
}

/* A place in the memo, in one of three ways; gives its number. */
static unsigned put_place(unsigned way)
{
    if (way == 0)
        put_byte(0x94);
    else if (way == 1 && memo < 256)
        put((unsigned char[]){'q', (unsigned char)memo}, 2);
    else
        put((unsigned char[]){'r', (unsigned char)memo, (unsigned char)(memo >> 8), 0, 0}, 5);
    return memo++;
}

static unsigned put_text(const char *text)
{
    put((unsigned char[]){0x8c, (unsigned char)strlen(text)}, 2);
    put(text, strlen(text));
    return put_place(0);
}

static void put_get(unsigned place)
{
    if (place < 256 && place % 2)
        put((unsigned char[]){'h', (unsigned char)place}, 2);
    else
        put((unsigned char[]){'j', (unsigned char)place, (unsigned char)(place >> 8), 0, 0}, 5);
}

/* A number, in as many bytes as its size in bits asks for. */
static void put_number(int64_t number)
{
    unsigned char text[8];

    for (int i = 0; i < 8; i++)
        text[i] = (unsigned char)((uint64_t)number >> 8 * i);
    if (number >= 0 && number < 256)
        put((unsigned char[]){'K', text[0]}, 2);
    else if (number >= 0 && number < 65536)
        put((unsigned char[]){'M', text[0], text[1]}, 3);
    else if (number >= INT32_MIN && number <= INT32_MAX)
        put((unsigned char[]){'J', text[0], text[1], text[2], text[3]}, 5);
    else {
        put((unsigned char[]){0x8a, 8}, 2);
        put(text, 8);
        if (number >= -((int64_t)1 << 55) && number < (int64_t)1 << 55) {
            bytes[count - 9] = 7;
            count--;
        }
    }
}

/* Where names and a stack are in the memo. */
struct places {
    unsigned action, alloc, free, addr, size, stream, time_us, context, pool, frames, none, stack,
        other;
};

static struct places put_names(void)
{
    struct places at = {.action = put_text("action"), .alloc = put_text("alloc")};

    at.free = put_text("free_completed");
    at.addr = put_text("addr");
    at.size = put_text("size");
    at.stream = put_text("stream");
    at.time_us = put_text("time_us");
    at.context = put_text("compile_context");
    at.pool = put_text("pool_id");
    at.frames = put_text("frames");
    at.none = put_text("N/A");
    at.other = put_text("something else");
    put_byte(']');
    at.stack = put_place(0);
    return at;
}

/* Begins a snapshot and a list of the names that events need, which stays open. */
static struct places begin_names(void)
{
    count = memo = 0;
    put("\x80\x04}(", 4);
    put_text("segments"), put_byte(']');
    put_text("names"), put("](", 2);
    return put_names();
}

static void put_pool(void)
{
    put_number((int64_t)below(3));
    put_number((int64_t)below(2));
    put_byte(0x86);
    if (below(2))
        put_place((unsigned)below(3));
}

/* One event. With is_slow it has a key that no event has, so that it is read step by step. */
static void put_event(const struct places *at, bool is_slow)
{
    static const int64_t numbers[] = {0, 77, 4096, 1 << 30, -5, (int64_t)1 << 40,
                                      (int64_t)3 << 57, -((int64_t)1 << 50)};

    put_byte('}');
    put_place((unsigned)below(3));
    put_byte('(');
    put_get(at->action), put_get(below(2) ? at->alloc : at->free);
    put_get(at->addr), put_number(140000000000000 + (int64_t)below(1000));
    put_get(at->size), put_number(numbers[below(8)]);
    if (below(2))
        put_get(at->stream), put_number(numbers[below(8)]);
    if (below(2))
        put_get(at->time_us), put_number(1700000000000000 + (int64_t)below(1000));
    if (below(2))
        put_get(at->context), below(2) ? put_get(at->none) : put_byte('N');
    if (below(2))
        put_get(at->pool), put_pool();
    if (below(2))
        put_get(at->frames), put_get(at->stack);
    if (is_slow)
        put_get(at->other), put_number(1);
    put_byte('u');
}

/* {"segments": [], "names": [...], "device_traces": [[events]]} */
static struct snapshot *snapshot_of(uint64_t round, bool is_slow, size_t *out_bytes)
{
    struct snapshot *snapshot = NULL;

    dice_begin();
    dice_state += round;
    struct places at = begin_names();
    put_byte('e');
    put_text("device_traces"), put("](](", 4);
    for (int i = 0; i < EVENTS; i++)
        put_event(&at, is_slow);
    put("eeu.", 4);
    *out_bytes = count;
    REQUIRE_OK(snapshot_read(files_write("events.pickle", bytes, count), &snapshot));
    return snapshot;
}

TEST(events_in_one_go_equal_events_step_by_step)
{
    for (uint64_t round = 0; round < 20; round++) {
        size_t unused;
        struct snapshot *fast = snapshot_of(round, false, &unused);
        struct snapshot *slow = snapshot_of(round, true, &unused);
        REQUIRE_EQ(fast->entry_count, EVENTS);
        REQUIRE_EQ(slow->entry_count, EVENTS);
        EXPECT(memcmp(fast->entries, slow->entries, EVENTS * sizeof *fast->entries) == 0);
        REQUIRE_EQ(fast->origin_count, slow->origin_count);
        EXPECT(memcmp(fast->origins, slow->origins,
                      fast->origin_count * sizeof *fast->origins) == 0);
        EXPECT_EQ(fast->pool_count, slow->pool_count);
        EXPECT_EQ(fast->devices[0].entry_count, EVENTS);
        snapshot_destroy(fast);
        snapshot_destroy(slow);
    }
}

TEST(truncations_and_changes_are_refused_or_read)
{
    size_t length;
    struct snapshot *snapshot = snapshot_of(7, false, &length);

    snapshot_destroy(snapshot);
    for (size_t i = length - 700; i < length; i++) {
        snapshot = NULL;
        EXPECT_EQ(snapshot_read(files_write("cut.pickle", bytes, i), &snapshot), ACRE_ERR_FORMAT);
        unsigned char before = bytes[i];
        bytes[i] = (unsigned char)below(256);
        if (snapshot_read(files_write("changed.pickle", bytes, length), &snapshot) == ACRE_OK)
            snapshot_destroy(snapshot);
        bytes[i] = before;
    }
}

/* A key that is set later changes the event, by its place in the memo. */
TEST(an_event_may_be_changed_by_its_place)
{
    static const char text[] = "\x80\x04}(\x8c\x08segments\x94]\x8c\x0d" "device_traces\x94](](";
    struct snapshot *snapshot = NULL;

    count = 0;
    put(text, sizeof text - 1);
    memo = 2;
    put("}(", 2); /* written step by step, as its keys are texts */
    unsigned action = put_text("action"), alloc = put_text("alloc"), size = put_text("size");
    put("K\x05u", 3);
    put_byte('}');
    unsigned second = put_place(0);
    put_byte('(');
    put_get(action), put_get(alloc), put_get(size), put_number(6);
    put("uee", 3);
    put_text("again");
    put_get(second);
    put_byte('(');
    put_get(size), put_number(9);
    put("uu.", 3);
    REQUIRE_OK(snapshot_read(files_write("later.pickle", bytes, count), &snapshot));
    REQUIRE_EQ(snapshot->entry_count, 2);
    EXPECT_EQ(snapshot->entries[0].bytes, 5);
    EXPECT_EQ(snapshot->entries[1].bytes, 9);
    EXPECT_EQ(snapshot->entries[1].action, SNAP_ALLOC);
    snapshot_destroy(snapshot);
}

/* Windows end within events, and places in the memo that only count up are still found. */
TEST(a_long_history_keeps_every_place)
{
    enum { LONG = 30000, EVENT_BYTES = 22 };
    static unsigned char text[4096 + LONG * EVENT_BYTES];
    struct snapshot *snapshot = NULL;

    struct places at = begin_names();
    put_byte('e');
    put_text("device_traces"), put("](](", 4);
    size_t length = count;
    unsigned first = memo;
    memcpy(text, bytes, length);
    for (unsigned i = 0; i < LONG; i++) {
        count = 0;
        put_byte('}'), put_place(0);
        put_byte('(');
        put_get(at.action), put_get(at.alloc), put_get(at.size), put_number(i);
        put_byte('u');
        memcpy(text + length, bytes, count);
        length += count;
    }
    count = 0;
    put("ee", 2);
    for (unsigned i = 0; i < LONG; i += 977) { /* changed by their places */
        put_text("again"), put_get(first + i);
        put_byte('('), put_get(at.size), put_number(7), put_byte('u');
    }
    put("u.", 2);
    memcpy(text + length, bytes, count);
    length += count;
    REQUIRE_OK(snapshot_read(files_write("long.pickle", text, length), &snapshot));
    REQUIRE_EQ(snapshot->entry_count, LONG);
    for (unsigned i = 0; i < LONG; i++)
        EXPECT_EQ(snapshot->entries[i].bytes, i % 977 ? i : 7);
    snapshot_destroy(snapshot);
}

/* Reads an event whose frames are what a place in the memo has, and one behind it. Gives where
 * the instructions stand that recall them and that set the keys. */
static acre_status read_frames(unsigned place, size_t *out_get, size_t *out_set)
{
    struct snapshot *snapshot = NULL;

    struct places at = begin_names();
    put("Nr\x20\0\0\0", 6); /* place 32; those before it are empty */
    memo = 33;
    put_byte('e');
    put_text("device_traces"), put("](](", 4);
    put("}(", 2);
    put_get(at.action), put_get(at.alloc), put_get(at.size), put_number(5), put_get(at.frames);
    *out_get = count;
    put_get(place);
    *out_set = count;
    put("u}(", 3);
    put_get(at.action), put_get(at.alloc), put_get(at.size), put_number(6);
    put("ueeu.", 5);
    acre_status status = snapshot_read(files_write("frames.pickle", bytes, count), &snapshot);
    if (status == ACRE_OK) {
        EXPECT_EQ(snapshot->entries[0].stack, SNAP_NONE);
        EXPECT_EQ(snapshot->entries[0].has, place == 32 ? 0 : SNAP_HAS_FRAMES);
        snapshot_destroy(snapshot);
    }
    return status;
}

TEST(stacks_that_are_looked_up_later_are_checked)
{
    char where[64];
    size_t get, set;

    EXPECT_EQ(read_frames(32, &get, &set), ACRE_OK); /* None */
    EXPECT_EQ(read_frames(14, &get, &set), ACRE_OK); /* the stack */
    EXPECT_EQ(read_frames(4, &get, &set), ACRE_ERR_FORMAT); /* a text */
    snprintf(where, sizeof where, "at offset %zu: the key \"frames\" is not a list", set);
    EXPECT_HAS(acre_last_error(), where);
    EXPECT_EQ(read_frames(20, &get, &set), ACRE_ERR_FORMAT); /* nothing */
    snprintf(where, sizeof where, "at offset %zu: memo 20 was never set", get);
    EXPECT_HAS(acre_last_error(), where);
    EXPECT_EQ(read_frames(1000, &get, &set), ACRE_ERR_FORMAT); /* beyond all */
    snprintf(where, sizeof where, "at offset %zu: memo 1000 was never set", get);
    EXPECT_HAS(acre_last_error(), where);
}

T_MAIN()
