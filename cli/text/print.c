/* SPDX-License-Identifier: MIT */
#include "cli/text/print.h"

#include <acre/base.h>

#include <stdbool.h>
#include <string.h>

#define BUFFERS 8

const char *print_bytes(uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    static char buffers[BUFFERS][32];
    static unsigned turn;
    char *buffer = buffers[turn++ % BUFFERS];
    unsigned unit = 0;
    uint64_t scale = 1;

    while (unit < 4 && bytes / scale >= 1024) {
        scale *= 1024;
        unit++;
    }
    if (bytes % scale == 0)
        snprintf(buffer, sizeof buffers[0], "%llu %s", (unsigned long long)(bytes / scale),
                 units[unit]);
    else
        snprintf(buffer, sizeof buffers[0], "%.2f %s", (double)bytes / (double)scale, units[unit]);
    return buffer;
}

void print_json_string(FILE *file, const char *text)
{
    if (!text) {
        fputs("null", file);
        return;
    }
    putc('"', file);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(file, "\\%c", *c);
        else if (*c < 0x20)
            fprintf(file, "\\u%04x", *c);
        else
            putc(*c, file);
    }
    putc('"', file);
}

void print_paragraph(FILE *file, const char *text)
{
    size_t column = 0;
    bool is_indented = false;

    while (*text) {
        size_t length = strcspn(text, " \n");
        if (column && column + 1 + length > 88) {
            putc('\n', file);
            column = 0;
        } else if (column && length && !is_indented) {
            putc(' ', file);
            column++;
        }
        is_indented = false;
        fwrite(text, 1, length, file);
        column += length;
        text += length;
        if (*text == '\n') {
            putc('\n', file);
            column = 0;
            for (text++; *text == ' '; text++, column++)
                putc(' ', file);
            is_indented = true;
            continue;
        }
        text += *text == ' ';
    }
    if (column)
        putc('\n', file);
}

void print_error(const char *command, const char *file)
{
    if (strncmp(acre_last_error(), file, strlen(file)) == 0)
        fprintf(stderr, "acre %s: %s\n", command, acre_last_error());
    else
        fprintf(stderr, "acre %s: %s: %s\n", command, file, acre_last_error());
}
