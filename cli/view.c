/* SPDX-License-Identifier: MIT */
/* acre view: a recording as one page for a browser. */
#include "cli/commands.h"
#include "cli/text/options.h"
#include "cli/text/print.h"
#include "cli/text/progress.h"

#include <acre/output.h>
#include <acre/view.h>

#include <string.h>
#include <sys/stat.h>

static const char help[] =
    "usage: acre view FILE -o PAGE.html [OPTION...]\n\n"
    "Writes one page that shows a recording in any browser, without network: live\n"
    "allocations stacked over time with the stack of what is under the cursor, reserved\n"
    "against allocated, the segments at any moment, search and filters. FILE is a memory\n"
    "snapshot of PyTorch (pickle) or Acre (JSON), or a trace, which is replayed on a\n"
    "simulated device.\n\n"
    "  -o FILE               where the page goes; - is standard output\n"
    "  --title TEXT          its heading; the name of FILE by default\n"
    "  --policy NAME         traces: acre (default) or torch decides where blocks go\n"
    "  --conf TEXT           traces: options in PyTorch's grammar\n"
    "  --device-memory SIZE  traces: capacity of the device, 80GiB by default\n\n"
    "Exit status: 1 when the page was written but the file is inconsistent.\n\n"
    "Examples: what filled the memory? What does a step look like under PyTorch's policy?\n"
    "  acre view snapshot.pickle -o snapshot.html\n"
    "  acre view step.trace.gz --policy torch -o step.html\n";

struct view_request {
    const char *file, *out, *title, *conf;
    acre_policy policy;
    uint64_t device_bytes;
    bool help;
};

static bool read_policy(struct options *options, acre_policy *out)
{
    const char *text = NULL;

    if (!options_value(options, "--policy", &text))
        return false;
    if (options->is_bad)
        return true;
    if (strcmp(text, "acre") == 0)
        *out = ACRE_POLICY_ACRE;
    else if (strcmp(text, "torch") == 0)
        *out = ACRE_POLICY_TORCH;
    else {
        fprintf(stderr, "acre view: --policy %s: write acre or torch\n", text);
        options->is_bad = true;
    }
    return true;
}

static bool read_request(int argc, char **argv, struct view_request *request)
{
    struct options options = {.argc = argc, .argv = argv, .command = "view"};
    const char *text = NULL;

    while (options_next(&options)) {
        if (options_is(&options, "--help") || options_is(&options, "-h"))
            request->help = true;
        else if (!options_value(&options, "-o", &request->out) &&
                 !options_value(&options, "--title", &request->title) &&
                 !options_value(&options, "--conf", &request->conf) &&
                 !options_size(&options, "--device-memory", &request->device_bytes) &&
                 !read_policy(&options, &request->policy)) {
            if (!options_operand(&options, &text))
                options_refuse(&options);
            else if (request->file) {
                fprintf(stderr, "acre view: one file at a time: %s, %s\n", request->file, text);
                options.is_bad = true;
            } else
                request->file = text;
        }
    }
    if (!options.is_bad && !request->help && (!request->file || !request->out)) {
        fprintf(stderr, "acre view: %s see acre view --help\n",
                request->file ? "where should the page go? give -o PAGE.html;" : "which file?");
        options.is_bad = true;
    }
    return !options.is_bad;
}

static acre_status make_page(const struct view_request *request, acre_view *view)
{
    struct progress progress;
    acre_view_config config = {.struct_size = sizeof config,
                               .policy = request->policy,
                               .conf = request->conf,
                               .device_bytes = request->device_bytes,
                               .progress = progress_tell,
                               .progress_arg = &progress};

    acre_status status = acre_output_check(request->out, &request->file, 1);
    if (status != ACRE_OK)
        return status;
    progress_begin(&progress);
    status = acre_view_read(view, request->file, &config);
    if (status == ACRE_OK)
        status = acre_view_write(view, request->out);
    progress_end(&progress);
    return status;
}

int cmd_view(int argc, char **argv)
{
    struct view_request request = {0};
    struct stat facts;
    acre_view *view = NULL;
    bool is_doubtful = false;

    if (!read_request(argc, argv, &request))
        return CLI_BAD;
    if (request.help) {
        fputs(help, stdout);
        return CLI_DONE;
    }
    const char *slash = strrchr(request.file, '/');
    const char *name = slash && slash[1] ? slash + 1 : request.file;
    bool is_taken = print_is_taken(request.out);
    acre_status status = acre_view_create(request.title ? request.title : name, &view);
    if (status == ACRE_OK)
        status = make_page(&request, view);
    if (status == ACRE_OK && acre_view_warning(view)) {
        fprintf(stderr, "acre view: %s\n", acre_view_warning(view));
        is_doubtful = true;
    }
    acre_view_destroy(view);
    if (status == ACRE_ERR_HOST_MEMORY) /* which says nothing about the file */
        print_error("view", request.file);
    else if (status != ACRE_OK)
        fprintf(stderr, "acre view: %s\n", acre_last_error());
    if (status != ACRE_OK)
        return CLI_BAD;
    if (!is_taken && stat(request.out, &facts) == 0 && S_ISREG(facts.st_mode))
        printf("%s: %s, open it in a browser\n", request.out, print_bytes((uint64_t)facts.st_size));
    return is_doubtful ? CLI_NO : CLI_DONE;
}
