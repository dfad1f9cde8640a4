/* SPDX-License-Identifier: MIT */
#include "cli/report.h"

#include <acre/output.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FACT_BYTES   1024
#define WRAP_COLUMNS 78
#define FACT_COLUMNS 34

struct report {
    acre_view *view;
    char path[4096];
    int section_count;
    char heading[128]; /* of the section under way; "" before the first */
    char *text;        /* of it, growing; NULL: empty                   */
    bool is_lost;      /* something could not be kept                   */
};

struct report *report_open(const char *folder, const char *title)
{
    struct report *report = calloc(1, sizeof *report);
    acre_output *probe;

    if (!report || acre_view_create(title, &report->view) != ACRE_OK) {
        fputs("acre demo: out of host memory\n", stderr);
        free(report);
        return NULL;
    }
    snprintf(report->path, sizeof report->path, "%s/report.html", folder);
    if (acre_output_open(report->path, &probe) != ACRE_OK) {
        fprintf(stderr, "acre demo: %s; choose another folder with -o\n", acre_last_error());
        acre_view_destroy(report->view);
        free(report);
        return NULL;
    }
    acre_output_abandon(probe); /* an old report stays until the new one is whole */
    printf("%s\n", title);
    return report;
}

acre_view *report_view(struct report *report)
{
    return report->view;
}

/* Puts a line into the section under way. */
static void add_line(struct report *report, const char *first, const char *second)
{
    size_t length = report->text ? strlen(report->text) : 0;
    size_t more = strlen(first) + (second ? strlen(second) : 0) + 3;
    char *text = realloc(report->text, length + more);

    if (!text) {
        report->is_lost = true;
        return;
    }
    report->text = text;
    snprintf(text + length, more, "%s%s%s\n", first, second ? "\t" : "", second ? second : "");
}

static void end_section(struct report *report)
{
    if (report->heading[0] && acre_view_note_add(report->view, report->heading,
                                                 report->text ? report->text : "") != ACRE_OK)
        report->is_lost = true;
    free(report->text);
    report->text = NULL;
    report->heading[0] = '\0';
}

void report_section(struct report *report, const char *title)
{
    end_section(report);
    snprintf(report->heading, sizeof report->heading, "%d. %s", ++report->section_count, title);
    printf("\n%s\n", report->heading);
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
    print_wrapped(text);
    add_line(report, text, NULL);
}

void report_fact(struct report *report, const char *what, const char *format, ...)
{
    char text[FACT_BYTES];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    printf("     %-*s %s\n", FACT_COLUMNS, what, text);
    add_line(report, what, text);
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
    end_section(report);
    is_whole = acre_view_write(report->view, report->path) == ACRE_OK && !report->is_lost;
    if (!is_whole)
        fprintf(stderr, "acre demo: %s could not be written whole: %s\n", report->path,
                report->is_lost ? "out of host memory" : acre_last_error());
    acre_view_destroy(report->view);
    free(report);
    return is_whole;
}
