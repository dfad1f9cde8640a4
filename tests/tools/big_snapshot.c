/* SPDX-License-Identifier: MIT */
/* big_snapshot OUT EVENTS [STACKS]: writes a snapshot with a long history as Python's
 * pickle module would: every dict, list and text has a number, keys and stacks are
 * referred to by theirs. Allocations and frees of random sizes in one segment each. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIVE 4096
#define DEPTH 40

static FILE *out;
static uint32_t memo_count;
static uint64_t state = 88172645463325252u;

static uint64_t draw(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static void put(const void *bytes, size_t count)
{
    if (fwrite(bytes, 1, count, out) != count) {
        perror("big_snapshot");
        exit(2);
    }
}

static uint32_t memoize(void)
{
    put("\x94", 1);
    return memo_count++;
}

static void get(uint32_t memo)
{
    unsigned char bytes[5] = {memo < 256 ? 'h' : 'j', (unsigned char)memo,
                              (unsigned char)(memo >> 8), (unsigned char)(memo >> 16),
                              (unsigned char)(memo >> 24)};
    put(bytes, memo < 256 ? 2 : 5);
}

static uint32_t text(const char *value)
{
    unsigned char head[2] = {0x8c, (unsigned char)strlen(value)};

    put(head, 2);
    put(value, strlen(value));
    return memoize();
}

static void number(uint64_t value)
{
    unsigned char bytes[10] = {0x8a, 8};

    if (value < 256) {
        bytes[0] = 'K';
        bytes[1] = (unsigned char)value;
        put(bytes, 2);
        return;
    }
    if (value < 65536) {
        bytes[0] = 'M';
        memcpy(bytes + 1, &value, 2);
        put(bytes, 3);
        return;
    }
    if (value < 0x80000000u) {
        bytes[0] = 'J';
        memcpy(bytes + 1, &value, 4);
        put(bytes, 5);
        return;
    }
    unsigned length = 8;
    while (length > 1 && !(value >> (8 * length - 9)))
        length--;
    bytes[1] = (unsigned char)length;
    memcpy(bytes + 2, &value, length);
    put(bytes, 2 + length);
}

enum { ACTION, ADDR, SIZE, STREAM, TIME, CONTEXT, METADATA, FRAMES, NONE, EMPTY, ALLOC, ASK, DONE,
       NAMES };
static const char *const names[NAMES] = {"action", "addr", "size", "stream", "time_us",
                                         "compile_context", "user_metadata", "frames", "N/A", "",
                                         "alloc", "free_requested", "free_completed"};
static uint32_t memos[NAMES];
static bool is_known[NAMES];

static void name(int which)
{
    if (is_known[which])
        get(memos[which]);
    else
        memos[which] = text(names[which]);
    is_known[which] = true;
}

static uint32_t *stacks;
static uint32_t stack_count, stack_max, *frames, frame_count;
static uint32_t filename_memo, line_memo, name_memo;
static bool has_frame_keys;

/* A frame dict, new for the first few hundred and shared afterwards. */
static void frame(void)
{
    char value[64];

    if (frame_count >= 2000) {
        get(frames[draw() % frame_count]);
        return;
    }
    put("}", 1);
    frames[frame_count++] = memoize();
    put("(", 1);
    has_frame_keys ? get(filename_memo) : (void)(filename_memo = text("filename"));
    snprintf(value, sizeof value, "/srv/job/module_%u.py", frame_count / 8);
    text(value);
    has_frame_keys ? get(line_memo) : (void)(line_memo = text("line"));
    number(frame_count);
    has_frame_keys ? get(name_memo) : (void)(name_memo = text("name"));
    snprintf(value, sizeof value, "function_%u", frame_count);
    text(value);
    has_frame_keys = true;
    put("u", 1);
}

static void stack(void)
{
    if (stack_count == stack_max) {
        get(stacks[draw() % stack_count]);
        return;
    }
    put("]", 1);
    stacks[stack_count++] = memoize();
    put("(", 1);
    for (int i = 0; i < DEPTH; i++)
        frame();
    put("e", 1);
}

static void event(int action, uint64_t address, uint64_t size, uint64_t time)
{
    put("}", 1);
    memoize();
    put("(", 1);
    name(ACTION);
    name(action);
    name(ADDR);
    number(address);
    name(SIZE);
    number(size);
    name(STREAM);
    number(0);
    name(TIME);
    number(time);
    name(CONTEXT);
    name(NONE);
    name(METADATA);
    name(EMPTY);
    name(FRAMES);
    stack();
    put("u", 1);
}

int main(int argc, char **argv)
{
    static uint64_t sizes[LIVE];
    uint64_t count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000;

    stack_max = argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 20000;
    out = argc > 1 ? fopen(argv[1], "wb") : NULL;
    stacks = calloc((size_t)stack_max + 1, sizeof *stacks);
    frames = calloc(4096, sizeof *frames);
    if (!out || !stacks || !frames) {
        perror("big_snapshot");
        return 2;
    }
    put("\x80\x04}", 3);
    memoize();
    put("(", 1);
    text("segments");
    put("]", 1);
    memoize();
    text("device_traces");
    put("]", 1);
    memoize();
    put("]", 1);
    memoize();
    put("(", 1);
    for (uint64_t i = 0, written = 0, now = 1700000000000000; written < count; i++, now += 7) {
        uint64_t slot = draw() % LIVE, address = 0x7f0000000000 + (slot << 25);
        if (written && written % 999 < 3)
            put("e(", 2);
        if (!sizes[slot]) {
            sizes[slot] = 1 + draw() % (20 << 20);
            event(ALLOC, address, sizes[slot], now);
            written++;
            continue;
        }
        event(ASK, address, sizes[slot], now);
        event(DONE, address, sizes[slot], now);
        sizes[slot] = 0;
        written += 2;
    }
    put("eau.", 4);
    if (fclose(out) != 0) {
        perror("big_snapshot");
        return 2;
    }
    free(stacks);
    free(frames);
    return 0;
}
