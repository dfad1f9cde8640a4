/* SPDX-License-Identifier: MIT */
/* acre exec: starts a Python program whose CPU tensors or arrays come from heaps of Acre.
 *
 * The program needs no change. A folder of the package acre is put in front of PYTHONPATH;
 * its module sitecustomize shows the package, and nothing else that lies beside it, and waits
 * until the program imports torch or numpy. Child processes inherit that. This command becomes
 * the program, so its exit status and signals are the program's. */
#include "cli/commands.h"
#include "cli/text/options.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where the Python packages are, seen from the folder of this program. */
static const char *const package_folders[] = {
    "/../python",
    "/../lib/python3/dist-packages",
    "/../../python",
};

static void exec_help(void)
{
    fputs(
        "usage: acre exec [--torch-cpu] [--numpy] [--limit SIZE] -- PYTHON [ARGUMENT...]\n\n"
        "Starts a Python program whose CPU tensors (PyTorch) or arrays (NumPy) come from heaps\n"
        "of Acre. The program needs no change; child processes inherit this.\n\n"
        "  --torch-cpu    CPU tensors of PyTorch; the Python must have torch_acre\n"
        "  --numpy        arrays of NumPy 1.24 to 2.x\n"
        "  --limit SIZE   cap on each heap, such as 4GiB: beyond it the program gets a\n"
        "                 torch.OutOfMemoryError or MemoryError that names who holds the memory\n\n"
        "Exit status: that of the program; 2 bad use, 127 the program cannot be started.\n\n"
        "Example: train with tensors on Acre\n"
        "  acre exec --torch-cpu -- python train.py\n",
        stdout);
}

/* Finds the folder of the Python packages. */
static bool folder_find(char *out, size_t bytes)
{
    char self[PATH_MAX], *slash;
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);

    if (length <= 0)
        return false;
    self[length] = 0;
    slash = strrchr(self, '/');
    if (slash)
        *slash = 0;
    for (size_t i = 0; i < sizeof package_folders / sizeof *package_folders; i++) {
        char probe[PATH_MAX + 64];
        char whole[PATH_MAX];

        snprintf(probe, sizeof probe, "%s%s", self, package_folders[i]);
        if (!realpath(probe, whole) || strlen(whole) + 1 > bytes)
            continue;
        snprintf(probe, sizeof probe, "%s/acre/autoload/sitecustomize.py", whole);
        if (access(probe, R_OK) == 0) {
            strcpy(out, whole);
            return true;
        }
    }
    return false;
}

/* Puts the package's folder autoload in front of PYTHONPATH; false: there is no memory. */
static bool path_extend(const char *folder)
{
    const char *before = getenv("PYTHONPATH");
    size_t bytes = strlen(folder) + (before ? strlen(before) : 0) + 32;
    char *path = malloc(bytes);

    if (!path)
        return false;
    snprintf(path, bytes, "%s/acre/autoload%s%s", folder, before && *before ? ":" : "",
             before ? before : "");
    int failed = setenv("PYTHONPATH", path, 1);
    free(path);
    return failed == 0;
}

static void wish_set(const char *name, uint64_t limit)
{
    char text[40] = "1";

    if (limit)
        snprintf(text, sizeof text, "limit:%llu", (unsigned long long)limit);
    setenv(name, text, 1);
}

static int exec_become(char **command)
{
    char folder[PATH_MAX];

    if (!folder_find(folder, sizeof folder)) {
        fprintf(stderr, "acre exec: the Python package acre is not found beside this program; "
                        "run it from the build or install tree\n");
        return CLI_BAD;
    }
    if (!path_extend(folder)) {
        fprintf(stderr, "acre exec: no memory for the environment\n");
        return CLI_BAD;
    }
    execvp(command[0], command);
    fprintf(stderr, "acre exec: %s: %s\n", command[0], strerror(errno));
    return 127;
}

int cmd_exec(int argc, char **argv)
{
    struct options options = {argc, argv, "exec", 0, false, false};
    bool has_torch = false, has_numpy = false;
    const char *program;
    char **command = NULL;
    uint64_t limit = 0;

    while (!command && options_next(&options)) {
        if (options_is(&options, "--help") || options_is(&options, "-h")) {
            exec_help();
            return CLI_DONE;
        }
        if (options_is(&options, "--torch-cpu"))
            has_torch = true;
        else if (options_is(&options, "--numpy"))
            has_numpy = true;
        else if (options_operand(&options, &program))
            command = argv + options.at;
        else if (!options_size(&options, "--limit", &limit))
            options_refuse(&options);
    }
    if (options.is_bad)
        return CLI_BAD;
    if (!command || !(has_torch || has_numpy)) {
        fprintf(stderr, "acre exec: --torch-cpu or --numpy, and a program, are required; see "
                        "acre exec --help\n");
        return CLI_BAD;
    }
    if (has_torch)
        wish_set("ACRE_TORCH_CPU", limit);
    if (has_numpy)
        wish_set("ACRE_NUMPY", limit);
    return exec_become(command);
}
