/* SPDX-License-Identifier: MIT */
/* acre devices: what this machine offers.
 *
 * Every backend that this build knows is started; one that does not start is
 * shown with the reason. Nothing is changed on any device.
 */
#include "cli/backend.h"
#include "cli/commands.h"
#include "cli/text/print.h"

#include <acre/acre.h>

#include <stdbool.h>
#include <string.h>
#include <unistd.h>

/* Names of the capabilities, bit by bit. */
static const char *const capability_names[] = {
    "streams",   "copies",  "launch",   "values", "virtual", "share",      "multicast",
    "capture",   "host",    "pointers", "peers",  "access",  "ipc",        "current",
    "ipc-users", "kernels", "green",    "async",  "fabric",  "ipc-events",
};

#define CAPABILITY_COUNT (int)(sizeof capability_names / sizeof *capability_names)

/* Whether a configuration string was refused: then the answer is bad input. */
static bool config_is_bad;

/* Whether a device did not answer. */
static bool device_is_silent;

/* Whether somebody else's driver was started. */
static bool driver_is_loaded;

/* Why a backend cannot be used, or NULL when it can. The text is valid until
 * the next failing call. */
static const char *backend_open(const char *name, acre_backend **out)
{
    acre_status status = acre_backend_find(name, out);

    if (status == ACRE_ERR_CONFIG)
        config_is_bad = true;
    if (status != ACRE_OK)
        return acre_last_error();
    driver_is_loaded |= acre_backend_type(*out) != ACRE_DEVICE_CPU &&
                        acre_backend_type(*out) != ACRE_DEVICE_PRIVATE;
    return acre_backend_device_count(*out) > 0 ? NULL : "it has no devices here";
}

/* Facts and free memory of a device; false when it does not answer. */
static bool device_read(acre_backend *backend, int index, acre_device **out, acre_device_info *info,
                        uint64_t *bytes_free)
{
    uint64_t total;

    *info = (acre_device_info){.struct_size = sizeof *info};
    if (acre_backend_device(backend, index, out) == ACRE_OK &&
        acre_device_info_get(*out, info) == ACRE_OK &&
        acre_device_memory(*out, bytes_free, &total) == ACRE_OK)
        return true;
    device_is_silent = true;
    return false;
}

/* The name of a backend by number, that of --backend first; NULL ends the list. */
static const char *name_at(int at)
{
    acre_backend *loaded = backend_loaded();

    if (loaded && at == 0)
        return acre_backend_name(loaded);
    return acre_backend_name_at(loaded ? at - 1 : at);
}

static void print_device(acre_backend *backend, int index)
{
    acre_device *device;
    acre_device_info info = {.struct_size = sizeof info};
    uint64_t bytes_free = 0;

    if (!device_read(backend, index, &device, &info, &bytes_free)) {
        printf("  %d: %s\n", index, acre_last_error());
        return;
    }
    acre_device_id id = acre_device_id_of(device);
    printf("  %s:%d  %s\n", acre_device_type_name(id.type), id.index, info.name);
    printf("    memory %s, free %s, granularity %s\n", print_bytes(info.total_bytes),
           print_bytes(bytes_free), print_bytes(info.alloc_granularity));
    if (info.page_bytes)
        printf("    virtual memory in pages of %s\n", print_bytes(info.page_bytes));
    printf("    can:");
    for (int bit = 0; bit < CAPABILITY_COUNT; bit++)
        if (info.capabilities >> bit & 1)
            printf(" %s", capability_names[bit]);
    putchar('\n');
}

static void print_text(void)
{
    const char *name;

    for (int at = 0; (name = name_at(at)); at++) {
        acre_backend *backend;
        const char *why = backend_open(name, &backend);

        printf("%s%s%s\n", name, why ? ": not available: " : "", why ? why : "");
        for (int i = 0; !why && i < acre_backend_device_count(backend); i++)
            print_device(backend, i);
    }
}

static void print_device_json(acre_backend *backend, int index)
{
    acre_device *device;
    acre_device_info info = {.struct_size = sizeof info};
    uint64_t bytes_free = 0;
    const char *separator = "";

    if (!device_read(backend, index, &device, &info, &bytes_free)) {
        fputs("{\"error\": ", stdout);
        print_json_string(stdout, acre_last_error());
        putchar('}');
        return;
    }
    acre_device_id id = acre_device_id_of(device);
    printf("{\"type\": \"%s\", \"index\": %d, \"name\": ", acre_device_type_name(id.type),
           id.index);
    print_json_string(stdout, info.name);
    printf(", \"total_bytes\": %llu, \"free_bytes\": %llu, \"alloc_granularity\": %llu, "
           "\"page_bytes\": %llu, \"capabilities\": [",
           (unsigned long long)info.total_bytes, (unsigned long long)bytes_free,
           (unsigned long long)info.alloc_granularity, (unsigned long long)info.page_bytes);
    for (int bit = 0; bit < CAPABILITY_COUNT; bit++) {
        if (!(info.capabilities >> bit & 1))
            continue;
        printf("%s\"%s\"", separator, capability_names[bit]);
        separator = ", ";
    }
    fputs("]}", stdout);
}

static void print_json(void)
{
    const char *name;

    fputs("{\"backends\": [", stdout);
    for (int at = 0; (name = name_at(at)); at++) {
        acre_backend *backend;
        const char *why = backend_open(name, &backend);

        printf("%s\n  {\"name\": ", at ? "," : "");
        print_json_string(stdout, name);
        printf(", \"available\": %s, \"why\": ", why ? "false" : "true");
        print_json_string(stdout, why);
        fputs(", \"devices\": [", stdout);
        for (int i = 0; !why && i < acre_backend_device_count(backend); i++) {
            fputs(i ? ",\n    " : "\n    ", stdout);
            print_device_json(backend, i);
        }
        fputs("]}", stdout);
    }
    fputs("\n]}\n", stdout);
}

int cmd_devices(int argc, char **argv)
{
    bool json = false;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs("usage: acre devices [--json]\n\n"
                  "Shows the backends of this build, each with its devices, or with the reason\n"
                  "why it is not available here.\n\n"
                  "  --json   {\"backends\": [{\"name\", \"available\", \"why\", \"devices\"}]}\n\n"
                  "Exit status: 1 when a device does not answer, 2 when a setting is bad.\n\n"
                  "Example: three reference devices of 80 GiB that hand out addresses only\n"
                  "  ACRE_SIM=devices:3,memory:80GiB,dry:1 acre devices\n",
                  stdout);
            return CLI_DONE;
        }
        if (strcmp(argv[i], "--json") != 0) {
            fprintf(stderr, "acre devices: \"%s\" is not an option; see acre devices --help\n",
                    argv[i]);
            return CLI_BAD;
        }
        json = true;
    }
    if (json)
        print_json();
    else
        print_text();
    int code = config_is_bad ? CLI_BAD : device_is_silent ? CLI_NO : CLI_DONE;

    /* Drivers do work of their own when a process ends, and some fail at it
     * (PoCL 3); what was asked for is on its way by then. */
    if (driver_is_loaded && fflush(stdout) == 0 && !ferror(stdout))
        _exit(code);
    return code;
}
