/* SPDX-License-Identifier: MIT */
#include "base/text.h"

#include "base/bits.h"
#include "base/check.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool text_parse_unsigned(const char *text, size_t length, uint64_t *out)
{
    uint64_t value = 0;

    if (length == 0)
        return false;
    for (size_t i = 0; i < length; i++) {
        unsigned digit = (unsigned)(unsigned char)text[i] - '0';
        if (digit > 9 || __builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, digit, &value))
            return false;
    }
    *out = value;
    return true;
}

/* Bits to shift for a unit, or -1. */
static int unit_shift(const char *unit, size_t length)
{
    static const char letters[] = "kmgt";

    if (length == 0 || (length == 1 && (*unit == 'b' || *unit == 'B')))
        return 0;
    for (int i = 0; letters[i]; i++) {
        if ((*unit | 0x20) != letters[i])
            continue;
        if (length == 1 || (length == 2 && strncasecmp(unit + 1, "b", 1) == 0) ||
            (length == 3 && strncasecmp(unit + 1, "ib", 2) == 0))
            return (i + 1) * 10;
    }
    return -1;
}

bool text_parse_bytes(const char *text, size_t length, uint64_t *out)
{
    size_t digits = 0;
    uint64_t value;

    while (digits < length && text[digits] >= '0' && text[digits] <= '9')
        digits++;
    int shift = unit_shift(text + digits, length - digits);
    if (shift < 0 || !text_parse_unsigned(text, digits, &value) || value > UINT64_MAX >> shift)
        return false;
    *out = value << shift;
    return true;
}

bool text_parse_fraction(const char *text, size_t length, double *out)
{
    char copy[64], *end;

    if (length == 0 || length >= sizeof copy)
        return false;
    for (size_t i = 0; i < length; i++) {
        bool is_sign = text[i] == '-' || text[i] == '+';
        if (!memchr("0123456789.eE+-", text[i], 15) ||
            (is_sign && (i == 0 || (text[i - 1] | 0x20) != 'e')))
            return false;
    }
    memcpy(copy, text, length);
    copy[length] = '\0';

    /* glibc gives the C locale without taking memory. */
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!plain)
        return false;
    double value = strtod_l(copy, &end, plain);
    freelocale(plain);
    if (end != copy + length)
        return false;
    *out = value;
    return true;
}

const char *text_bytes(char buffer[TEXT_BYTES_MAX], uint64_t bytes)
{
    if (bytes <= KIB)
        snprintf(buffer, TEXT_BYTES_MAX, "%llu bytes", (unsigned long long)bytes);
    else if (bytes <= MIB)
        snprintf(buffer, TEXT_BYTES_MAX, "%.2f KiB", (double)bytes / (double)KIB);
    else if (bytes <= GIB)
        snprintf(buffer, TEXT_BYTES_MAX, "%.2f MiB", (double)bytes / (double)MIB);
    else
        snprintf(buffer, TEXT_BYTES_MAX, "%.2f GiB", (double)bytes / (double)GIB);
    return buffer;
}

void text_init(struct text *text, char *buffer, size_t size)
{
    CHECK(size > 0);
    *text = (struct text){.buffer = buffer, .size = size};
    buffer[0] = '\0';
}

void text_add(struct text *text, const char *format, ...)
{
    size_t room = text->size - text->length;
    va_list args;

    va_start(args, format);
    int wanted = vsnprintf(text->buffer + text->length, room, format, args);
    va_end(args);
    if (wanted < 0 || (size_t)wanted >= room) {
        text->is_cut = true;
        text->length += strlen(text->buffer + text->length);
    } else {
        text->length += (size_t)wanted;
    }
}

void text_add_bytes(struct text *text, uint64_t bytes)
{
    char buffer[TEXT_BYTES_MAX];

    text_add(text, "%s", text_bytes(buffer, bytes));
}

void text_add_bytes_beside(struct text *text, uint64_t bytes, uint64_t other)
{
    char one[TEXT_BYTES_MAX], two[TEXT_BYTES_MAX];

    text_bytes(one, bytes);
    text_bytes(two, other);
    if (bytes != other && strcmp(one, two) == 0)
        text_add(text, "%llu bytes", (unsigned long long)bytes);
    else
        text_add(text, "%s", one);
}

/* ---- Terminals ---------------------------------------------------------------------------- */

/* Bytes of the character at text, which becomes *out; 0: it is not UTF-8. */
static int character_read(const unsigned char *text, uint32_t *out)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    int bytes = text[0] < 0x80             ? 1
                : (text[0] & 0xe0) == 0xc0 ? 2
                : (text[0] & 0xf0) == 0xe0 ? 3
                : (text[0] & 0xf8) == 0xf0 ? 4
                                           : 0;

    *out = bytes <= 1 ? text[0] : text[0] & (0x7fu >> bytes);
    for (int i = 1; i < bytes; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        *out = *out << 6 | (text[i] & 0x3f);
    }
    return bytes > 1 && (*out < least[bytes] || *out > 0x10ffff) ? 0 : bytes;
}

static bool character_is_tame(uint32_t c)
{
    bool is_control = (c < 0x20 && c != '\t' && c != '\n') || (c >= 0x7f && c < 0xa0);
    bool is_format = (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
                     (c >= 0x2060 && c <= 0x206f) || c == 0x61c || c == 0xfeff ||
                     (c >= 0xe0000 && c <= 0xe007f);
    bool is_surrogate = c >= 0xd800 && c < 0xe000;

    return !is_control && !is_format && !is_surrogate;
}

void text_tame(char *text)
{
    unsigned char *from = (unsigned char *)text, *to = from;

    while (*from) {
        uint32_t c;
        int bytes = character_read(from, &c);
        if (bytes > 0 && character_is_tame(c)) {
            memmove(to, from, (size_t)bytes);
            to += bytes;
        } else {
            *to++ = '?';
        }
        from += bytes > 0 ? bytes : 1;
    }
    *to = 0;
}
