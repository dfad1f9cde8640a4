/* SPDX-License-Identifier: MIT */
/* acre convert: traces and snapshots into one another. */
#include "cli/commands.h"
#include "cli/text/options.h"
#include "cli/text/print.h"

#include <acre/output.h>
#include <acre/snapshot.h>

#include <stdio.h>
#include <string.h>

static const char help[] =
    "usage: acre convert IN OUT [OPTION...]\n\n"
    "Writes what IN holds, a trace or a memory snapshot in any format that is read, as OUT.\n"
    "The name of OUT tells as what: .trace or .txt a trace, .pickle or .pkl a snapshot as\n"
    "PyTorch writes it, .json a snapshot as JSON; with .gz behind it, compressed.\n\n"
    "  --to FORMAT   trace, pickle or json, whatever the name; OUT may then be -, standard output\n"
    "  --device N    whose history becomes the trace; by default the device where a request\n"
    "                failed, else the one that holds most\n\n"
    "A trace becomes a snapshot by replaying it as PyTorch would. A snapshot becomes a trace\n"
    "by its history; what was live when it began is allocated first.\n\n"
    "Example: the history of a job for other tools\n"
    "  acre convert oom_snapshot.pickle job.trace.gz\n";

static const struct {
    const char *name;
    acre_convert_format format;
} names[] = {
    {".trace", ACRE_CONVERT_TRACE},  {".txt", ACRE_CONVERT_TRACE}, {".pickle", ACRE_CONVERT_PICKLE},
    {".pkl", ACRE_CONVERT_PICKLE},   {".json", ACRE_CONVERT_JSON}, {"trace", ACRE_CONVERT_TRACE},
    {"pickle", ACRE_CONVERT_PICKLE}, {"json", ACRE_CONVERT_JSON},
};

/* The format that the end of a name tells, or 0. */
static acre_convert_format format_of(const char *name)
{
    size_t length = strlen(name);

    if (length >= 3 && strcmp(name + length - 3, ".gz") == 0)
        length -= 3;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        size_t end = strlen(names[i].name);
        if (names[i].name[0] == '.' ? length > end : length == end)
            if (strncmp(name + length - end, names[i].name, end) == 0)
                return names[i].format;
    }
    return 0;
}

int cmd_convert(int argc, char **argv)
{
    struct options options = {.argc = argc, .argv = argv, .command = "convert"};
    const char *files[2] = {NULL, NULL}, *text = NULL, *to = NULL;
    uint64_t device = ACRE_DEVICE_CHOOSE;
    int count = 0;

    while (options_next(&options)) {
        if (options_is(&options, "--help") || options_is(&options, "-h")) {
            fputs(help, stdout);
            return CLI_DONE;
        }
        if (options_value(&options, "--to", &to) ||
            options_number(&options, "--device", 0, 65535, &device))
            continue;
        if (options_operand(&options, &text) && count < 2)
            files[count++] = text;
        else
            options_refuse(&options);
    }
    if (options.is_bad)
        return CLI_BAD;
    if (count < 2) {
        fputs("acre convert: from which file to which? see acre convert --help\n", stderr);
        return CLI_BAD;
    }
    acre_convert_format format = format_of(to ? to : files[1]);
    if (!format) {
        fprintf(stderr,
                "acre convert: \"%s\" does not tell the format; name it .trace, .pickle or "
                ".json, or say --to\n",
                to ? to : files[1]);
        return CLI_BAD;
    }
    acre_status status = acre_output_check(files[1], files, 1);
    if (status == ACRE_OK)
        status = acre_convert(files[0], files[1], format, (uint32_t)device);
    if (status == ACRE_OK)
        return CLI_DONE;
    if (status == ACRE_ERR_HOST_MEMORY || status == ACRE_ERR_DEVICE_MEMORY) /* of no file */
        print_error("convert", files[0]);
    else
        fprintf(stderr, "acre convert: %s\n", acre_last_error());
    return status == ACRE_ERR_STATE ? CLI_NO : CLI_BAD;
}
