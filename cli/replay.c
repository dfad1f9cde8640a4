/* SPDX-License-Identifier: MIT */
/* acre replay: traces through policies, each from an empty simulated device. */
#include "cli/commands.h"
#include "cli/text/options.h"
#include "cli/text/print.h"
#include "cli/text/progress.h"
#include "cli/text/table.h"

#include <acre/snapshot.h>
#include <acre/trace.h>

#include <stdlib.h>
#include <string.h>

static const char help[] =
    "usage: acre replay FILE... [OPTION...]\n\n"
    "Feeds recorded allocations to a caching allocator on a simulated device that hands\n"
    "out addresses only, and tells how much memory it held and why. A FILE is a trace,\n"
    "plain or gzip, with one event a line: a ID BYTES STREAM, f ID, u ID STREAM, s STREAM,\n"
    "e, # comment; or a memory snapshot with history, as PyTorch writes it. Every file is\n"
    "run with every policy and every conf.\n\n"
    "  --policy P           acre (default), torch, which decides exactly as PyTorch does, or\n"
    "                       plan, which places the whole trace ahead; may be repeated, or a\n"
    "                       list: torch,acre\n"
    "  --conf OPTIONS       options as in PYTORCH_CUDA_ALLOC_CONF; may be repeated\n"
    "  --device-memory SIZE capacity of the device: 80GiB (default), 24G, bytes\n"
    "  --repeat N           replay N times and tell about the last pass as well\n"
    "  --min-capacity       also search the smallest capacity, to 1 MiB, that does not fail\n"
    "  --streams N          allocation number i goes to stream i mod N\n"
    "  --device N           device whose history is used; by default the device where a request\n"
    "                       failed, else the one that holds most\n"
    "  --host               as allocations of page-locked host memory\n"
    "  --verify             replay snapshots under their recorded settings, and tell for how\n"
    "                       many events segments and addresses are the recorded ones\n"
    "  --json               {\"runs\": [...]}, one object per run\n\n"
    "Exit status: 1 when an allocation failed because the memory was not enough, when --verify\n"
    "finds a difference, or when a snapshot is inconsistent.\n\n"
    "Example: would this job fit a smaller GPU with another setting?\n"
    "  acre replay job.trace.gz --policy torch --device-memory 24G \\\n"
    "      --conf '' --conf max_split_size_mb:128 --min-capacity\n";

#define LIST_MAX 64

static const struct {
    const char *name;
    acre_policy policy;
    bool is_planned;
} policies[] = {{"torch", ACRE_POLICY_TORCH, false},
                {"acre", ACRE_POLICY_ACRE, false},
                {"plan", ACRE_POLICY_ACRE, true}};
#define POLICIES (sizeof policies / sizeof *policies)

struct list_of {
    const char *items[LIST_MAX];
    int count;
};

struct replay_request {
    struct list_of files, confs;
    int policies[LIST_MAX]; /* indices of the table above */
    int policy_count;
    uint64_t device_bytes, repeat, streams;
    uint64_t device;
    bool json, min_capacity, host, verify, help;
};

struct replay_run {
    const char *file, *conf;
    int policy;
    acre_replay_result result;
};

/* ---- What is asked for ------------------------------------------------------------ */

static void add_item(struct options *options, struct list_of *list, const char *item)
{
    if (list->count == LIST_MAX) {
        fprintf(stderr, "acre replay: more than %d files or confs\n", LIST_MAX);
        options->is_bad = true;
        return;
    }
    list->items[list->count++] = item;
}

static void add_policies(struct options *options, struct replay_request *request, const char *text)
{
    while (!options->is_bad) {
        size_t length = strcspn(text, ","), found = 0;
        while (found < POLICIES && (strlen(policies[found].name) != length ||
                                    strncmp(policies[found].name, text, length) != 0))
            found++;
        if (found == POLICIES || request->policy_count == LIST_MAX) {
            fprintf(stderr, "acre replay: --policy %s: the policies are torch, acre and plan\n",
                    text);
            options->is_bad = true;
            return;
        }
        request->policies[request->policy_count++] = (int)found;
        if (!text[length])
            return;
        text += length + 1;
    }
}

static bool read_request(int argc, char **argv, struct replay_request *request)
{
    struct options options = {.argc = argc, .argv = argv, .command = "replay"};
    const char *text = NULL;

    while (options_next(&options)) {
        if (options_is(&options, "--help") || options_is(&options, "-h"))
            request->help = true;
        else if (options_is(&options, "--json"))
            request->json = true;
        else if (options_is(&options, "--min-capacity"))
            request->min_capacity = true;
        else if (options_is(&options, "--host"))
            request->host = true;
        else if (options_is(&options, "--verify"))
            request->verify = true;
        else if (options_value(&options, "--policy", &text))
            options.is_bad ? (void)0 : add_policies(&options, request, text);
        else if (options_value(&options, "--conf", &text))
            options.is_bad ? (void)0 : add_item(&options, &request->confs, text);
        else if (!options_size(&options, "--device-memory", &request->device_bytes) &&
                 !options_number(&options, "--repeat", 1, 1000000, &request->repeat) &&
                 !options_number(&options, "--device", 0, 65535, &request->device) &&
                 !options_number(&options, "--streams", 1, ACRE_TRACE_STREAM_MAX + 1,
                                 &request->streams)) {
            if (options_operand(&options, &text))
                add_item(&options, &request->files, text);
            else
                options_refuse(&options);
        }
    }
    if (!options.is_bad && !request->help && request->files.count == 0) {
        fputs("acre replay: which file? see acre replay --help\n", stderr);
        options.is_bad = true;
    }
    if (!options.is_bad && request->host && request->verify) {
        fputs("acre replay: --verify compares device memory with a recording, of which --host has "
              "none; give one of both\n",
              stderr);
        options.is_bad = true;
    }
    if (request->policy_count == 0)
        request->policies[request->policy_count++] = 1; /* acre */
    if (request->confs.count == 0)
        request->confs.items[request->confs.count++] = "";
    return !options.is_bad;
}

/* ---- Running ------------------------------------------------------------------------ */

static int run_count(const struct replay_request *request)
{
    return request->files.count * request->policy_count * request->confs.count;
}

/* Names the file once, whether or not the library did. */
static void say_error(const char *file)
{
    if (strstr(acre_last_error(), file))
        fprintf(stderr, "acre replay: %s\n", acre_last_error());
    else
        fprintf(stderr, "acre replay: %s: %s\n", file, acre_last_error());
}

/* A file that cannot be trusted or set up is a "no", everything else bad input. */
static int exit_of(acre_status status)
{
    return status == ACRE_ERR_STATE || status == ACRE_ERR_UNSUPPORTED ? CLI_NO : CLI_BAD;
}

static int run_one(const struct replay_request *request, struct replay_run *run,
                   struct progress *progress)
{
    acre_replay_config config = {.struct_size = sizeof config,
                                 .policy = policies[run->policy].policy,
                                 .conf = run->conf,
                                 .device_bytes = request->device_bytes,
                                 .repeat = (uint32_t)request->repeat,
                                 .streams = (uint32_t)request->streams,
                                 .device = (uint32_t)request->device,
                                 .progress = progress_tell,
                                 .progress_arg = progress};

    if (request->min_capacity)
        config.flags |= ACRE_REPLAY_MIN_CAPACITY;
    if (request->host)
        config.flags |= ACRE_REPLAY_HOST;
    if (policies[run->policy].is_planned)
        config.flags |= ACRE_REPLAY_PLAN;
    run->result.struct_size = sizeof run->result;
    acre_status status = acre_replay(run->file, &config, &run->result);
    if (status == ACRE_OK)
        return CLI_DONE;
    progress_end(progress);
    if (status == ACRE_ERR_CONFIG)
        fprintf(stderr, "acre replay: --conf \"%s\": %s\n", run->conf, acre_last_error());
    else
        say_error(run->file);
    return exit_of(status);
}

static int run_all(const struct replay_request *request, struct replay_run *runs)
{
    int count = run_count(request), at = 0;
    struct progress progress;
    int status = CLI_DONE;

    progress_begin(&progress);
    for (int file = 0; file < request->files.count; file++)
        for (int policy = 0; policy < request->policy_count; policy++)
            for (int conf = 0; conf < request->confs.count && status == CLI_DONE; conf++, at++) {
                runs[at].file = request->files.items[file];
                runs[at].policy = request->policies[policy];
                runs[at].conf = request->confs.items[conf];
                progress_part(&progress, (double)at / count, 1.0 / count);
                status = run_one(request, &runs[at], &progress);
            }
    progress_end(&progress);
    return status;
}

/* ---- Telling --------------------------------------------------------------------------- */

static void print_pass_json(const acre_replay_pass *pass, bool is_planned)
{
    printf("\"events\": %llu, \"allocs\": %llu, \"frees\": %llu, \"bytes_requested_peak\": %llu, "
           "\"bytes_allocated_peak\": %llu, \"bytes_reserved_peak\": %llu, \"waste_ppm\": %lld, "
           "\"segments_peak\": %llu, \"segments\": %llu, \"device_allocs\": %llu, "
           "\"device_frees\": %llu, \"maps\": %llu, \"unmaps\": %llu, \"retries\": %llu, "
           "\"ooms\": %llu, \"first_oom_event\": %lld, \"ns_per_event\": %.2f",
           (unsigned long long)pass->events, (unsigned long long)pass->allocs,
           (unsigned long long)pass->frees, (unsigned long long)pass->bytes_requested_peak,
           (unsigned long long)pass->bytes_allocated_peak,
           (unsigned long long)pass->bytes_reserved_peak, (long long)pass->waste_ppm,
           (unsigned long long)pass->segments_peak, (unsigned long long)pass->segments,
           (unsigned long long)pass->device_allocs, (unsigned long long)pass->device_frees,
           (unsigned long long)pass->maps, (unsigned long long)pass->unmaps,
           (unsigned long long)pass->retries, (unsigned long long)pass->ooms,
           (long long)pass->first_oom_event, pass->ns_per_event);
    if (is_planned)
        printf(", \"departures\": %llu", (unsigned long long)pass->departures);
}

static void print_json(const struct replay_request *request, const struct replay_run *runs)
{
    fputs("{\"runs\": [", stdout);
    for (int i = 0; i < run_count(request); i++) {
        const acre_replay_result *result = &runs[i].result;
        fputs(i ? ",\n  {\"file\": " : "\n  {\"file\": ", stdout);
        print_json_string(stdout, runs[i].file);
        printf(", \"policy\": \"%s\", \"conf\": ", policies[runs[i].policy].name);
        print_json_string(stdout, runs[i].conf);
        printf(", \"device\": %u, \"device_bytes\": %llu,\n   ", result->device,
               (unsigned long long)result->device_bytes);
        print_pass_json(&result->first, policies[runs[i].policy].is_planned);
        if (result->start_allocs)
            printf(",\n   \"start_allocs\": %llu, \"start_bytes\": %llu, \"start_open\": %llu, "
                   "\"start_open_bytes\": %llu, \"contradictions\": %llu",
                   (unsigned long long)result->start_allocs,
                   (unsigned long long)result->start_bytes, (unsigned long long)result->start_open,
                   (unsigned long long)result->start_open_bytes,
                   (unsigned long long)result->contradictions);
        if (request->min_capacity && result->min_capacity_bytes)
            printf(",\n   \"min_capacity_bytes\": %llu",
                   (unsigned long long)result->min_capacity_bytes);
        else if (request->min_capacity)
            fputs(",\n   \"min_capacity_bytes\": null", stdout);
        if (result->has_warm) {
            fputs(",\n   \"warm\": {", stdout);
            print_pass_json(&result->warm, policies[runs[i].policy].is_planned);
            putchar('}');
        }
        putchar('}');
    }
    fputs("\n]}\n", stdout);
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static void add_row(struct text_table *table, const struct replay_request *request,
                    const struct replay_run *run, bool is_warm)
{
    const acre_replay_pass *pass = is_warm ? &run->result.warm : &run->result.first;

    table_cell(table, "%s", file_name(run->file));
    table_cell(table, "%s", policies[run->policy].name);
    table_cell(table, "%s", *run->conf ? run->conf : "-");
    if (request->repeat > 1)
        table_cell(table, "%s", is_warm ? "last" : "first");
    table_cell(table, "%llu", (unsigned long long)pass->events);
    table_cell(table, "%.1f", (double)pass->bytes_requested_peak / (1 << 20));
    table_cell(table, "%.1f", (double)pass->bytes_allocated_peak / (1 << 20));
    table_cell(table, "%.1f", (double)pass->bytes_reserved_peak / (1 << 20));
    table_cell(table, "%+.1f %%", (double)pass->waste_ppm / 1e4);
    if (request->min_capacity && run->result.min_capacity_bytes && !is_warm)
        table_cell(table, "%llu", (unsigned long long)(run->result.min_capacity_bytes >> 20));
    else if (request->min_capacity)
        table_cell(table, "%s", is_warm ? "" : "none");
    table_cell(table, "%llu", (unsigned long long)pass->segments_peak);
    table_cell(table, "%llu/%llu", (unsigned long long)pass->device_allocs,
               (unsigned long long)pass->device_frees);
    table_cell(table, "%llu/%llu", (unsigned long long)pass->maps,
               (unsigned long long)pass->unmaps);
    table_cell(table, "%llu", (unsigned long long)pass->retries);
    table_cell(table, "%llu", (unsigned long long)pass->ooms);
    table_cell(table, "%.0f", pass->ns_per_event);
}

/* What a snapshot's history began with, and what is not known about it. */
static void print_start(const struct replay_run *run)
{
    const acre_replay_result *result = &run->result;

    if (result->start_allocs)
        printf("\n%s: %s of %s %s live when the history began, and allocated first,\n"
               "by address: the order in which blocks were allocated is not recorded.\n",
               file_name(run->file), print_count(result->start_allocs, "block"),
               print_bytes(result->start_bytes), result->start_allocs == 1 ? "was" : "were");
    if (result->start_open)
        printf("Of %llu of them the exact block size is not known: up to %s in all.\n",
               (unsigned long long)result->start_open, print_bytes(result->start_open_bytes));
    if (result->contradictions)
        printf("%s %s not fit the segments at the end of %s.\n",
               print_count(result->contradictions, "event"),
               result->contradictions == 1 ? "does" : "do", file_name(run->file));
}

static void print_table(const struct replay_request *request, const struct replay_run *runs)
{
    const char *columns[20];
    char text[400];
    int count = 0;
    struct text_table table;

    columns[count++] = "<trace";
    columns[count++] = "<policy";
    columns[count++] = "<conf";
    if (request->repeat > 1)
        columns[count++] = "<pass";
    columns[count++] = "events";
    columns[count++] = "requested";
    columns[count++] = "allocated";
    columns[count++] = "reserved";
    columns[count++] = "waste";
    if (request->min_capacity)
        columns[count++] = "min capacity";
    columns[count++] = "segments";
    columns[count++] = "alloc/free";
    columns[count++] = "map/unmap";
    columns[count++] = "retries";
    columns[count++] = "ooms";
    columns[count++] = "ns/event";
    columns[count] = NULL;
    table_begin(&table, columns);
    for (int i = 0; i < run_count(request); i++) {
        add_row(&table, request, &runs[i], false);
        if (runs[i].result.has_warm)
            add_row(&table, request, &runs[i], true);
    }
    table_end(&table, stdout);
    snprintf(text, sizeof text,
             request->host
                 ? "Page-locked host memory%s. Peaks in MiB: requested by the job, allocated in "
                   "blocks, reserved from the system; waste is reserved above requested. "
                   "alloc/free count calls to the system."
                 : "Device of %s. Peaks in MiB: requested by the job, allocated in blocks, "
                   "reserved from the device; waste is reserved above requested. alloc/free and "
                   "map/unmap count calls to the device.",
             request->host ? "" : print_bytes(runs[0].result.device_bytes));
    putchar('\n');
    print_paragraph(stdout, text);
    for (int i = 0; i < run_count(request); i++)
        if (i == 0 || runs[i].file != runs[i - 1].file)
            print_start(&runs[i]);
}

static bool has_failed(const struct replay_request *request, const struct replay_run *runs)
{
    for (int i = 0; i < run_count(request); i++)
        if (runs[i].result.first.ooms || runs[i].result.warm.ooms)
            return true;
    return false;
}

/* ---- Verifying ------------------------------------------------------------------------- */

static void print_verify_json(const char *file, uint64_t device, const acre_verify_result *result,
                              bool is_first)
{
    fputs(is_first ? "\n  {\"file\": " : ",\n  {\"file\": ", stdout);
    print_json_string(stdout, file);
    printf(", \"device\": %llu, \"conf\": ", (unsigned long long)device);
    print_json_string(stdout, result->conf);
    printf(", \"exact\": %s, \"events\": %llu, \"compared\": %llu, \"agreed\": %llu, "
           "\"first_difference\": %lld, \"start_blocks\": %llu, \"start_open\": %llu, "
           "\"start_open_bytes\": %llu, \"contradictions\": %llu, \"ties_by_address\": %s, "
           "\"text\": ",
           result->is_exact ? "true" : "false", (unsigned long long)result->events,
           (unsigned long long)result->compared, (unsigned long long)result->agreed,
           (long long)result->first_difference, (unsigned long long)result->start_blocks,
           (unsigned long long)result->start_open, (unsigned long long)result->start_open_bytes,
           (unsigned long long)result->contradictions, result->ties_by_address ? "true" : "false");
    print_json_string(stdout, result->text);
    putchar('}');
}

static void print_verify(const char *file, const acre_verify_result *result)
{
    printf("%s: %s, %llu compared, %llu %s%s\n", file_name(file),
           print_count(result->events, "event"), (unsigned long long)result->compared,
           (unsigned long long)result->agreed, result->agreed == 1 ? "agrees" : "agree",
           result->is_exact ? ": exact" : "");
    if (result->ties_by_address)
        puts("  recorded by an older version, which took the lowest address among equals");
    if (*result->conf)
        printf("  recorded settings: %s\n", result->conf);
    if (result->start_blocks)
        printf("  %s %s live at the start", print_count(result->start_blocks, "block"),
               result->start_blocks == 1 ? "was" : "were");
    if (result->start_open)
        printf("; %llu of them may be larger than is known, by up to %s in all",
               (unsigned long long)result->start_open, print_bytes(result->start_open_bytes));
    if (result->start_blocks)
        putchar('\n');
    if (result->contradictions)
        printf("  %s %s not fit the segments at the end\n",
               print_count(result->contradictions, "event"),
               result->contradictions == 1 ? "does" : "do");
    if (result->first_difference >= 0)
        printf("  first difference at event %lld: %s\n", (long long)result->first_difference,
               result->text);
}

/* Every file under its recorded settings; 1 when one differs or cannot be trusted. */
static int verify_all(const struct replay_request *request)
{
    int status = CLI_DONE, shown = 0;

    if (request->json)
        fputs("{\"verified\": [", stdout);
    for (int i = 0; i < request->files.count; i++) {
        const char *file = request->files.items[i];
        acre_verify_result result = {.struct_size = sizeof result};
        acre_status found = acre_replay_verify(file, (uint32_t)request->device, &result);
        if (found != ACRE_OK) {
            int code = exit_of(found);
            say_error(file);
            status = code > status ? code : status;
            continue;
        }
        if (request->json)
            print_verify_json(file, result.device, &result, shown++ == 0);
        else
            print_verify(file, &result);
        if (!result.is_exact && status == CLI_DONE)
            status = CLI_NO;
    }
    if (request->json)
        fputs("\n]}\n", stdout);
    return status;
}

int cmd_replay(int argc, char **argv)
{
    static struct replay_request request = {.device = ACRE_DEVICE_CHOOSE};
    int status = CLI_BAD;

    if (!read_request(argc, argv, &request))
        return CLI_BAD;
    if (request.help) {
        fputs(help, stdout);
        return CLI_DONE;
    }
    if (request.verify)
        return verify_all(&request);
    struct replay_run *runs = calloc((size_t)run_count(&request), sizeof *runs);
    if (!runs)
        fputs("acre replay: out of memory\n", stderr);
    else if ((status = run_all(&request, runs)) == CLI_DONE) {
        if (request.json)
            print_json(&request, runs);
        else
            print_table(&request, runs);
        status = has_failed(&request, runs) ? CLI_NO : CLI_DONE;
    }
    free(runs);
    return status;
}
