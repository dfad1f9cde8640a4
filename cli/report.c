/* SPDX-License-Identifier: MIT */
#include "cli/report.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FACT_BYTES 1024
#define WRAP_COLUMNS 78
#define FACT_COLUMNS 34

struct report {
    FILE *file;
    char path[4096];
    int section_count;
    bool in_table; /* a list of facts is open on the page */
};

static void put_escaped(FILE *file, const char *text)
{
    for (; *text; text++) {
        const char *entity = *text == '<' ? "&lt;" : *text == '>' ? "&gt;"
                           : *text == '&' ? "&amp;" : NULL;

        if (entity)
            fputs(entity, file);
        else
            putc(*text, file);
    }
}

struct report *report_open(const char *folder, const char *title)
{
    struct report *report = calloc(1, sizeof *report);

    if (!report) {
        fputs("acre demo: out of host memory\n", stderr);
        return NULL;
    }
    snprintf(report->path, sizeof report->path, "%s/report.html", folder);
    report->file = fopen(report->path, "w");
    if (!report->file) {
        fprintf(stderr, "acre demo: %s cannot be written: %s; choose a folder with -o\n",
                report->path, strerror(errno));
        free(report);
        return NULL;
    }
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>", report->file);
    put_escaped(report->file, title);
    fputs("</title>\n<style>\n"
          "body { font: 16px/1.5 sans-serif; max-width: 46em; margin: 2em auto; padding: 0 1em; }\n"
          "h2 { margin-top: 2em; border-top: 1px solid #ccc; padding-top: .5em; }\n"
          "td { padding: .15em 1em .15em 0; vertical-align: top; }\n"
          "td + td { font-family: monospace; overflow-wrap: anywhere; }\n"
          "</style></head><body>\n<h1>", report->file);
    put_escaped(report->file, title);
    fputs("</h1>\n", report->file);
    printf("%s\n", title);
    return report;
}

static void end_table(struct report *report)
{
    if (report->in_table)
        fputs("</table>\n", report->file);
    report->in_table = false;
}

void report_section(struct report *report, const char *title)
{
    end_table(report);
    printf("\n%d. %s\n", ++report->section_count, title);
    fprintf(report->file, "<h2>%d. ", report->section_count);
    put_escaped(report->file, title);
    fputs("</h2>\n", report->file);
}

/* Prints a paragraph indented, broken between words. */
static void print_wrapped(const char *text)
{
    size_t column = 0;

    for (const char *word = text; *word;) {
        size_t length = strcspn(word, " ");

        if (column && column + 1 + length > WRAP_COLUMNS) {
            putchar('\n');
            column = 0;
        }
        column += (size_t)printf("%s%.*s", column ? " " : "   ", (int)length, word);
        word += length + (word[length] == ' ');
    }
    putchar('\n');
}

void report_say(struct report *report, const char *text)
{
    end_table(report);
    print_wrapped(text);
    fputs("<p>", report->file);
    put_escaped(report->file, text);
    fputs("</p>\n", report->file);
}

void report_fact(struct report *report, const char *what, const char *format, ...)
{
    char text[FACT_BYTES];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    printf("     %-*s %s\n", FACT_COLUMNS, what, text);
    if (!report->in_table)
        fputs("<table>\n", report->file);
    report->in_table = true;
    fputs("<tr><td>", report->file);
    put_escaped(report->file, what);
    fputs("</td><td>", report->file);
    put_escaped(report->file, text);
    fputs("</td></tr>\n", report->file);
}

const char *report_path(const struct report *report)
{
    return report->path;
}

bool report_close(struct report *report)
{
    bool is_whole;

    if (!report)
        return true;
    end_table(report);
    fputs("</body></html>\n", report->file);
    is_whole = !ferror(report->file);
    is_whole = fclose(report->file) == 0 && is_whole;
    if (!is_whole)
        fprintf(stderr, "acre demo: %s could not be written whole\n", report->path);
    free(report);
    return is_whole;
}
