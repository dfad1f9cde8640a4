/* SPDX-License-Identifier: MIT */
#include "cli/text/remedy.h"

#include "cli/text/print.h"
#include "cli/text/table.h"

void print_remedies(const acre_remedy *remedies, uint64_t count)
{
    static const char *const columns[] = {"", "<what to do", NULL};
    struct text_table table;

    if (count == 0)
        return;
    putchar('\n');
    table_begin(&table, columns);
    for (uint64_t i = 0; i < count; i++) {
        table_cell(&table, "%llu.", (unsigned long long)i + 1);
        table_cell(&table, "%s%s", remedies[i].text,
                   remedies[i].is_enough ? "" : " Not enough alone.");
    }
    table_end(&table, stdout);
    putchar('\n');
    print_paragraph(stdout,
                    "Sizes are computed from the blocks that were live at this point of the "
                    "recording; another peak of the job may then be the highest.");
}

void print_remedies_json(FILE *file, const acre_remedy *remedies, uint64_t count)
{
    fputs(",\n \"remedies\": [", file);
    for (uint64_t i = 0; i < count; i++) {
        fprintf(file, "%s\n  {\"bytes\": %llu, \"enough\": %s, \"text\": ", i ? "," : "",
                (unsigned long long)remedies[i].bytes, remedies[i].is_enough ? "true" : "false");
        print_json_string(file, remedies[i].text);
        putc('}', file);
    }
    putc(']', file);
}
