/* SPDX-License-Identifier: MIT */
/* "acre --backend LIBRARY COMMAND": a command on somebody's own device.
 *
 * devices shows it, bench measures caches on it, and run hands it to ranks that use PyTorch.
 * The other commands work on files, or on the reference device; giving them a device that they
 * would not use is refused.
 */
#include "cli/backend.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static acre_backend *loaded;

acre_backend *backend_loaded(void)
{
    return loaded;
}

static bool command_is_known(const char *command)
{
    static const char *const users[] = {"devices", "bench", "run"};

    for (size_t i = 0; i < sizeof users / sizeof *users; i++)
        if (strcmp(users[i], command) == 0)
            return true;
    return false;
}

/* A path is made whole, so that ranks find it from other folders. A bare name is looked for as
 * the loader does it. */
static bool library_load(const char *path)
{
    char whole[PATH_MAX];

    if (strchr(path, '/') && !realpath(path, whole)) {
        fprintf(stderr, "acre: --backend: %s: ", path);
        perror(NULL);
        return false;
    }
    if (strchr(path, '/'))
        path = whole;
    if (acre_backend_load(path, &loaded) != ACRE_OK) {
        fprintf(stderr, "acre: --backend: %s\n", acre_last_error());
        return false;
    }
    if (acre_backend_device_count(loaded) == 0) {
        fprintf(stderr, "acre: --backend: %s has no devices here\n", path);
        return false;
    }
    setenv("ACRE_TORCH_BACKEND", path, 1);
    return true;
}

bool backend_option(int *argc, char ***argv)
{
    static const char option[] = "--backend";
    size_t bytes = sizeof option - 1;
    const char *given = *argc > 1 ? (*argv)[1] : "", *path;
    int taken;

    if (strncmp(given, option, bytes) != 0 || (given[bytes] && given[bytes] != '='))
        return true;
    path = given[bytes] ? given + bytes + 1 : *argc > 2 ? (*argv)[2] : "";
    taken = given[bytes] ? 1 : 2;
    if (!*path || *argc < taken + 2) {
        fprintf(stderr, "acre: --backend takes a shared library, and a command follows: "
                        "acre --backend ./libmine.so devices\n");
        return false;
    }
    if (!command_is_known((*argv)[taken + 1])) {
        fprintf(stderr,
                "acre: --backend goes with devices, bench and run; \"%s\" uses no device "
                "of its own\n",
                (*argv)[taken + 1]);
        return false;
    }
    (*argv)[taken] = (*argv)[0];
    *argv += taken;
    *argc -= taken;
    return library_load(path);
}
