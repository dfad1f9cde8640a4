/* SPDX-License-Identifier: MIT */
/* Tables of buffers: the text of a CSV file, kept whole, and what it means.
 *
 *   text    header line, then a line a row, as read; rows point into it
 *   rows    start of each row's line; a line ends with a zero
 *
 * A column "offset" that the file has already is dropped when writing.
 */
#ifndef SRC_FORMAT_CSV_H
#define SRC_FORMAT_CSV_H

#include "format/source.h"

#include <acre/plan.h>

enum csv_column {
    CSV_ID,
    CSV_LOWER,
    CSV_UPPER,
    CSV_END,       /* inclusive, in place of upper */
    CSV_SIZE,
    CSV_ALIGNMENT,
    CSV_GAPS,
    CSV_OFFSET,
    CSV_COLUMNS
};

struct acre_plan_table {
    char *text;                 /* owned                                         */
    size_t text_bytes;
    char *header;               /* first line, in text                           */
    char **rows;                /* by buffer, in text; NULL without CSV          */
    acre_plan_buffer *buffers;  /* by row                                        */
    size_t count, capacity;
    acre_plan_gap *gaps;        /* of all rows, in order                         */
    size_t gap_count, gap_capacity;
    uint64_t *ids;              /* of a recording, by buffer; NULL for CSV       */
    int column_at[CSV_COLUMNS]; /* where each stands in a row; -1: nowhere       */
    int field_count;            /* of every row                                  */
};

/* Makes room for one more buffer, with a number (traces, snapshots) or a row (CSV).
 * Errors: ACRE_ERR_HOST_MEMORY. */
acre_status table_grow(acre_plan_table *table, bool has_ids);

/* A recorded size as it is placed, with what the allocator adds to it. One that is absurdly large
 * stays so, and is refused when it is placed. */
static inline uint64_t table_round(uint64_t bytes, uint32_t padding)
{
    return bytes > UINT64_MAX / 2 ? bytes : (bytes + padding + 511) / 512 * 512;
}

/* Fills a table from a device of a memory snapshot, or the one it chooses (facts.h). The source
 * is closed. Errors: those of snapshot_read, ACRE_ERR_FORMAT (no history). */
acre_status plan_snapshot_read(acre_plan_table *table, uint32_t device, const char *path,
                               struct source *source);

/* Reads CSV text, which the table owns already. path is for messages. */
acre_status csv_parse(acre_plan_table *table, const char *path);

#endif
