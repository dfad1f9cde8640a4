/* SPDX-License-Identifier: MIT */
#include "format/snapshot/pickle_read.h"

#include "base/check.h"
#include "base/status.h"
#include "format/snapshot/pickle_event.h"
#include "format/snapshot/pickle_op.h"

#include <string.h>

/* Longest text that is read. */
#define TEXT_BYTES_MAX_READ ((uint64_t)64 << 20)

/* Instructions that snapshots never have. */
static const struct {
    unsigned char code;
    bool is_code; /* names or calls functions */
    const char *name;
} refused[] = {
    {'c', true, "GLOBAL"},
    {'R', true, "REDUCE"},
    {'b', true, "BUILD"},
    {'i', true, "INST"},
    {'o', true, "OBJ"},
    {'P', true, "PERSID"},
    {'Q', true, "BINPERSID"},
    {0x81, true, "NEWOBJ"},
    {0x92, true, "NEWOBJ_EX"},
    {0x93, true, "STACK_GLOBAL"},
    {0x82, true, "EXT1"},
    {0x83, true, "EXT2"},
    {0x84, true, "EXT4"},
    {'0', false, "POP"},
    {'1', false, "POP_MARK"},
    {'2', false, "DUP"},
    {'F', false, "FLOAT"},
    {'I', false, "INT"},
    {'L', false, "LONG"},
    {'S', false, "STRING"},
    {'T', false, "BINSTRING"},
    {'U', false, "SHORT_BINSTRING"},
    {'V', false, "UNICODE"},
    {'g', false, "GET"},
    {'p', false, "PUT"},
    {'B', false, "BINBYTES"},
    {'C', false, "SHORT_BINBYTES"},
    {0x8b, false, "LONG4"},
    {0x8d, false, "BINUNICODE8"},
    {0x8e, false, "BINBYTES8"},
    {0x8f, false, "EMPTY_SET"},
    {0x90, false, "ADDITEMS"},
    {0x91, false, "FROZENSET"},
    {0x96, false, "BYTEARRAY8"},
    {0x97, false, "NEXT_BUFFER"},
    {0x98, false, "READONLY_BUFFER"},
};

static acre_status pickle_read_refuse(const struct builder *builder, unsigned char code)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (refused[i].code == code && refused[i].is_code)
            return BUILDER_FAIL(builder,
                                "the pickle has the instruction %s, which runs code; "
                                "memory snapshots never do: do not load this file anywhere",
                                refused[i].name);
        else if (refused[i].code == code)
            return BUILDER_FAIL(builder,
                                "the pickle has the instruction %s, which memory "
                                "snapshots do not have; save it with "
                                "torch.cuda.memory._dump_snapshot",
                                refused[i].name);
    return BUILDER_FAIL(builder,
                        "0x%02x is no pickle instruction; the file is damaged or no "
                        "memory snapshot",
                        code);
}

/* How many bytes follow the code of an instruction; texts have more. */
static unsigned argument_bytes(unsigned char code)
{
    switch (code) {
    case OP_PROTO:
    case OP_BININT1:
    case OP_BINGET:
    case OP_BINPUT:
    case OP_LONG1:
    case OP_SHORT_BINUNICODE:
        return 1;
    case OP_BININT2:
        return 2;
    case OP_BININT:
    case OP_BINUNICODE:
    case OP_LONG_BINGET:
    case OP_LONG_BINPUT:
        return 4;
    case OP_BINFLOAT:
    case OP_FRAME:
        return 8;
    default:
        return 0;
    }
}

static acre_status read_text(struct input *input, struct builder *builder, uint64_t length)
{
    const char *text = NULL;

    if (length > TEXT_BYTES_MAX_READ)
        return BUILDER_FAIL(builder, "a text has %llu bytes, more than the %llu that are read",
                            (unsigned long long)length, (unsigned long long)TEXT_BYTES_MAX_READ);
    acre_status status = input_take(input, length, &text);
    return status == ACRE_OK ? builder_push_string(builder, text, length) : status;
}

/* A number of up to 8 bytes with a sign, or of 8 without and a leading zero. */
static acre_status read_long(struct input *input, struct builder *builder, unsigned length)
{
    const char *text = NULL;
    uint64_t number = 0;
    acre_status status = input_take(input, length, &text);

    if (status != ACRE_OK)
        return status;
    if (length > 9 || (length == 9 && text[8] != 0))
        return BUILDER_FAIL(builder, "a number has %u bytes; addresses and sizes have 8", length);
    for (unsigned i = 0; i < length && i < 8; i++)
        number |= (uint64_t)(unsigned char)text[i] << (8 * i);
    if (length == 9)
        return builder_push_unsigned(builder, number);
    if (length > 0 && length < 8 && text[length - 1] & 0x80)
        number |= ~(uint64_t)0 << (8 * length);
    return builder_push_integer(builder, (int64_t)number);
}

static acre_status read_real(struct builder *builder, const unsigned char *at)
{
    uint64_t bits = 0;
    double number;

    for (int i = 0; i < 8; i++)
        bits = bits << 8 | at[i];
    memcpy(&number, &bits, sizeof number);
    return builder_push_real(builder, number);
}

static acre_status read_protocol(struct builder *builder, unsigned version)
{
    if (version >= 2 && version <= 5)
        return ACRE_OK;
    return BUILDER_FAIL(builder,
                        "the file is a pickle of protocol %u; 2 to 5 are read: save it "
                        "again with pickle.dump(snapshot, file, protocol=4)",
                        version);
}

/* Instructions that build from what stands on the stack. */
static acre_status run_building(struct builder *builder, unsigned char code)
{
    switch (code) {
    case OP_APPEND:
        return builder_append(builder, false);
    case OP_APPENDS:
        return builder_append(builder, true);
    case OP_SETITEM:
        return builder_set(builder, false);
    case OP_SETITEMS:
        return builder_set(builder, true);
    case OP_DICT:
        return builder_collect(builder, OBJECT_NEW_DICT);
    case OP_LIST:
        return builder_collect(builder, OBJECT_NEW_LIST);
    case OP_TUPLE:
        return builder_collect(builder, OBJECT_NEW_TUPLE);
    case OP_TUPLE1:
    case OP_TUPLE2:
    case OP_TUPLE3:
        return builder_tuple(builder, code - OP_TUPLE1 + 1u);
    case OP_EMPTY_DICT:
        return builder_push_object(builder, OBJECT_NEW_DICT);
    case OP_EMPTY_LIST:
        return builder_push_object(builder, OBJECT_NEW_LIST);
    case OP_EMPTY_TUPLE:
        return builder_push_object(builder, OBJECT_NEW_TUPLE);
    case OP_MARK:
        return builder_mark(builder);
    case OP_MEMOIZE:
        return builder_memo_put(builder, builder->memo.count);
    case OP_NONE:
        return builder_push(builder, VALUE_NONE);
    case OP_NEWTRUE:
        return builder_push(builder, VALUE_TRUE);
    case OP_NEWFALSE:
        return builder_push(builder, VALUE_FALSE);
    default:
        return pickle_read_refuse(builder, code);
    }
}

/* One instruction; argument points behind its code. */
static inline acre_status pickle_read_run(struct input *input, struct builder *builder,
                                          unsigned char code, const unsigned char *argument)
{
    switch (code) {
    case OP_BINGET:
        return builder_memo_get(builder, argument[0]);
    case OP_LONG_BINGET:
        return builder_memo_get(builder, pickle_op_little32(argument));
    case OP_BININT1:
        return builder_push(builder, VALUE(TAG_INTEGER, argument[0]));
    case OP_BININT2:
        return builder_push(builder, VALUE(TAG_INTEGER, argument[0] | argument[1] << 8));
    case OP_BININT:
        return builder_push_integer(builder, (int32_t)pickle_op_little32(argument));
    case OP_LONG1:
        return read_long(input, builder, argument[0]);
    case OP_BINFLOAT:
        return read_real(builder, argument);
    case OP_SHORT_BINUNICODE:
        return read_text(input, builder, argument[0]);
    case OP_BINUNICODE:
        return read_text(input, builder, pickle_op_little32(argument));
    case OP_BINPUT:
        return builder_memo_put(builder, argument[0]);
    case OP_LONG_BINPUT:
        return builder_memo_put(builder, pickle_op_little32(argument));
    case OP_PROTO:
        return read_protocol(builder, argument[0]);
    case OP_FRAME:
        return ACRE_OK; /* lengths of frames are a hint for other readers */
    default:
        return run_building(builder, code);
    }
}

static acre_status fail_end(struct input *input, struct builder *builder)
{
    builder->offset = input_offset(input);
    return BUILDER_FAIL(builder, "%s",
                        "the pickle ends before its STOP; the file is truncated: "
                        "copy or save it again");
}

acre_status pickle_read(struct input *input, struct builder *builder)
{
    for (;;) {
        bool is_there = true;
        acre_status status = ACRE_OK;
        if (UNLIKELY(!input_has(input, 16)))
            status = input_fill(input, 16, &is_there);
        if (status == ACRE_OK && !is_there)
            is_there = input_has(input, 1) &&
                       input_has(input, 1 + argument_bytes(input->window[input->at]));
        if (status == ACRE_OK && !is_there)
            return fail_end(input, builder);
        if (status != ACRE_OK)
            return status;
        unsigned char code = input->window[input->at];
        const unsigned char *argument = input->window + input->at + 1;
        builder->offset = input_offset(input);
        if (code == OP_EMPTY_DICT) {
            size_t count = 0;
            status = pickle_event_read(input, builder, &count);
            if (UNLIKELY(status != ACRE_OK))
                return status;
            if (count)
                continue;
        }
        if (code == OP_STOP) {
            input->at++;
            return input_drain(input);
        }
        input->at += 1 + argument_bytes(code);
        status = pickle_read_run(input, builder, code, argument);
        if (UNLIKELY(status != ACRE_OK))
            return status;
    }
}
