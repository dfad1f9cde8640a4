/* SPDX-License-Identifier: MIT */
#include "cli/print.h"

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
        snprintf(buffer, sizeof buffers[0], "%.2f %s", (double)bytes / (double)scale,
                 units[unit]);
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
