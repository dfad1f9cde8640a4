/* SPDX-License-Identifier: MIT */
#include "tests/support/standin_bed.h"

#include "tests/support/t.h"

#include <acre/base.h>

#include <dlfcn.h>
#include <stdbool.h>

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
    *(void **)&control.restart = symbol(control.library, "standin_restart");
    *(void **)&control.usage = symbol(control.library, "standin_usage");
    return control;
}

const char *standin_vendor(void)
{
    const char *name = getenv("ACRE_TEST_DRIVER");

    return name && *name ? name : "cuda";
}

const char *standin_path(const char *vendor)
{
    return strcmp(vendor, "hip") == 0 ? STANDIN_HIP : STANDIN_CUDA;
}

void standin_use_vendor(const char *vendor)
{
    bool is_hip = strcmp(vendor, "hip") == 0;

    setenv(is_hip ? "ACRE_HIP_LIBRARY" : "ACRE_CUDA_LIBRARY", standin_path(vendor), 1);
    setenv("ACRE_BACKENDS", is_hip ? "hip,sim" : "cuda,sim", 1);
}

struct standin_control standin_now;

acre_status standin_backend(const char *vendor, const char *sim, acre_backend **out)
{
    standin_use_vendor(vendor);
    standin_now = standin_open(standin_path(vendor));
    standin_now.spare(1);
    REQUIRE_EQ(standin_now.restart(sim), 0);
    return acre_backend_find(vendor, out);
}

void standin_end(void)
{
    if (standin_now.restart(NULL))
        t_fail(__FILE__, __LINE__, "still held:%s", standin_text(&standin_now));
}

bool ground_is_driver(void)
{
    return getenv("ACRE_TEST_DRIVER") != NULL;
}

acre_backend *ground_create(const char *sim)
{
    acre_sim_config config = {.struct_size = sizeof config};
    acre_backend *backend = NULL;

    if (ground_is_driver()) {
        REQUIRE_OK(standin_backend(standin_vendor(), sim, &backend));
    } else {
        REQUIRE_OK(acre_sim_parse(sim, &config));
        REQUIRE_OK(acre_sim_create(&config, &backend));
    }
    return backend;
}

acre_sim_usage ground_usage(acre_backend *backend)
{
    acre_sim_usage usage = {.struct_size = sizeof usage, .alloc_count = 0};

    if (ground_is_driver())
        REQUIRE_EQ(standin_now.usage(&usage), ACRE_OK);
    else
        REQUIRE_OK(acre_sim_usage_get(backend, &usage));
    return usage;
}

void ground_destroy(acre_backend *backend)
{
    acre_backend_unregister(backend);
    if (ground_is_driver())
        standin_end();
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
