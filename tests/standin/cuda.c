/* SPDX-License-Identifier: MIT */
/* What makes a stand-in the CUDA driver. */
#include "tests/standin/core.h"

#include <string.h>

static const struct symbol {
    const char *name;
    void *address;
} symbols[] = {
#define SYMBOL(name, parameters) {#name, (void *)name},
    CUDA_MAP(SYMBOL) CUDA_OLD_MAP(SYMBOL)
#undef SYMBOL
};

/* By name, with or without the suffix of its version. */
static void *symbol(const char *name)
{
    size_t length = strlen(name);
    void *found = NULL;

    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++)
        if (strncmp(symbols[i].name, name, length) == 0 &&
            (!symbols[i].name[length] || strncmp(symbols[i].name + length, "_v", 2) == 0))
            found = found ? found : symbols[i].address;
    return found;
}

const struct vendor vendor = {
    .device_name = "Stand-in CUDA device",
    .version = 13000,
    .priority_least = 0,
    .priority_greatest = -5,
    .has_contexts = 1,
    .symbol = symbol,
};
