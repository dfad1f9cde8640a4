/* SPDX-License-Identifier: MIT */
#include "cli/text/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void table_add(struct table *table, const char *text)
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

void table_begin(struct table *table, const char *const *columns)
{
    memset(table, 0, sizeof *table);
    while (columns[table->column_count])
        table->column_count++;
    for (int i = 0; columns[i]; i++)
        table_add(table, columns[i]);
}

void table_cell(struct table *table, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!table->is_lost)
        table_add(table, text);
}

/* The header without the mark for left. */
static const char *table_shown(const struct table *table, int row, int column)
{
    const char *text = table->cells[row * table->column_count + column];

    return row == 0 && *text == '<' ? text + 1 : text;
}

static void print_row(const struct table *table, int row, const int *widths, FILE *file)
{
    int last = table->column_count - 1;

    while (last > 0 && !*table_shown(table, row, last))
        last--;
    for (int column = 0; column <= last; column++) {
        const char *text = table_shown(table, row, column);
        bool is_left = table->cells[column][0] == '<';
        if (is_left)
            fprintf(file, "%-*s", column == last ? 0 : widths[column], text);
        else
            fprintf(file, "%*s", widths[column], text);
        fputs(column == last ? "\n" : "  ", file);
    }
}

void table_end(struct table *table, FILE *file)
{
    int *widths = calloc((size_t)table->column_count + 1, sizeof *widths);

    if (table->is_lost || !widths) {
        fputs("acre: out of memory for the table\n", stderr);
    } else {
        for (int i = 0; i < table->row_count * table->column_count; i++) {
            int length =
                (int)strlen(table_shown(table, i / table->column_count, i % table->column_count));
            if (length > widths[i % table->column_count])
                widths[i % table->column_count] = length;
        }
        for (int row = 0; row < table->row_count; row++)
            print_row(table, row, widths, file);
    }
    for (int i = 0; i < table->row_count * table->column_count + table->at; i++)
        free(table->cells[i]);
    free(table->cells);
    free(widths);
}
