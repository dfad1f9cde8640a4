/* SPDX-License-Identifier: MIT */
/* A table for people: cells are texts, columns as wide as their widest cell. On a terminal
 * that is too narrow, columns of text are narrowed and their cells take several lines; when the
 * numbers alone are too wide, the table is turned: rows become columns. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include <stdbool.h>
#include <stdio.h>

struct text_table {
    int column_count;
    int row_count;
    char **cells;         /* row by row, owned; NULL after lost memory */
    int capacity;         /* cells there is room for                   */
    int at;               /* next column                               */
    bool is_lost;         /* memory ran out; printing says so          */
};

/* Names of columns end with NULL; those that begin with '<' stand left. */
void table_begin(struct text_table *table, const char *const *columns);
/* Adds the next cell, row by row. */
void table_cell(struct text_table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Prints it and frees everything. */
void table_end(struct text_table *table, FILE *file);

#endif
