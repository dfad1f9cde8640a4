/* SPDX-License-Identifier: MIT */
#include "cli/text/table.h"

#include "cli/text/print.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* No column of text becomes narrower than this. */
#define WIDTH_MIN 11
/* No cell of a turned table becomes wider than this. */
#define TURNED_MAX 20

static void table_add(struct text_table *table, const char *text)
{
    int used = table->row_count * table->column_count + table->at;

    if (used == table->capacity) {
        int capacity = table->capacity ? table->capacity * 2 : 64;
        char **bigger = realloc(table->cells, (size_t)capacity * sizeof *bigger);
        if (!bigger) {
            table->is_lost = true;
            return;
        }
        table->cells = bigger;
        table->capacity = capacity;
    }
    table->cells[used] = strdup(text);
    table->is_lost |= !table->cells[used];
    if (++table->at == table->column_count) {
        table->at = 0;
        table->row_count++;
    }
}

void table_begin(struct text_table *table, const char *const *columns)
{
    memset(table, 0, sizeof *table);
    while (columns[table->column_count])
        table->column_count++;
    for (int i = 0; columns[i]; i++)
        table_add(table, columns[i]);
}

void table_cell(struct text_table *table, const char *format, ...)
{
    char text[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!table->is_lost)
        table_add(table, text);
}

/* The header without the mark for left. */
static const char *table_shown(const struct text_table *table, int row, int column)
{
    const char *text = table->cells[row * table->column_count + column];

    return row == 0 && *text == '<' ? text + 1 : text;
}

static bool table_is_left(const struct text_table *table, int column)
{
    return table->cells[column][0] == '<';
}

/* How much of a text goes into a line: at most width, up to a space or behind a comma where
 * there is one, else behind a slash, a colon or an underscore. */
static int line_length(const char *text, int width)
{
    int length = (int)strlen(text), at;

    if (length <= width)
        return length;
    for (at = width; at > width / 3; at--)
        if (text[at] == ' ' || text[at - 1] == ',')
            return at;
    for (at = width; at > width / 3; at--)
        if (strchr("/:_\\", text[at - 1]))
            return at;
    /* Characters of several bytes stay whole. */
    for (at = width; at > 1 && ((unsigned char)text[at] & 0xc0) == 0x80; at--)
        continue;
    return at;
}

/* Prints one line of a row; what is left of each cell stays in rests. False: nothing was
 * left to print. */
static bool print_line(const struct text_table *table, const int *widths, const char **rests,
                       FILE *file)
{
    int last = table->column_count - 1;

    while (last >= 0 && !*rests[last])
        last--;
    if (last < 0)
        return false;
    for (int column = 0; column <= last; column++) {
        int length = line_length(rests[column], widths[column]);
        int room = widths[column] - length;
        bool is_left = table_is_left(table, column);
        fprintf(file, "%*s%.*s", is_left ? 0 : room, "", length, rests[column]);
        if (column < last)
            fprintf(file, "%*s  ", is_left ? room : 0, "");
        rests[column] += length;
        rests[column] += strspn(rests[column], " ");
    }
    putc('\n', file);
    return true;
}

/* Narrows the widest columns of text until the table fits; false: it does not. */
static bool table_fit(const struct text_table *table, int *widths)
{
    int columns = print_columns(), total = -2;

    for (int i = 0; i < table->column_count; i++)
        total += widths[i] + 2;
    while (columns && total > columns) {
        int widest = -1;
        for (int i = 0; i < table->column_count; i++)
            if (table_is_left(table, i) && widths[i] > WIDTH_MIN &&
                (widest < 0 || widths[i] > widths[widest]))
                widest = i;
        if (widest < 0)
            return false;
        widths[widest]--;
        total--;
    }
    return true;
}

static void print_rows(const struct text_table *table, const int *widths, const char **rests,
                       FILE *file)
{
    for (int row = 0; row < table->row_count; row++) {
        for (int column = 0; column < table->column_count; column++)
            rests[column] = table_shown(table, row, column);
        while (print_line(table, widths, rests, file))
            continue;
    }
}

static void table_free(struct text_table *table)
{
    for (int i = 0; i < table->row_count * table->column_count + table->at; i++)
        free(table->cells[i]);
    free(table->cells);
}

/* Prints some rows of a table as columns: the names of the columns stand to the left. */
static void print_turned(const struct text_table *table, int first, int count, const int *widths,
                         FILE *file)
{
    struct text_table turned = {.column_count = count + 1};
    const char **rests = calloc((size_t)count + 1, sizeof *rests);

    for (int column = 0; column < table->column_count; column++) {
        table_add(&turned, column ? table_shown(table, 0, column) : table->cells[0]);
        for (int i = 0; i < count; i++)
            table_add(&turned, table_shown(table, first + i, column));
    }
    if (!turned.is_lost && rests)
        print_rows(&turned, widths, rests, file);
    table_free(&turned);
    free(rests);
}

/* A table whose numbers alone are too wide for the terminal: as many rows beside each other as
 * there is room for, then the next ones. Reuses widths. */
static void table_turn(const struct text_table *table, int *widths, FILE *file)
{
    int name = 0, width = 0, columns = print_columns();

    for (int i = 0; i < table->column_count; i++) {
        int length = (int)strlen(table_shown(table, 0, i));
        name = length > name ? length : name;
        width = widths[i] > width ? widths[i] : width;
    }
    width = width > TURNED_MAX ? TURNED_MAX : width;
    int together = (columns - name) / (width + 2);
    together = together < 1 ? 1 : together;
    together = together < table->column_count ? together : table->column_count;
    for (int i = 0; i <= together; i++)
        widths[i] = i ? width : name;
    for (int row = 1; row < table->row_count; row += together) {
        int left = table->row_count - row;
        if (row > 1)
            putc('\n', file);
        print_turned(table, row, left < together ? left : together, widths, file);
    }
}

static void table_print(const struct text_table *table, int *widths, const char **rests, FILE *file)
{
    for (int i = 0; i < table->row_count * table->column_count; i++) {
        int length =
            (int)strlen(table_shown(table, i / table->column_count, i % table->column_count));
        if (length > widths[i % table->column_count])
            widths[i % table->column_count] = length;
    }
    if (table_fit(table, widths))
        print_rows(table, widths, rests, file);
    else
        table_turn(table, widths, file);
}

void table_end(struct text_table *table, FILE *file)
{
    int *widths = calloc((size_t)table->column_count + 1, sizeof *widths);
    const char **rests = calloc((size_t)table->column_count + 1, sizeof *rests);

    if (table->is_lost || !widths || !rests)
        fputs("acre: out of memory for the table\n", stderr);
    else
        table_print(table, widths, rests, file);
    table_free(table);
    free(widths);
    free(rests);
}
