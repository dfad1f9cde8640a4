/* SPDX-License-Identifier: MIT */
/* acre help: topics that belong to no single command. */
#include "cli/help.h"

#include "cli/commands.h"
#include "cli/text/table.h"

#include <acre/cache.h>

#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- Options of caches ---------------------------------------------------------------------- */

static const char *option_users(const acre_cache_option *option)
{
    bool is_torch = option->policies & 1u << ACRE_POLICY_TORCH;
    bool is_acre = option->policies & 1u << ACRE_POLICY_ACRE;

    if (strncmp(option->name, "pinned_", 7) == 0)
        return "host";
    return is_torch && is_acre ? "both" : is_torch ? "torch" : "acre";
}

static void help_conf(void)
{
    static const char *const columns[] = {"<option", "<policy", "<values", "<meaning", NULL};
    acre_cache_option option = {.struct_size = sizeof option};
    struct text_table table;

    puts("Options of caches, as NAME:VALUE with commas between, as in\n\n"
         "  PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True,max_split_size_mb:128\n"
         "  ACRE_CONF=policy:acre,stitched_memory:False\n"
         "  acre replay job.pickle --policy torch --conf max_split_size_mb:128\n\n"
         "The policy that uses an option: torch, acre, both, or host for the cache of\n"
         "page-locked host memory. An option that the policy does not use is accepted.\n");
    table_begin(&table, columns);
    for (size_t i = 0; acre_cache_option_at(i, &option) == ACRE_OK; i++) {
        table_cell(&table, "%s", option.name);
        table_cell(&table, "%s", option_users(&option));
        table_cell(&table, "%s", option.values);
        table_cell(&table, "%s", option.help);
    }
    table_end(&table, stdout);
}

/* ---- Environment ---------------------------------------------------------------------------- */

static void help_environment(void)
{
    puts("Variables that acre and the library read:\n\n"
         "  ACRE_CONF               options of caches; see \"acre help conf\"\n"
         "  PYTORCH_CUDA_ALLOC_CONF the same in PyTorch's grammar\n"
         "  ACRE_BACKENDS           backends that may start: sim,host,opencl,cuda,hip\n"
         "  ACRE_LOG                what is told on standard error: error, warn, info, debug\n"
         "  ACRE_SIM                the reference device: devices:2,memory:8GiB,page:2MiB\n"
         "  ACRE_OPENCL             the OpenCL backend: kind:gpu,memory:4GiB,grain:fine\n"
         "  ACRE_CUDA_LIBRARY, ACRE_HIP_LIBRARY   path of the vendor's library\n"
         "  ACRE_STORE, ACRE_STORE_SECRET         where ranks meet; \"acre run\" sets them\n\n"
         "The manual, acre(1), tells more about each.");
}

/* Whether every word of a list is known; tells the first one that is not. */
static bool list_check(const char *variable, const char *const *known, const char *advice)
{
    const char *list = getenv(variable);

    while (list && *list) {
        size_t length = strcspn(list, ",");
        bool is_known = false;
        for (int i = 0; known[i]; i++)
            is_known |= strlen(known[i]) == length && strncasecmp(list, known[i], length) == 0;
        if (!is_known) {
            fprintf(stderr, "acre: %s has \"%.*s\", which is none of its values; write %s\n",
                    variable, (int)(length < 64 ? length : 64), list, advice);
            return false;
        }
        list += length + (list[length] == ',');
    }
    return true;
}

bool help_environment_check(void)
{
    static const char *const backends[] = {"sim", "host", "opencl", "cuda", "hip", NULL};
    static const char *const levels[] = {"error", "warn", "info", "debug", NULL};

    return list_check(
               "ACRE_BACKENDS", backends,
               "names from sim, host, opencl, cuda and hip with commas between, or unset it") &&
           list_check("ACRE_LOG", levels, "error, warn, info or debug, or unset it");
}

bool help_topic(const char *topic)
{
    if (strcmp(topic, "conf") == 0)
        help_conf();
    else if (strcmp(topic, "environment") == 0)
        help_environment();
    else
        return false;
    return true;
}
