/* SPDX-License-Identifier: MIT */
/* Small helpers that commands share: sizes and JSON strings as text. */
#ifndef CLI_PRINT_H
#define CLI_PRINT_H

#include <stdint.h>
#include <stdio.h>

/* A size for people, such as "8 GiB" or "1.50 MiB". The text lives in one of
 * eight static buffers, taken in turn: enough for one call of printf. */
const char *print_bytes(uint64_t bytes);

/* Writes text as a JSON string with quotes; NULL becomes null. */
void print_json_string(FILE *file, const char *text);

/* Writes a text in lines of at most 88 columns; its own line ends stay. */
void print_paragraph(FILE *file, const char *text);

/* Names the file in front of the last error, once. */
void print_error(const char *command, const char *file);

#endif
