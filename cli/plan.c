/* SPDX-License-Identifier: MIT */
/* acre plan: offsets for buffers whose lifetimes are known. */
#include "cli/commands.h"
#include "cli/text/options.h"
#include "cli/plan_svg.h"
#include "cli/text/print.h"
#include "cli/text/progress.h"

#include <acre/output.h>
#include <acre/plan.h>
#include <acre/snapshot.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char help[] =
    "usage: acre plan FILE [-o OUT.csv] [OPTION...]\n\n"
    "Places buffers whose lifetimes are known so that as little memory as possible is\n"
    "needed. FILE is CSV with a header line: id, lower, upper (exclusive), size in any order,\n"
    "also alignment and gaps; or a trace or memory snapshot with a history, whose lifetimes\n"
    "are numbers of events and whose sizes are rounded up to 512. The placement is checked\n"
    "before it is written. Streams are not told apart; \"acre advise\" does, and its row\n"
    "\"plan\" is higher where a history has several.\n\n"
    "  -o FILE          the rows of FILE with a column \"offset\"; - is standard output\n"
    "  --capacity SIZE  place within SIZE bytes (1048576, 1MiB) instead of the lowest\n"
    "  --time SECONDS   keep improving for at most SECONDS; without it a fixed\n"
    "                   amount of work is done, and results are repeatable\n"
    "  --device N       device whose history is used; by default the device where a request\n"
    "                   failed, else the one that holds most\n"
    "  --seed N         other seeds try other orders\n"
    "  --svg FILE       draw the placement: time to the right, offsets upwards\n"
    "  --json           {\"buffers\", \"lower_bound\", \"height\", \"capacity\", \"seconds\",\n"
    "                   \"optimal\"}\n\n"
    "Exit status: 1 when no placement within the capacity was found.\n\n"
    "Example: how much memory does one step need, laid out perfectly?\n"
    "  acre plan step.trace.gz -o step.csv --svg step.svg\n";

struct plan_request {
    const char *file, *out, *svg;
    uint64_t capacity, seed, device;
    double seconds;
    bool json, help;
};

static bool read_request(int argc, char **argv, struct plan_request *request)
{
    struct options options = {.argc = argc, .argv = argv, .command = "plan"};
    const char *text = NULL;

    while (options_next(&options)) {
        if (options_is(&options, "--help") || options_is(&options, "-h"))
            request->help = true;
        else if (options_is(&options, "--json"))
            request->json = true;
        else if (!options_value(&options, "-o", &request->out) &&
                 !options_seconds(&options, "--time", &request->seconds) &&
                 !options_value(&options, "--svg", &request->svg) &&
                 !options_size(&options, "--capacity", &request->capacity) &&
                 !options_number(&options, "--device", 0, 65535, &request->device) &&
                 !options_number(&options, "--seed", 0, UINT64_MAX, &request->seed)) {
            if (!options_operand(&options, &text))
                options_refuse(&options);
            else if (request->file) {
                fprintf(stderr, "acre plan: one file at a time: %s, %s\n", request->file, text);
                options.is_bad = true;
            } else
                request->file = text;
        }
    }
    if (!options.is_bad && !request->help && !request->file) {
        fputs("acre plan: which file? see acre plan --help\n", stderr);
        options.is_bad = true;
    }
    return !options.is_bad;
}

/* ---- Telling ------------------------------------------------------------------------- */

static void print_json(const struct plan_request *request, size_t count,
                       const acre_plan_result *result, bool is_found)
{
    printf("{\"buffers\": %zu, \"lower_bound\": %llu, \"height\": ", count,
           (unsigned long long)result->lower_bound);
    if (is_found || result->height)
        printf("%llu", (unsigned long long)result->height);
    else
        fputs("null", stdout);
    fputs(", \"capacity\": ", stdout);
    if (request->capacity)
        printf("%llu", (unsigned long long)request->capacity);
    else
        fputs("null", stdout);
    printf(", \"seconds\": %.6f, \"optimal\": %s}\n", result->seconds,
           result->is_optimal ? "true" : "false");
}

static void print_text(const struct plan_request *request, size_t count,
                       const acre_plan_result *result)
{
    double above = result->lower_bound
                       ? 100.0 * ((double)result->height / (double)result->lower_bound - 1)
                       : 0;

    printf("%s: height %llu (%s)", print_count(count, "buffer"), (unsigned long long)result->height,
           print_bytes(result->height));
    if (request->capacity)
        printf(" within %llu", (unsigned long long)request->capacity);
    printf("\nlower bound %llu, needed at time %llu; ", (unsigned long long)result->lower_bound,
           (unsigned long long)result->bound_time);
    if (result->height == result->lower_bound)
        puts("reached");
    else
        printf("%.3f %% above it%s\n", above,
               result->is_optimal ? ", and nothing lower exists" : "");
}

/* ---- Working ------------------------------------------------------------------------- */

static int plan_fail(const struct plan_request *request)
{
    const char *text = acre_last_error();

    if (strncmp(text, request->file, strlen(request->file)) == 0)
        fprintf(stderr, "acre plan: %s\n", text);
    else
        fprintf(stderr, "acre plan: %s: %s\n", request->file, text);
    return CLI_BAD;
}

static int write_all(const struct plan_request *request, const acre_plan_table *table,
                     const uint64_t *offsets, const acre_plan_result *result)
{
    size_t count;
    const acre_plan_buffer *buffers = acre_plan_buffers(table, &count);

    if (acre_plan_verify(buffers, count, offsets, request->capacity) != ACRE_OK)
        return plan_fail(request);
    if (request->out && acre_plan_write(table, offsets, request->out) != ACRE_OK) {
        fprintf(stderr, "acre plan: %s\n", acre_last_error());
        return CLI_BAD;
    }
    if (request->svg && !plan_svg(request->svg, buffers, count, offsets, result->height)) {
        fprintf(stderr, "acre plan: %s\n", acre_last_error());
        return CLI_BAD;
    }
    return CLI_DONE;
}

/* Whether the rows or the picture go to standard output, where nothing else may stand then. */
static bool writes_to_output(const struct plan_request *request)
{
    return print_is_taken(request->out) || print_is_taken(request->svg);
}

static int plan_run(const struct plan_request *request, const acre_plan_table *table)
{
    struct progress progress;
    acre_plan_config config = {.struct_size = sizeof config,
                               .capacity = request->capacity,
                               .seed = request->seed,
                               .seconds = request->seconds,
                               .progress = progress_tell,
                               .progress_arg = &progress};
    acre_plan_result result = {.struct_size = sizeof result};
    size_t count;
    const acre_plan_buffer *buffers = acre_plan_buffers(table, &count);
    uint64_t *offsets = calloc(count + 1, sizeof *offsets);
    int exit_status = CLI_DONE;

    if (!offsets) {
        fputs("acre plan: out of memory\n", stderr);
        return CLI_BAD;
    }
    progress_begin(&progress);
    acre_status status = acre_plan_place(buffers, count, &config, offsets, &result);
    progress_end(&progress);
    if (status == ACRE_OK)
        exit_status = write_all(request, table, offsets, &result);
    else if (status == ACRE_ERR_LIMIT) {
        plan_fail(request);
        exit_status = CLI_NO;
    } else
        exit_status = plan_fail(request);
    if (exit_status != CLI_BAD && request->json && !writes_to_output(request))
        print_json(request, count, &result, status == ACRE_OK);
    else if (exit_status == CLI_DONE && !writes_to_output(request))
        print_text(request, count, &result);
    free(offsets);
    return exit_status;
}

/* The folder of a path, without links; false: there is none. */
static bool folder_find(const char *path, char out[PATH_MAX])
{
    const char *slash = strrchr(path, '/');
    char folder[PATH_MAX];
    int bytes = snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1,
                         slash ? path : ".");

    return bytes < PATH_MAX && realpath(folder, out);
}

/* Whether two names are those of one file, which need not be there yet. */
static bool is_one_file(const char *one, const char *other)
{
    const char *end = strrchr(one, '/'), *other_end = strrchr(other, '/');
    char folder[PATH_MAX], other_folder[PATH_MAX];
    struct stat facts, other_facts;

    if (strcmp(one, other) == 0)
        return true;
    bool is_there = stat(one, &facts) == 0, is_other_there = stat(other, &other_facts) == 0;
    if (is_there || is_other_there)
        return is_there && is_other_there && S_ISREG(facts.st_mode) &&
               facts.st_dev == other_facts.st_dev && facts.st_ino == other_facts.st_ino;
    return strcmp(end ? end + 1 : one, other_end ? other_end + 1 : other) == 0 &&
           folder_find(one, folder) && folder_find(other, other_folder) &&
           strcmp(folder, other_folder) == 0;
}

int cmd_plan(int argc, char **argv)
{
    struct plan_request request = {.device = ACRE_DEVICE_CHOOSE};
    acre_plan_table *table = NULL;

    if (!read_request(argc, argv, &request))
        return CLI_BAD;
    if (request.help) {
        fputs(help, stdout);
        return CLI_DONE;
    }
    if (request.out && request.svg && is_one_file(request.out, request.svg)) {
        fprintf(stderr, "acre plan: -o %s and --svg %s are one file; choose another name for one\n",
                request.out, request.svg);
        return CLI_BAD;
    }
    if ((request.out && acre_output_check(request.out, &request.file, 1) != ACRE_OK) ||
        (request.svg && acre_output_check(request.svg, &request.file, 1) != ACRE_OK))
        return plan_fail(&request);
    if (acre_plan_read_device(request.file, (uint32_t)request.device, &table) != ACRE_OK) {
        print_failure("plan", request.file, request.json);
        return CLI_BAD;
    }
    int status = plan_run(&request, table);
    acre_plan_close(table);
    return status;
}
