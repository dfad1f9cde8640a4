/* SPDX-License-Identifier: MIT */
/* acre diff: what grew between two snapshots, by stack and size. */
#include "cli/commands.h"
#include "cli/text/options.h"
#include "cli/text/print.h"
#include "cli/text/table.h"

#include <acre/explain.h>
#include <acre/output.h>
#include <acre/view.h>

#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: acre diff A B [OPTION...]\n\n"
    "Compares the live memory of two snapshots of a job, as PyTorch writes them: what grew\n"
    "and what shrank, by stack and by size of block.\n\n"
    "  --peak       compare when most was live, not when the snapshots were taken\n"
    "  --device N   which device; by default that of B where a request failed, else the one that\n"
    "               holds most\n"
    "  --all        all differences, not the first 20\n"
    "  --json       print the report as one JSON object\n"
    "  -o FILE      a page as \"acre view\" writes it, with both snapshots and the differences\n\n"
    "Exit status: 1 when a snapshot is inconsistent.\n\n"
    "Example: what did a hundred iterations leave behind?\n"
    "  acre diff step100.pickle step200.pickle\n"
    "  acre diff step100.pickle step200.pickle -o grown.html\n";

struct diff_request {
    const char *files[2];
    const char *out;
    uint64_t device;
    bool json, peak, all, help;
    int count;
};

static bool read_request(int argc, char **argv, struct diff_request *request)
{
    struct options options = {.argc = argc, .argv = argv, .command = "diff"};
    const char *text = NULL;

    while (options_next(&options)) {
        if (options_is(&options, "--help") || options_is(&options, "-h"))
            request->help = true;
        else if (options_is(&options, "--json"))
            request->json = true;
        else if (options_is(&options, "--peak"))
            request->peak = true;
        else if (options_is(&options, "--all"))
            request->all = true;
        else if (!options_value(&options, "-o", &request->out) &&
                 !options_number(&options, "--device", 0, 65535, &request->device)) {
            if (request->count < 2 && options_operand(&options, &text))
                request->files[request->count++] = text;
            else
                options_refuse(&options);
        }
    }
    if (!options.is_bad && !request->help && request->count < 2) {
        fputs("acre diff: which two files? see acre diff --help\n", stderr);
        return false;
    }
    return !options.is_bad;
}

static void print_changes_json(const char *name, const char *key, const acre_change *changes,
                               uint64_t count)
{
    printf(",\n \"%s\": [", name);
    for (uint64_t i = 0; i < count; i++) {
        printf("%s\n  {\"bytes_a\": %llu, \"bytes_b\": %llu, \"count_a\": %llu, \"count_b\": %llu, "
               "\"%s\": ",
               i ? "," : "", (unsigned long long)changes[i].bytes_a,
               (unsigned long long)changes[i].bytes_b, (unsigned long long)changes[i].count_a,
               (unsigned long long)changes[i].count_b, key);
        print_json_string(stdout, changes[i].text);
        putchar('}');
    }
    putchar(']');
}

static void print_json(const struct diff_request *request, const acre_diff *diff)
{
    fputs("{\"a\": ", stdout);
    print_json_string(stdout, request->files[0]);
    fputs(", \"b\": ", stdout);
    print_json_string(stdout, request->files[1]);
    printf(", \"device\": %llu,\n \"allocated_a\": %llu, \"allocated_b\": %llu, "
           "\"reserved_a\": %llu, \"reserved_b\": %llu",
           (unsigned long long)diff->device, (unsigned long long)diff->allocated_a,
           (unsigned long long)diff->allocated_b, (unsigned long long)diff->reserved_a,
           (unsigned long long)diff->reserved_b);
    print_changes_json("stacks", "stack", diff->stacks, diff->stack_count);
    print_changes_json("sizes", "size", diff->sizes, diff->size_count);
    fputs(",\n \"text\": ", stdout);
    print_json_string(stdout, diff->text);
    fputs("}\n", stdout);
}

static void print_changes(const char *title, const acre_change *changes, uint64_t count,
                          uint64_t shown)
{
    const char *columns[] = {"change", "before", "after", "blocks", title, NULL};
    struct text_table table;

    if (count == 0)
        return;
    putchar('\n');
    table_begin(&table, columns);
    for (uint64_t i = 0; i < count && i < shown; i++) {
        const acre_change *change = &changes[i];
        bool grew = change->bytes_b >= change->bytes_a;
        table_cell(&table, "%s%s", grew ? "+" : "-",
                   print_bytes(grew ? change->bytes_b - change->bytes_a
                                    : change->bytes_a - change->bytes_b));
        table_cell(&table, "%s", print_bytes(change->bytes_a));
        table_cell(&table, "%s", print_bytes(change->bytes_b));
        table_cell(&table, "%llu > %llu", (unsigned long long)change->count_a,
                   (unsigned long long)change->count_b);
        table_cell(&table, "%s", change->text);
    }
    table_end(&table, stdout);
    if (count > shown)
        printf("and %llu more; --all shows them\n", (unsigned long long)(count - shown));
}

/* The differences as rows of a note. */
static char *changes_text(const char *paragraph, const acre_change *changes, uint64_t count)
{
    char *text = NULL;
    size_t bytes;
    FILE *file = open_memstream(&text, &bytes);

    if (!file)
        return NULL;
    fprintf(file, "%s\nchange\tbefore\tafter\tblocks\twhere\n", paragraph);
    for (uint64_t i = 0; i < count && i < 200; i++) {
        const acre_change *change = &changes[i];
        bool grew = change->bytes_b >= change->bytes_a;
        fprintf(file, "%s%s\t%s\t%s\t%llu > %llu\t%s\n", grew ? "+" : "-",
                print_bytes(grew ? change->bytes_b - change->bytes_a
                                 : change->bytes_a - change->bytes_b),
                print_bytes(change->bytes_a), print_bytes(change->bytes_b),
                (unsigned long long)change->count_a, (unsigned long long)change->count_b,
                change->text);
    }
    return fclose(file) == 0 ? text : NULL;
}

static acre_status add_note(acre_view *view, const char *heading, const char *paragraph,
                            const acre_change *changes, uint64_t count)
{
    char *text = changes_text(paragraph, changes, count);
    acre_status status = acre_view_note_add(view, heading, text ? text : paragraph);

    free(text);
    return status;
}

/* Both snapshots on one page, the differences below. */
static acre_status write_page(const struct diff_request *request, const acre_diff *diff)
{
    acre_view_config config = {.struct_size = sizeof config, .label = "before"};
    acre_view *view = NULL;
    acre_status status = acre_view_create("What changed", &view);

    if (status == ACRE_OK)
        status = add_note(view, "By stack", diff->text, diff->stacks, diff->stack_count);
    if (status == ACRE_OK)
        status = add_note(view, "By size of block", "", diff->sizes, diff->size_count);
    if (status == ACRE_OK)
        status = acre_view_read(view, request->files[0], &config);
    config.label = "after";
    config.device_first = (ACRE_VIEW_DEVICE_MAX + 1) / 2;
    if (status == ACRE_OK)
        status = acre_view_read(view, request->files[1], &config);
    if (status == ACRE_OK)
        status = acre_view_write(view, request->out);
    acre_view_destroy(view);
    return status;
}

static int diff_compare(const struct diff_request *request, acre_snapshot *snapshots[2])
{
    acre_diff *diff = NULL;

    for (int i = 0; i < 2; i++) {
        if (acre_snapshot_open(request->files[i], &snapshots[i]) != ACRE_OK) {
            print_failure("diff", request->files[i], request->json);
            return CLI_BAD;
        }
        if (acre_snapshot_check(snapshots[i]) != ACRE_OK) {
            print_failure("diff", request->files[i], request->json);
            return CLI_NO;
        }
    }
    if (acre_diff_create(snapshots[0], snapshots[1], (uint32_t)request->device,
                         request->peak ? ACRE_DIFF_PEAK : 0, &diff) != ACRE_OK) {
        print_failure("diff", request->files[1], request->json);
        return CLI_BAD;
    }
    if (print_is_taken(request->out)) {
        ; /* the page goes to standard output, alone */
    } else if (request->json) {
        print_json(request, diff);
    } else {
        acre_snapshot_info info = {.struct_size = sizeof info};
        if (acre_snapshot_info_get(snapshots[1], &info) == ACRE_OK && info.device_count > 1)
            printf("Device %u of %u, %s.\n", diff->device, info.device_count, diff->device_reason);
        print_paragraph(stdout, diff->text);
        print_changes("<by stack: your own line first, then its callers", diff->stacks,
                      diff->stack_count, request->all ? diff->stack_count : 20);
        print_changes("<by size of block", diff->sizes, diff->size_count, diff->size_count);
    }
    int exit_status = CLI_DONE;
    if (request->out && write_page(request, diff) != ACRE_OK) {
        fprintf(stderr, "acre diff: %s\n", acre_last_error());
        exit_status = CLI_BAD;
    }
    acre_diff_destroy(diff);
    return exit_status;
}

int cmd_diff(int argc, char **argv)
{
    struct diff_request request = {.files = {NULL, NULL}, .device = ACRE_DEVICE_CHOOSE};
    acre_snapshot *snapshots[2] = {NULL, NULL};

    if (!read_request(argc, argv, &request))
        return CLI_BAD;
    if (request.help) {
        fputs(help, stdout);
        return CLI_DONE;
    }
    if (request.out && acre_output_check(request.out, request.files, 2) != ACRE_OK) {
        fprintf(stderr, "acre diff: %s\n", acre_last_error());
        return CLI_BAD;
    }
    int status = diff_compare(&request, snapshots);
    acre_snapshot_close(snapshots[0]);
    acre_snapshot_close(snapshots[1]);
    return status;
}
