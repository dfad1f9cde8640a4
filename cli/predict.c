/* SPDX-License-Identifier: MIT */
/* acre predict: the GPU memory of a PyTorch program, predicted without a GPU.
 *
 * The work is done by the Python package acre.predict, in the interpreter that the
 * command line names: that one has the program's PyTorch. This file finds the
 * package and the library beside the command, and becomes that interpreter.
 */
#include "cli/commands.h"

#include <acre/base.h>

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where the package may be, from the folder of the command. */
static const char *const package_places[] = {
    "../python",
    "../lib/python3/dist-packages",
    "../../python",
};

/* The folder of the running command, without the last slash; false when unknown. */
static bool command_folder(char *folder, size_t capacity)
{
    ssize_t length = readlink("/proc/self/exe", folder, capacity - 1);

    if (length <= 0)
        return false;
    folder[length] = '\0';
    char *slash = strrchr(folder, '/');
    if (slash)
        *slash = '\0';
    return slash != NULL;
}

/* Puts the package's folder autoload at the front of PYTHONPATH, whose module sitecustomize shows
 * the package and nothing else that lies beside it. When it is not found, Python says so itself. */
static void package_show(void)
{
    char folder[PATH_MAX], place[2 * PATH_MAX], path[4 * PATH_MAX];
    const char *before = getenv("PYTHONPATH");

    if (!command_folder(folder, sizeof folder))
        return;
    for (size_t i = 0; i < sizeof package_places / sizeof *package_places; i++) {
        snprintf(path, sizeof path, "%s/%s/acre/predict/__main__.py", folder, package_places[i]);
        if (access(path, R_OK) != 0)
            continue;
        snprintf(place, sizeof place, "%s/%s/acre/autoload", folder, package_places[i]);
        snprintf(path, sizeof path, "%s%s%s", place, before && *before ? ":" : "",
                 before ? before : "");
        setenv("PYTHONPATH", path, 1);
        return;
    }
}

/* Names the library that this command uses, unless the user named another. */
static void library_show(void)
{
    Dl_info info;

    if (!getenv("ACRE_LIBRARY") && dladdr((void *)(uintptr_t)&acre_version, &info) != 0 &&
        info.dli_fname && strchr(info.dli_fname, '/'))
        setenv("ACRE_LIBRARY", info.dli_fname, 1);
}

/* Whether a word names a Python interpreter: "python", "/usr/bin/python3.11". */
static bool word_is_python(const char *word)
{
    const char *slash = strrchr(word, '/');
    const char *name = slash ? slash + 1 : word;

    return strncmp(name, "python", 6) == 0 && strspn(name + 6, "0123456789.") == strlen(name + 6);
}

/* The interpreter beside torchrun, which stands in the same environment: "env/bin/torchrun"
 * means "env/bin/python". Other words leave the choice as it is. */
static const char *launcher_python(const char *word, const char *otherwise)
{
    static char path[PATH_MAX];
    const char *slash = strrchr(word, '/');

    if (!slash || strcmp(slash + 1, "torchrun") != 0)
        return otherwise;
    snprintf(path, sizeof path, "%.*s/python", (int)(slash - word), word);
    return access(path, X_OK) == 0 ? path : otherwise;
}

/* Whether an option's value is the next word. */
static bool option_takes_word(const char *word)
{
    static const char *const alone[] = {"--json", "--savings", "--cards", "--quiet", "--help"};

    for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
        if (strcmp(word, alone[i]) == 0)
            return false;
    return strcmp(word, "-o") == 0 || (strncmp(word, "--", 2) == 0 && !strchr(word, '='));
}

/* The first word of the program, behind the options; "--" may stand before it. NULL: none. */
static const char *program_word(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0)
            return i + 1 < argc ? argv[i + 1] : NULL;
        if (argv[i][0] != '-')
            return argv[i];
        i += option_takes_word(argv[i]);
    }
    return NULL;
}

static int program_start(const char *interpreter, int argc, char **argv)
{
    char **words = calloc((size_t)argc + 4, sizeof *words);
    int count = 0;

    if (!words) {
        fputs("acre predict: there is no host memory\n", stderr);
        return CLI_BAD;
    }
    words[count++] = (char *)(uintptr_t)interpreter;
    words[count++] = (char *)(uintptr_t) "-m";
    words[count++] = (char *)(uintptr_t) "acre.predict";
    for (int i = 1; i < argc; i++)
        words[count++] = argv[i];
    package_show();
    library_show();
    setenv("TORCH_DEVICE_BACKEND_AUTOLOAD", "0", 0);
    fflush(NULL);
    execvp(interpreter, words);
    fprintf(stderr,
            "acre predict: %s cannot be started: %s; name the interpreter that has "
            "PyTorch after \"--\"\n",
            interpreter, strerror(errno));
    free(words);
    return CLI_BAD;
}

int cmd_predict(int argc, char **argv)
{
    const char *word = program_word(argc, argv);
    const char *interpreter = "python3";

    if (word)
        interpreter = word_is_python(word) ? word : launcher_python(word, interpreter);
    return program_start(interpreter, argc, argv);
}
