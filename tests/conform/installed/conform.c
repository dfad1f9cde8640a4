/* SPDX-License-Identifier: MIT */
/* The rules for backends, applied to the one in a shared library:
 *
 *     acre_conform ./libmine.so [NAME OF A TEST...]
 *
 * ACRE_CONFORM holds words about the backend, with commas between: exact
 * (memory_info counts allocations to the byte), trusting (foreign handles are not
 * recognised), zero (fresh memory reads as zero), dry (nothing moves).
 */
#include "tests/conform/backend_suite.h"

#include <dlfcn.h>

static acre_backend_describe_fn describe;

static acre_status describe_loaded(acre_backend_desc *out)
{
    return describe(out);
}

/* Filled in before the tests run. */
struct backend_suite backend_suite = {.describe = describe_loaded};

BACKEND_SUITE_PARTS

/* False, with a sentence, when a word is not known. */
static bool words_take(char *text)
{
    char *rest = NULL;

    for (char *word = text ? strtok_r(text, ",", &rest) : NULL; word;
         word = strtok_r(NULL, ",", &rest)) {
        bool *fact = strcmp(word, "exact") == 0      ? &backend_suite.is_exact
                     : strcmp(word, "trusting") == 0 ? &backend_suite.is_trusting
                     : strcmp(word, "zero") == 0     ? &backend_suite.fresh_is_zero
                     : strcmp(word, "dry") == 0      ? &backend_suite.is_dry
                                                     : NULL;

        if (!fact) {
            fprintf(stderr, "acre_conform: ACRE_CONFORM has \"%s\"; known are exact, trusting, "
                            "zero and dry\n", word);
            return false;
        }
        *fact = true;
    }
    return true;
}

int main(int argc, char **argv)
{
    char *words = getenv("ACRE_CONFORM");
    void *library, *symbol;

    if (argc < 2) {
        fprintf(stderr, "usage: acre_conform LIBRARY [TEST...]\n"
                        "Runs the rules for backends on the one that LIBRARY describes.\n");
        return 2;
    }
    if (words && !words_take(strdup(words)))
        return 2;
    library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "acre_conform: %s\n", dlerror());
        return 2;
    }
    symbol = dlsym(library, "acre_backend_describe");
    if (!symbol) {
        fprintf(stderr, "acre_conform: %s exports no acre_backend_describe\n", argv[1]);
        return 2;
    }
    memcpy(&describe, &symbol, sizeof describe);
    argv[1] = argv[0];
    return t_main(argc - 1, argv + 1);
}
