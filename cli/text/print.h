/* SPDX-License-Identifier: MIT */
/* Small helpers that commands share: sizes and JSON strings as text. */
#ifndef CLI_PRINT_H
#define CLI_PRINT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A size for people, such as "8 GiB" or "1.50 MiB". The text lives in one of
 * eight static buffers, taken in turn: enough for one call of printf. */
const char *print_bytes(uint64_t bytes);

/* A count with its noun: "1 event", "3 events". The text lives as that of print_bytes() does. */
const char *print_count(uint64_t count, const char *noun);

/* Writes text as a JSON string with quotes; NULL becomes null. */
void print_json_string(FILE *file, const char *text);

/* Columns to fill: those of the terminal on standard output, else what COLUMNS says, at least
 * 60. 0: neither is there, and lines may be as long as they are. */
int print_columns(void);

/* Writes a text in lines that fit the terminal, at most 88 columns; its own line ends stay. */
void print_paragraph(FILE *file, const char *text);

/* Whether a file that is written, or NULL, is standard output, where nothing else may stand then:
 * "-", or a name of what it leads to, such as /dev/stdout. */
bool print_is_taken(const char *path);

/* Names the file in front of the last error, once. */
void print_error(const char *command, const char *file);

/* Tells the last error on standard error; where JSON is asked for, also as an object with
 * "file" and "error" on standard output, so that readers always find JSON there. */
void print_failure(const char *command, const char *file, bool is_json);

#endif
