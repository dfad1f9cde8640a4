/* SPDX-License-Identifier: MIT */
#include "tests/support/standin_bed.h"

#include "tests/support/t.h"

#include <dlfcn.h>

static void *symbol(void *library, const char *name)
{
    void *address = dlsym(library, name);

    if (!address)
        t_fail(__FILE__, __LINE__, "the stand-in lacks %s", name);
    return address;
}

struct standin_control standin_open(const char *path)
{
    struct standin_control control = {.library = dlopen(path, RTLD_NOW | RTLD_LOCAL)};

    if (!control.library) {
        t_fail(__FILE__, __LINE__, "%s", dlerror());
        t_leave();
    }
    *(void **)&control.fail = symbol(control.library, "standin_fail");
    *(void **)&control.fail_nth = symbol(control.library, "standin_fail_nth");
    *(void **)&control.spare = symbol(control.library, "standin_spare");
    *(void **)&control.fail_end = symbol(control.library, "standin_fail_end");
    *(void **)&control.failed = symbol(control.library, "standin_failed");
    *(void **)&control.calls = symbol(control.library, "standin_calls");
    *(void **)&control.live = symbol(control.library, "standin_live");
    return control;
}

void standin_use(const char *variable, const char *path)
{
    setenv(variable, path, 1);
    unsetenv("ACRE_BACKENDS");
}

const char *standin_text(const struct standin_control *control)
{
    static char text[512];
    struct standin_live live;
    int length = 0;

    control->live(&live);
    text[0] = 0;
#define ADD(name)                                                              \
    if (live.name)                                                             \
        length += snprintf(text + length, sizeof text - (size_t)length, " %s %llu", #name, \
                           (unsigned long long)live.name);
    STANDIN_LIVE_MAP(ADD)
#undef ADD
    return text;
}
