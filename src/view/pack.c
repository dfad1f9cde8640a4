/* SPDX-License-Identifier: MIT */
#include "view/pack.h"

#include "base/heap.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void pack_fini(struct pack *pack)
{
    heap_free(pack->bytes);
    memset(pack, 0, sizeof *pack);
}

void pack_clear(struct pack *pack)
{
    pack->count = 0;
    pack->last = 0;
}

acre_status pack_status(const struct pack *pack)
{
    return pack->is_lost ? ACRE_ERR_HOST_MEMORY : ACRE_OK;
}

static bool pack_reserve(struct pack *pack, size_t more)
{
    if (pack->is_lost)
        return false;
    if (more <= pack->capacity - pack->count)
        return true;
    size_t capacity = (pack->count + more) * 2 + 256;
    unsigned char *bytes = heap_realloc(pack->bytes, capacity);
    if (!bytes) {
        pack->is_lost = true;
        return false;
    }
    pack->bytes = bytes;
    pack->capacity = capacity;
    return true;
}

void pack_bytes(struct pack *pack, const void *bytes, size_t count)
{
    if (!count || !pack_reserve(pack, count))
        return;
    memcpy(pack->bytes + pack->count, bytes, count);
    pack->count += count;
}

void pack_text(struct pack *pack, const char *format, ...)
{
    char buffer[512];
    va_list args;

    va_start(args, format);
    int length = vsnprintf(buffer, sizeof buffer, format, args);
    va_end(args);
    if (length > 0)
        pack_bytes(pack, buffer,
                   (size_t)length < sizeof buffer ? (size_t)length : sizeof buffer - 1);
}

void pack_number(struct pack *pack, uint64_t value)
{
    if (!pack_reserve(pack, 10))
        return;
    while (value >= 0x80) {
        pack->bytes[pack->count++] = (unsigned char)(value | 0x80);
        value >>= 7;
    }
    pack->bytes[pack->count++] = (unsigned char)value;
}

void pack_step(struct pack *pack, uint64_t value)
{
    uint64_t step = value - pack->last;

    pack_number(pack, step << 1 ^ (0 - (step >> 63)));
    pack->last = value;
}

/* Length of the UTF-8 sequence at text, or 0 when it is none; surrogates and
 * overlong forms are none. */
static size_t utf8_length(const unsigned char *text, size_t left)
{
    size_t count = *text < 0x80   ? 1
                   : *text < 0xc2 ? 0
                   : *text < 0xe0 ? 2
                   : *text < 0xf0 ? 3
                   : *text < 0xf5 ? 4
                                  : 0;

    if (count == 0 || count > left)
        return 0;
    for (size_t i = 1; i < count; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    if ((*text == 0xe0 && text[1] < 0xa0) || (*text == 0xed && text[1] >= 0xa0) ||
        (*text == 0xf0 && text[1] < 0x90) || (*text == 0xf4 && text[1] >= 0x90))
        return 0;
    return count;
}

void pack_json(struct pack *pack, const char *text, size_t length)
{
    const unsigned char *at = (const unsigned char *)text;
    const unsigned char *end = length ? at + length : at; /* an empty text may be NULL */

    pack_bytes(pack, "\"", 1);
    while (at < end) {
        size_t count = utf8_length(at, (size_t)(end - at));
        if (count == 0) {
            pack_bytes(pack, "\\ufffd", 6);
            count = 1;
        } else if (count == 1 && (*at < 0x20 || strchr("\"\\<>&'\x7f", *at)))
            pack_text(pack, "\\u%04x", *at);
        else
            pack_bytes(pack, at, count);
        at += count;
    }
    pack_bytes(pack, "\"", 1);
}
