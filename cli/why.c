/* SPDX-License-Identifier: MIT */
/* acre why: what stood in the way of a request, or what held memory at the peak. */
#include "cli/commands.h"
#include "cli/text/options.h"
#include "cli/text/print.h"
#include "cli/text/remedy.h"
#include "cli/text/table.h"

#include <acre/explain.h>

#include <string.h>

static const char help[] =
    "usage: acre why FILE [OPTION...]\n\n"
    "Explains a memory snapshot, as PyTorch writes it: why the last failed request failed,\n"
    "or, when none did, what held memory when most was live. Tells how the free memory lay,\n"
    "who held the rest by stack and by size, what keeps growing, and what can be done.\n\n"
    "  --device N           which device; by default the one where a request failed, else the\n"
    "                       one that holds most\n"
    "  --device-memory SIZE capacity of the device: tells what is used outside\n"
    "  --json               print the report as one JSON object\n\n"
    "Exit status: 1 when the snapshot is inconsistent.\n\n"
    "Example:\n"
    "  acre why oom_snapshot.pickle\n";

struct why_request {
    const char *file;
    uint64_t device, device_bytes;
    bool json, help, has_device;
};

static bool read_request(int argc, char **argv, struct why_request *request)
{
    struct options options = {.argc = argc, .argv = argv, .command = "why"};

    while (options_next(&options)) {
        if (options_is(&options, "--help") || options_is(&options, "-h"))
            request->help = true;
        else if (options_is(&options, "--json"))
            request->json = true;
        else if (options_number(&options, "--device", 0, 65535, &request->device))
            request->has_device = true;
        else if (!options_size(&options, "--device-memory", &request->device_bytes) &&
                 (request->file || !options_operand(&options, &request->file)))
            options_refuse(&options);
    }
    if (!options.is_bad && !request->help && !request->file) {
        fputs("acre why: which file? see acre why --help\n", stderr);
        return false;
    }
    return !options.is_bad;
}

/* ---- Replays ------------------------------------------------------------------------------- */

/* What became of the job, the request that failed included, under the setting that helps most. */
struct replayed {
    const char *conf; /* NULL: not replayed */
    bool fits;
    uint64_t tried;                   /* settings of PyTorch    */
    char conf_text[256], remedy[512]; /* what the others point at */
    acre_remedy remedies[9];          /* those of why, the one about a setting put right */
    uint64_t remedy_count;
};

/* The setting to tell about: the recommended one where it fits, else any that does, else
 * growing segments, which do not. */
static const acre_setting *setting_choose(const acre_advice *advice)
{
    const acre_setting *found = NULL;

    if (advice->recommended >= 0 && advice->settings[advice->recommended].fits == 1)
        return &advice->settings[advice->recommended];
    for (uint64_t i = 0; i < advice->setting_count; i++) {
        const acre_setting *setting = &advice->settings[i];
        if (setting->policy != ACRE_POLICY_TORCH || setting->flags & ACRE_SETTING_PLAN ||
            setting->fits < 0)
            continue;
        if (strcmp(setting->conf, "expandable_segments:True") == 0 || !found)
            found = setting;
    }
    return found;
}

/* Puts the remedies right: a setting is advised when the replay fits, and only then. The first
 * remedy against fragmentation is about a setting. */
static void remedies_correct(const acre_why *why, struct replayed *out)
{
    bool is_setting = why->remedy_count && strncmp(why->remedies[0].text, "Set ", 4) == 0;

    if (out->fits) {
        snprintf(
            out->remedy, sizeof out->remedy,
            "Set %s=%s: replayed with it, the job and the request that failed fit this device.",
            why->allocator[0] == 't' ? "PYTORCH_NPU_ALLOC_CONF" : "PYTORCH_CUDA_ALLOC_CONF",
            out->conf);
        out->remedies[out->remedy_count++] = (acre_remedy){
            .bytes = is_setting ? why->remedies[0].bytes : 0, .is_enough = 1, .text = out->remedy};
    }
    for (uint64_t i = is_setting; i < why->remedy_count && out->remedy_count < 9; i++)
        out->remedies[out->remedy_count++] = why->remedies[i];
}

/* Replays the recording when a setting is advised against fragmentation, so that its effect is
 * known and not hoped for. Without a history, or when it cannot be replayed, nothing is told, nor
 * when none of the settings for which there was time fits. */
static void setting_replay(const char *file, const acre_why *why, struct replayed *out)
{
    acre_advise_config config = {
        .struct_size = sizeof config, .device = why->device, .seconds = CLI_ADVISE_SECONDS};
    acre_advice *advice = NULL;
    bool is_whole = true;

    *out = (struct replayed){0};
    for (uint64_t i = 0; i < why->remedy_count && i < 9; i++)
        out->remedies[out->remedy_count++] = why->remedies[i];
    if (why->verdict != ACRE_VERDICT_FRAGMENTATION || why->is_expandable || !why->has_history ||
        acre_advise(file, &config, &advice) != ACRE_OK)
        return;
    const acre_setting *setting = setting_choose(advice);
    for (uint64_t i = 0; i < advice->setting_count; i++) {
        out->tried += advice->settings[i].policy == ACRE_POLICY_TORCH;
        is_whole &= !(advice->settings[i].flags & ACRE_SETTING_UNTRIED);
    }
    if (setting && (is_whole || setting->fits == 1)) {
        snprintf(out->conf_text, sizeof out->conf_text, "%s", setting->conf);
        out->conf = out->conf_text;
        out->fits = setting->fits == 1;
        out->remedy_count = 0;
        remedies_correct(why, out);
    }
    acre_advice_destroy(advice);
}

static void print_replayed(const struct replayed *replayed)
{
    if (!replayed->conf || replayed->fits)
        return;
    char text[256];

    snprintf(text, sizeof text,
             "Replayed under %s of PyTorch, the request that failed included: none of "
             "them fits this device. Less has to be live.",
             print_count(replayed->tried, "setting"));
    putchar('\n');
    print_paragraph(stdout, text);
}

static void print_replayed_json(const struct replayed *replayed)
{
    if (!replayed->conf) {
        fputs(",\n \"replayed\": null", stdout);
        return;
    }
    fputs(",\n \"replayed\": {\"conf\": ", stdout);
    print_json_string(stdout, replayed->conf);
    printf(", \"fits\": %s}", replayed->fits ? "true" : "false");
}

/* ---- JSON -------------------------------------------------------------------------------- */

static const char *verdict_name(acre_verdict verdict)
{
    static const char *const names[] = {"none",  "shortage", "fragmentation", "streams",
                                        "pools", "limit",    "unused",        "unknown"};

    return names[verdict];
}

static void print_number(const char *name, uint64_t number)
{
    printf(",\n \"%s\": %llu", name, (unsigned long long)number);
}

static void print_shares(const char *name, const char *key, const acre_share *shares,
                         uint64_t count)
{
    printf(",\n \"%s\": [", name);
    for (uint64_t i = 0; i < count; i++) {
        printf("%s\n  {\"bytes\": %llu, \"count\": %llu, \"%s\": ", i ? "," : "",
               (unsigned long long)shares[i].bytes, (unsigned long long)shares[i].count, key);
        print_json_string(stdout, shares[i].text);
        putchar('}');
    }
    putchar(']');
}

static void print_growth_json(const acre_why *why)
{
    fputs(",\n \"growth\": [", stdout);
    for (uint64_t i = 0; i < why->growth_count; i++) {
        const acre_growth *growth = &why->growth[i];
        printf("%s\n  {\"bytes_from\": %llu, \"bytes_to\": %llu, \"count_from\": %llu, "
               "\"count_to\": %llu, \"stack\": ",
               i ? "," : "", (unsigned long long)growth->bytes_from,
               (unsigned long long)growth->bytes_to, (unsigned long long)growth->count_from,
               (unsigned long long)growth->count_to);
        print_json_string(stdout, growth->text);
        putchar('}');
    }
    putchar(']');
}

static void print_categories_json(const acre_why *why)
{
    fputs(",\n \"categories\": {", stdout);
    for (uint64_t i = 0; i < why->category_count; i++)
        printf("%s\"%s\": %llu", i ? ", " : "", why->categories[i].text,
               (unsigned long long)why->categories[i].bytes);
    putchar('}');
}

static void print_json(const char *file, const acre_why *why, const struct replayed *replayed)
{
    fputs("{\"file\": ", stdout);
    print_json_string(stdout, file);
    printf(", \"device\": %u, \"devices\": %u, \"device_reason\": \"%s\", \"allocator\": \"%s\"",
           why->device, why->device_count, why->device_reason, why->allocator);
    if (why->has_oom) {
        printf(",\n \"oom\": {\"requested_bytes\": %llu, \"device_free_bytes\": %llu, "
               "\"missing_bytes\": %llu, \"event\": %llu, \"stack\": ",
               (unsigned long long)why->oom_requested_bytes,
               (unsigned long long)why->oom_device_free_bytes,
               (unsigned long long)why->missing_bytes, (unsigned long long)why->event);
        print_json_string(stdout, *why->oom_stack ? why->oom_stack : NULL);
        putchar('}');
    } else {
        fputs(",\n \"oom\": null", stdout);
    }
    print_number("event", why->event);
    print_number("allocated_bytes", why->allocated_bytes);
    print_number("requested_bytes", why->requested_bytes);
    print_number("reserved_bytes", why->reserved_bytes);
    print_number("largest_free_bytes", why->largest_free_bytes);
    print_number("free_split_bytes", why->free_split_bytes);
    print_number("free_whole_bytes", why->free_whole_bytes);
    print_number("waiting_bytes", why->waiting_bytes);
    print_number("private_pool_bytes", why->private_pool_bytes);
    print_number("private_free_bytes", why->private_free_bytes);
    print_number("stackless_bytes", why->stackless_bytes);
    if (why->outside_bytes >= 0)
        print_number("outside_bytes", (uint64_t)why->outside_bytes);
    else
        fputs(",\n \"outside_bytes\": null", stdout);
    printf(",\n \"verdict\": \"%s\"", verdict_name(why->verdict));
    print_shares("top", "stack", why->top, why->top_count);
    print_shares("sizes", "size", why->sizes, why->size_count);
    print_growth_json(why);
    print_categories_json(why);
    print_remedies_json(stdout, replayed->remedies, replayed->remedy_count);
    print_replayed_json(replayed);
    fputs(",\n \"text\": ", stdout);
    print_json_string(stdout, why->text);
    fputs("}\n", stdout);
}

/* ---- Text ---------------------------------------------------------------------------------- */

static void print_state(const acre_why *why)
{
    static const char *const columns[] = {"<memory", "bytes", "", NULL};
    /* Files without segments do not tell what was held, nor what of it was free. */
    bool is_held = why->allocated_bytes + why->waiting_bytes <= why->reserved_bytes;
    const struct {
        const char *name;
        uint64_t bytes;
        bool is_told;
    } rows[] = {
        {"request that failed", why->oom_requested_bytes, why->has_oom},
        {"free on the device", why->oom_device_free_bytes, why->has_oom},
        {"used outside the allocator", (uint64_t)why->outside_bytes, why->outside_bytes >= 0},
        {"held by the allocator", why->reserved_bytes, is_held},
        {"  in use", why->allocated_bytes, true},
        {"  waiting for other streams", why->waiting_bytes, true},
        {"  fragmented (free inside partly used segments)", why->free_split_bytes, is_held},
        {"  free, whole segments", why->free_whole_bytes, is_held},
        {"  free, in private pools", why->private_free_bytes, is_held},
        {"asked for by what is in use", why->requested_bytes, true},
        {"largest free piece", why->largest_free_bytes, is_held},
        {"held by private pools", why->private_pool_bytes, why->private_pool_bytes > 0},
    };
    struct text_table table;

    table_begin(&table, columns);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].is_told) {
            table_cell(&table, "%s", rows[i].name);
            table_cell(&table, "%llu", (unsigned long long)rows[i].bytes);
            table_cell(&table, "%s", print_bytes(rows[i].bytes));
        }
    table_end(&table, stdout);
}

static void print_table(const char *title, const acre_share *shares, uint64_t count)
{
    const char *columns[] = {"", "blocks", title, NULL};
    struct text_table table;

    if (count == 0)
        return;
    putchar('\n');
    table_begin(&table, columns);
    for (uint64_t i = 0; i < count && i < 10; i++) {
        table_cell(&table, "%s", print_bytes(shares[i].bytes));
        table_cell(&table, "%llu", (unsigned long long)shares[i].count);
        table_cell(&table, "%s", shares[i].text);
    }
    table_end(&table, stdout);
}

static void print_categories(const acre_why *why)
{
    static const char *const columns[] = {"", "<live, by what it seems to be for", NULL};
    struct text_table table;

    if (why->category_count < 2)
        return;
    putchar('\n');
    table_begin(&table, columns);
    for (uint64_t i = 0; i < why->category_count; i++) {
        table_cell(&table, "%s", print_bytes(why->categories[i].bytes));
        table_cell(&table, "%s", why->categories[i].text);
    }
    table_end(&table, stdout);
}

static void print_growth(const acre_why *why)
{
    static const char *const columns[] = {"from", "to", "blocks", "<growing all the time", NULL};
    struct text_table table;

    if (why->growth_count == 0)
        return;
    putchar('\n');
    table_begin(&table, columns);
    for (uint64_t i = 0; i < why->growth_count; i++) {
        table_cell(&table, "%s", print_bytes(why->growth[i].bytes_from));
        table_cell(&table, "%s", print_bytes(why->growth[i].bytes_to));
        table_cell(&table, "%llu to %llu", (unsigned long long)why->growth[i].count_from,
                   (unsigned long long)why->growth[i].count_to);
        table_cell(&table, "%s", why->growth[i].text);
    }
    table_end(&table, stdout);
}

static void print_text(const acre_why *why, const struct replayed *replayed)
{
    print_paragraph(stdout, why->text);
    print_remedies(replayed->remedies, replayed->remedy_count);
    print_replayed(replayed);
    if (why->device_count > 1)
        printf("\nDevice %u of %u, %s\n", why->device, why->device_count, why->device_reason);
    else
        printf("\nDevice %u\n", why->device);
    print_state(why);
    print_categories(why);
    print_table("<live, by stack: your own line first, then its callers", why->top, why->top_count);
    print_table("<live, by size of block", why->sizes, why->size_count);
    print_growth(why);
}

int cmd_why(int argc, char **argv)
{
    struct why_request request = {0};
    acre_snapshot *snapshot = NULL;
    acre_why *why = NULL;
    int code = CLI_BAD;

    if (!read_request(argc, argv, &request))
        return CLI_BAD;
    if (request.help) {
        fputs(help, stdout);
        return CLI_DONE;
    }
    acre_why_config config = {.struct_size = sizeof config,
                              .device = request.has_device ? (int32_t)request.device : -1,
                              .device_bytes = request.device_bytes};
    acre_status status = acre_snapshot_open(request.file, &snapshot);
    if (status == ACRE_OK && acre_snapshot_check(snapshot) != ACRE_OK) {
        print_failure("why", request.file, request.json);
        fputs("acre why: the file was changed by hand or by a tool, and cannot be trusted\n",
              stderr);
        acre_snapshot_close(snapshot);
        return CLI_NO;
    }
    if (status == ACRE_OK)
        status = acre_why_create(snapshot, &config, &why);
    if (status != ACRE_OK) {
        print_failure("why", request.file, request.json);
    } else {
        struct replayed replayed;

        setting_replay(request.file, why, &replayed);
        if (request.json)
            print_json(request.file, why, &replayed);
        else
            print_text(why, &replayed);
        code = CLI_DONE;
    }
    acre_why_destroy(why);
    acre_snapshot_close(snapshot);
    return code;
}
