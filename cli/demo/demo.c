/* SPDX-License-Identifier: MIT */
/* acre demo: a tour on the reference device. The stops are in tour.c. */
#include "cli/commands.h"
#include "cli/demo/tour.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct stop {
    const char *title;
    bool (*run)(struct tour *tour);
} stops[] = {
#define DEMO_STOP(name, title) {title, tour_##name},
    TOUR_STOPS(DEMO_STOP)
#undef DEMO_STOP
};

static int print_help(void)
{
    fputs("usage: acre demo [-o FOLDER]\n\n"
          "A tour of what the library does, on a device made of host memory: no accelerator\n"
          "is needed. It checks what it shows and ends by writing report.html.\n"
          "ACRE_SIM sets up the device, two or more that hold contents: the tour copies.\n\n"
          "  -o FOLDER  where report.html goes; the current folder by default\n\n"
          "Example:\n"
          "  acre demo -o /var/tmp\n"
          "  ACRE_SIM=devices:3,memory:2GiB acre demo\n",
          stdout);
    return CLI_DONE;
}

/* The device of the tour, as ACRE_SIM wants it; false when the tour cannot run on that. */
static bool read_config(acre_sim_config *config)
{
    const char *text = getenv("ACRE_SIM");

    *config = (acre_sim_config){.struct_size = sizeof *config, .name = "demo"};
    if (text && acre_sim_parse(text, config) != ACRE_OK) {
        fprintf(stderr, "acre demo: %s\n", acre_last_error());
        return false;
    }
    if (config->devices == 1 || config->dry) {
        fprintf(stderr,
                "acre demo: ACRE_SIM=%s: the tour needs two devices that hold contents; "
                "set devices:2,dry:0\n",
                text);
        return false;
    }
    return true;
}

static bool run_tour(struct tour *tour, const acre_sim_config *config)
{
    bool is_fine;

    tour->limit_bytes = config->limit_bytes;
    TRY(acre_sim_create(config, &tour->backend));
    is_fine = acre_backend_device(tour->backend, 0, &tour->device[0]) == ACRE_OK &&
              acre_backend_device(tour->backend, 1, &tour->device[1]) == ACRE_OK;
    for (size_t i = 0; is_fine && i < sizeof stops / sizeof *stops; i++) {
        report_section(tour->report, stops[i].title);
        is_fine = stops[i].run(tour);
        fflush(stdout);
    }
    /* After a failed stop work may still be under way on the device; the end
     * of the process is the safe way to drop it. */
    if (is_fine)
        acre_backend_unregister(tour->backend);
    return is_fine;
}

int cmd_demo(int argc, char **argv)
{
    struct tour tour = {0};
    acre_sim_config config;
    const char *folder = ".";

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return print_help();
        if (strcmp(argv[i], "-o") == 0 && i + 1 < argc) {
            folder = argv[++i];
            continue;
        }
        fprintf(stderr,
                "acre demo: \"%s\" is not an option, or its folder is missing; "
                "see acre demo --help\n",
                argv[i]);
        return CLI_BAD;
    }
    if (!read_config(&config))
        return CLI_BAD;
    tour.report = report_open(folder, "Acre: memory for any accelerator");
    if (!tour.report)
        return CLI_BAD;
    if (!run_tour(&tour, &config)) {
        report_close(tour.report);
        return CLI_NO;
    }
    printf("\nAll of this is in %s\n", report_path(tour.report));
    return report_close(tour.report) ? CLI_DONE : CLI_BAD;
}
