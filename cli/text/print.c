/* SPDX-License-Identifier: MIT */
#include "cli/text/print.h"

#include <acre/base.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFERS 8

const char *print_bytes(uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    static char buffers[BUFFERS][32];
    static unsigned turn;
    char *buffer = buffers[turn++ % BUFFERS];
    unsigned unit = 0;
    uint64_t scale = 1;

    while (unit < 6 && bytes / scale >= 1024) {
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

const char *print_count(uint64_t count, const char *noun)
{
    static char buffers[BUFFERS][64];
    static unsigned turn;
    char *buffer = buffers[turn++ % BUFFERS];

    snprintf(buffer, sizeof buffers[0], "%llu %s%s", (unsigned long long)count, noun,
             count == 1 ? "" : "s");
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

int print_columns(void)
{
    struct winsize size;
    const char *text = getenv("COLUMNS");
    long columns = text ? strtol(text, NULL, 10) : 0;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
        columns = size.ws_col;
    if (columns <= 0)
        return 0;
    return columns < 60 ? 60 : columns > 400 ? 400 : (int)columns;
}

void print_paragraph(FILE *file, const char *text)
{
    size_t column = 0, width = (size_t)print_columns();
    bool is_indented = false;

    if (width == 0 || width > 88)
        width = 88;
    while (*text) {
        size_t length = strcspn(text, " \n");
        if (column && column + 1 + length > width) {
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

bool print_is_taken(const char *path)
{
    struct stat facts, own;

    if (!path || strcmp(path, "-") == 0)
        return path != NULL;
    return stat(path, &facts) == 0 && fstat(STDOUT_FILENO, &own) == 0 &&
           facts.st_dev == own.st_dev && facts.st_ino == own.st_ino;
}

void print_error(const char *command, const char *file)
{
    if (strstr(acre_last_error(), file))
        fprintf(stderr, "acre %s: %s\n", command, acre_last_error());
    else
        fprintf(stderr, "acre %s: %s: %s\n", command, file, acre_last_error());
}

void print_failure(const char *command, const char *file, bool is_json)
{
    print_error(command, file);
    if (!is_json)
        return;
    fputs("{\"file\": ", stdout);
    print_json_string(stdout, file);
    fputs(", \"error\": ", stdout);
    print_json_string(stdout, acre_last_error());
    fputs("}\n", stdout);
}
