/* SPDX-License-Identifier: MIT */
/* acre advise: which setting would have let a recorded job fit. */
#include "cli/advise_page.h"
#include "cli/commands.h"
#include "cli/text/filter.h"
#include "cli/text/options.h"
#include "cli/text/print.h"
#include "cli/text/remedy.h"
#include "cli/text/progress.h"
#include "cli/text/table.h"

#include <acre/explain.h>
#include <acre/output.h>

#include <string.h>

static const char help[] =
    "usage: acre advise FILE [OPTION...]\n\n"
    "Replays a recorded job, a trace or a memory snapshot with history, under the settings of\n"
    "PyTorch's allocator that matter, under this library's own policy and placed ahead, and\n"
    "tells what each needs: the most it held in ample memory, and the smallest device that\n"
    "would do. \"Fits\" includes the request that failed in the recording.\n\n"
    "  --device-memory SIZE capacity to fit: 80GiB, 24G, bytes; by default what a failed\n"
    "                       request in the recording tells\n"
    "  --device N           device whose history is used; by default the device where a request\n"
    "                       failed, else the one that holds most\n"
    "  -o PAGE.html         a picture for a browser: what each setting holds over time\n"
    "  --threads N          settings tried at once; by default one per processor, 7 at most\n"
    "  --time SECONDS       try settings for at most SECONDS, 120 by default; those that are\n"
    "                       left are named as such\n"
    "  --json               print the report as one JSON object\n\n"
    "Exit status: 1 when nothing that PyTorch can be set to fits, when there is no history to\n"
    "replay, when the snapshot is inconsistent, when more than 4 TiB are live at once, or when\n"
    "there was no time for the present settings.\n\n"
    "Example: would this job fit a smaller GPU with another setting?\n"
    "  acre advise job.pickle --device-memory 24G -o settings.html\n";

struct advise_request {
    const char *file, *out;
    uint64_t device, device_bytes, threads;
    double seconds;
    bool json, help;
};

static bool read_request(int argc, char **argv, struct advise_request *request)
{
    struct options options = {.argc = argc, .argv = argv, .command = "advise"};

    while (options_next(&options)) {
        if (options_is(&options, "--help") || options_is(&options, "-h"))
            request->help = true;
        else if (options_is(&options, "--json"))
            request->json = true;
        else if (!options_size(&options, "--device-memory", &request->device_bytes) &&
                 !options_number(&options, "--device", 0, 65535, &request->device) &&
                 !options_number(&options, "--threads", 1, 64, &request->threads) &&
                 !options_seconds(&options, "--time", &request->seconds) &&
                 !options_value(&options, "-o", &request->out) &&
                 (request->file || !options_operand(&options, &request->file)))
            options_refuse(&options);
    }
    if (!options.is_bad && !request->help && !request->file) {
        fputs("acre advise: which file? see acre advise --help\n", stderr);
        return false;
    }
    return !options.is_bad;
}

static const char *policy_name(const acre_setting *setting)
{
    return setting->flags & ACRE_SETTING_PLAN     ? "plan"
           : setting->policy == ACRE_POLICY_TORCH ? "torch"
                                                  : "acre";
}

/* ---- JSON -------------------------------------------------------------------------------- */

static void print_setting_json(const acre_setting *setting, bool is_first)
{
    fputs(is_first ? "\n  {\"conf\": " : ",\n  {\"conf\": ", stdout);
    print_json_string(stdout, setting->conf);
    printf(", \"policy\": \"%s\", \"bytes_reserved_peak\": ", policy_name(setting));
    if (setting->flags & ACRE_SETTING_UNTRIED)
        fputs("null", stdout);
    else
        printf("%llu", (unsigned long long)setting->bytes_reserved_peak);
    fputs(", \"min_capacity_bytes\": ", stdout);
    if (setting->min_capacity_bytes)
        printf("%llu", (unsigned long long)setting->min_capacity_bytes);
    else
        fputs("null", stdout);
    printf(", \"fits\": %s, \"note\": ", setting->fits < 0 ? "null"
                                         : setting->fits   ? "true"
                                                           : "false");
    print_json_string(stdout, setting->note);
    putchar('}');
}

static void print_json(const char *file, const acre_advice *advice)
{
    fputs("{\"file\": ", stdout);
    print_json_string(stdout, file);
    printf(", \"device\": %u, \"devices\": %u, \"device_reason\": \"%s\", \"allocator\": \"%s\",\n"
           " \"events\": %llu, \"bytes_requested_peak\": %llu, \"bytes_wanted_peak\": %llu, "
           "\"device_bytes\": ",
           advice->device, advice->device_count, advice->device_reason, advice->allocator,
           (unsigned long long)advice->events, (unsigned long long)advice->bytes_requested_peak,
           (unsigned long long)advice->wanted_peak_bytes);
    if (advice->device_bytes)
        printf("%llu", (unsigned long long)advice->device_bytes);
    else
        fputs("null", stdout);
    fputs(",\n \"recorded\": {\"conf\": ", stdout);
    print_json_string(stdout, advice->recorded_conf);
    printf(", \"bytes_reserved_peak\": %llu, \"ooms\": %llu, \"failed_bytes\": %llu, "
           "\"failed_stack\": ",
           (unsigned long long)advice->recorded_reserved_peak,
           (unsigned long long)advice->recorded_ooms, (unsigned long long)advice->failed_bytes);
    print_json_string(stdout, *advice->failed_stack ? advice->failed_stack : NULL);
    fputs("},\n \"settings\": [", stdout);
    for (uint64_t i = 0; i < advice->setting_count; i++)
        print_setting_json(&advice->settings[i], i == 0);
    fputs("],\n \"top\": [", stdout);
    for (uint64_t i = 0; i < advice->top_count; i++) {
        printf("%s\n  {\"bytes\": %llu, \"count\": %llu, \"stack\": ", i ? "," : "",
               (unsigned long long)advice->top[i].bytes, (unsigned long long)advice->top[i].count);
        print_json_string(stdout, advice->top[i].text);
        putchar('}');
    }
    putchar(']');
    print_remedies_json(stdout, advice->remedies, advice->remedy_count);
    printf(",\n \"shortage\": %s, \"recommended\": {\"conf\": ",
           advice->is_shortage ? "true" : "false");
    print_json_string(stdout, advice->is_shortage ? NULL
                              : advice->recommended < 0
                                  ? advice->recorded_conf
                                  : advice->settings[advice->recommended].conf);
    printf(", \"saves_bytes\": %llu, \"why\": ", (unsigned long long)advice->saves_bytes);
    print_json_string(stdout, advice->why);
    fputs("}}\n", stdout);
}

/* ---- Text ---------------------------------------------------------------------------------- */

static void print_heading(const acre_advice *advice)
{
    char text[2048];

    if (advice->device_count > 1)
        printf("Device %u of %u, %s.\n", advice->device, advice->device_count,
               advice->device_reason);
    if (advice->allocator[0] == 't')
        puts("Recorded by Ascend's torch_npu: blocks hold 32 bytes more than was asked for.");
    snprintf(text, sizeof text, "%s; at most %s live at once%s%s%s.",
             print_count(advice->events, "event"), print_bytes(advice->bytes_requested_peak),
             advice->recorded_reserved_peak ? "; " : "",
             advice->recorded_reserved_peak ? print_bytes(advice->recorded_reserved_peak) : "",
             advice->recorded_reserved_peak ? " held in the recording" : "");
    print_paragraph(stdout, text);
    if (advice->failed_bytes) {
        snprintf(text, sizeof text, "A request of %s failed%s%s.",
                 print_bytes(advice->failed_bytes), *advice->failed_stack ? ", made by " : "",
                 advice->failed_stack);
        print_paragraph(stdout, text);
    }
    putchar('\n');
}

static void print_text(const acre_advice *advice)
{
    static const char *const columns[] = {"<policy", "<settings", "reserved", "needs",
                                          "<fits",   "<",         NULL};
    const char *shares[] = {
        "", "blocks", advice->failed_bytes ? "<live when the request failed" : "<live at the peak",
        NULL};
    struct text_table table;

    print_heading(advice);
    table_begin(&table, columns);
    for (uint64_t i = 0; i < advice->setting_count; i++) {
        const acre_setting *setting = &advice->settings[i];
        table_cell(&table, "%s", policy_name(setting));
        table_cell(&table, "%s", *setting->conf ? setting->conf : "-");
        bool is_tried = !(setting->flags & ACRE_SETTING_UNTRIED);
        if (is_tried)
            table_cell(&table, "%.1f MiB", (double)setting->bytes_reserved_peak / (1 << 20));
        else
            table_cell(&table, "%s", "");
        if (setting->min_capacity_bytes)
            table_cell(&table, "%llu MiB", (unsigned long long)(setting->min_capacity_bytes >> 20));
        else
            table_cell(&table, "%s", is_tried ? "none" : "");
        table_cell(&table, "%s", setting->fits < 0 ? "" : setting->fits ? "yes" : "no");
        bool is_best = (int64_t)i == advice->recommended;
        table_cell(&table, "%s%s%s", is_best ? "recommended" : "",
                   is_best && *setting->note ? "; " : "", setting->note);
    }
    table_end(&table, stdout);
    putchar('\n');
    print_paragraph(stdout,
                    "reserved: the most it holds in ample memory; needs: the smallest device");
    putchar('\n');
    print_paragraph(stdout, advice->why);
    print_remedies(advice->remedies, advice->remedy_count);
    if (advice->remedy_count == 0 || advice->top_count == 0)
        return;
    putchar('\n');
    table_begin(&table, shares);
    for (uint64_t i = 0; i < advice->top_count; i++) {
        table_cell(&table, "%s", print_bytes(advice->top[i].bytes));
        table_cell(&table, "%llu", (unsigned long long)advice->top[i].count);
        table_cell(&table, "%s", advice->top[i].text);
    }
    table_end(&table, stdout);
}

/* Whether something that PyTorch can be set to fits, as far as is known. */
static bool advise_fits(const acre_advice *advice)
{
    if (!advice->device_bytes)
        return true;
    for (uint64_t i = 0; i < advice->setting_count; i++)
        if (advice->settings[i].fits == 1 && advice->settings[i].policy == ACRE_POLICY_TORCH)
            return true;
    return false;
}

/* A snapshot without history: what can be said, and what cannot. */
static int say_no_history(const char *file, bool is_json)
{
    acre_snapshot *snapshot = NULL;
    acre_snapshot_info info = {.struct_size = sizeof info};

    print_failure("advise", file, is_json);
    if (!is_json && acre_snapshot_open(file, &snapshot) == ACRE_OK &&
        acre_snapshot_info_get(snapshot, &info) == ACRE_OK)
        printf("Known: %s are held, %s of them in use, in %s.\n"
               "Not known without a history: which setting would need less. \"acre why\" explains "
               "this state.\n",
               print_bytes(info.reserved_bytes), print_bytes(info.allocated_bytes),
               print_count(info.segment_count, "segment"));
    acre_snapshot_close(snapshot);
    return CLI_NO;
}

static int advise_run(const struct advise_request *request)
{
    struct progress progress;
    acre_advice *advice = NULL;
    int code;

    progress_begin(&progress);
    acre_advise_config config = {.struct_size = sizeof config,
                                 .device = (uint32_t)request->device,
                                 .device_bytes = request->device_bytes,
                                 .threads = (uint32_t)request->threads,
                                 .flags = request->out ? ACRE_ADVISE_CURVES : 0,
                                 .seconds = request->seconds,
                                 .progress = progress_tell,
                                 .progress_arg = &progress};
    acre_status status = acre_advise(request->file, &config, &advice);
    progress_end(&progress);
    if (status == ACRE_ERR_NOT_FOUND)
        return say_no_history(request->file, request->json);
    if (status != ACRE_OK) {
        print_failure("advise", request->file, request->json);
        return status == ACRE_ERR_STATE || status == ACRE_ERR_LIMIT || status == ACRE_ERR_TIMEOUT
                   ? CLI_NO
                   : CLI_BAD;
    }
    code = advise_fits(advice) ? CLI_DONE : CLI_NO;
    bool is_taken = print_is_taken(request->out);
    if (request->out && !advise_page(request->out, request->file, advice))
        code = CLI_BAD;
    else if (is_taken)
        filter_break_silence();
    else if (request->json)
        print_json(request->file, advice);
    else
        print_text(advice);
    acre_advice_destroy(advice);
    return code;
}

int cmd_advise(int argc, char **argv)
{
    struct advise_request request = {.device = ACRE_DEVICE_CHOOSE, .seconds = CLI_ADVISE_SECONDS};

    if (!read_request(argc, argv, &request))
        return CLI_BAD;
    if (request.help) {
        fputs(help, stdout);
        return CLI_DONE;
    }
    if (request.out && acre_output_check(request.out, &request.file, 1) != ACRE_OK) {
        fprintf(stderr, "acre advise: %s\n", acre_last_error());
        return CLI_BAD;
    }
    return advise_run(&request);
}
