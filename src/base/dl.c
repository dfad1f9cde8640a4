/* SPDX-License-Identifier: MIT */
#include "base/dl.h"

#include "base/status.h"
#include "base/text.h"

#include <dlfcn.h>
#include <string.h>

static void set_pointer(void *target, const struct dl_symbol *symbol, void *address)
{
    memcpy((char *)target + symbol->offset, &address, sizeof address);
}

static void clear_all(const struct dl_symbol *symbols, size_t symbol_count, void *target)
{
    for (size_t i = 0; i < symbol_count; i++)
        set_pointer(target, &symbols[i], NULL);
}

static acre_status dl_resolve(void *library, const char *name, const struct dl_symbol *symbols,
                              size_t symbol_count, void *target)
{
    for (size_t i = 0; i < symbol_count; i++) {
        void *address = dlsym(library, symbols[i].name);
        if (!address && symbols[i].other)
            address = dlsym(library, symbols[i].other);
        if (!address && !symbols[i].is_optional)
            return status_fail(ACRE_ERR_UNSUPPORTED, "%s has no %s%s%s; a newer one is needed",
                               name, symbols[i].name, symbols[i].other ? " or " : "",
                               symbols[i].other ? symbols[i].other : "");
        set_pointer(target, &symbols[i], address);
    }
    return ACRE_OK;
}

/* Adds why a library did not load: in the loader's words, unless it is simply not
 * there, which is the usual case and said in few words for several names. */
static void reason_add(struct text *text, const char *name, const char *reason)
{
    const char *separator = text->length ? "; " : "";

    if (!reason || strstr(reason, ": cannot open shared object file: No such file"))
        text_add(text, "%s%s is not there", separator, name);
    else
        text_add(text, "%s%s", separator, reason);
}

acre_status dl_open(const char *const *names, const struct dl_symbol *symbols, size_t symbol_count,
                    void *target, void **out_library)
{
    char why[768];
    struct text text;

    text_init(&text, why, sizeof why);
    clear_all(symbols, symbol_count, target);
    for (; *names; names++) {
        void *library = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            reason_add(&text, *names, dlerror());
            continue;
        }
        acre_status status = dl_resolve(library, *names, symbols, symbol_count, target);
        if (status != ACRE_OK) {
            clear_all(symbols, symbol_count, target);
            dlclose(library);
            return status;
        }
        *out_library = library;
        return ACRE_OK;
    }
    return status_fail(ACRE_ERR_UNSUPPORTED, "no library could be loaded: %s",
                       text.length ? why : "no name was given");
}

void dl_close(void *library)
{
    if (library)
        dlclose(library);
}
