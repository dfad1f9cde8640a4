/* SPDX-License-Identifier: MIT */
/* Sizes as people write them, and texts that never outgrow their buffer. */
#ifndef SRC_BASE_TEXT_H
#define SRC_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads the whole of text[0..length) as an unsigned decimal number: digits
 * only. False when it is anything else or does not fit; out is untouched. */
bool text_parse_unsigned(const char *text, size_t length, uint64_t *out);

/* Reads a size: a decimal number and a unit. Units are powers of two whatever
 * their spelling: none or B; K, KB, KiB; the same with M, G, T; capitals do not
 * matter. False as above. */
bool text_parse_bytes(const char *text, size_t length, uint64_t *out);

/* Reads the whole of text as a plain decimal fraction such as 0.8 or 1e-9; no
 * sign, no "inf", no "nan", whatever the locale. */
bool text_parse_fraction(const char *text, size_t length, double *out);

/* The ending of a noun behind a count: "" for one, "s" for any other number. */
static inline const char *text_plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

#define TEXT_BYTES_MAX 32

/* Writes a size as out-of-memory reports show it: "N bytes" up to 1024, KiB up
 * to 2^20, MiB up to 2^30, else GiB, with two decimals. Returns buffer. */
const char *text_bytes(char buffer[TEXT_BYTES_MAX], uint64_t bytes);

/* Makes a text harmless on a terminal: control characters other than tab and newline, bytes that
 * are not UTF-8, and characters that reverse or hide what is written become "?". */
void text_tame(char *text);

/* A text under construction. Always zero-terminated; what does not fit is left
 * out and is_cut says so. The buffer belongs to the caller. */
struct text {
    char *buffer;
    size_t size;   /* of the buffer, at least 1       */
    size_t length; /* of the text, without the zero   */
    bool is_cut;
};

void text_init(struct text *text, char *buffer, size_t size);
void text_add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_add_bytes(struct text *text, uint64_t bytes); /* as text_bytes */
/* Adds a size that the reader compares with another one: in full when both would look
 * alike though they differ. */
void text_add_bytes_beside(struct text *text, uint64_t bytes, uint64_t other);

#endif
