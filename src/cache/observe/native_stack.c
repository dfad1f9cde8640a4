/* SPDX-License-Identifier: MIT */
/* Stacks of native code: return addresses when gathered, names when asked for.
 * The unwinder of libc walks by the tables that every object carries; names come
 * from the dynamic linker, which knows exported functions. The unwinder is that of
 * execinfo.h; a libc without that header (musl) gives no frames. */
#include <acre/history.h>

#include <dlfcn.h>
#include <stdio.h>

#if __has_include(<execinfo.h>)
#include <execinfo.h>
#else
static int backtrace(void **addresses, int capacity)
{
    (void)addresses;
    (void)capacity;
    return 0;
}
#endif

static size_t native_gather(void *arg, uint64_t *frames, size_t capacity)
{
    void *addresses[ACRE_STACK_MAX];
    int wanted = capacity < ACRE_STACK_MAX ? (int)capacity : ACRE_STACK_MAX;
    int count = backtrace(addresses, wanted);

    (void)arg;
    for (int i = 0; i < count; i++)
        frames[i] = (uintptr_t)addresses[i];
    return count > 0 ? (size_t)count : 0;
}

static void native_resolve(void *arg, uint64_t frame, acre_frame *out)
{
    /* A return address is behind the call, perhaps in the next function. */
    const char *inside = (const char *)(uintptr_t)frame - 1;
    Dl_info info;

    (void)arg;
    *out = (acre_frame){.name = "??", .file = "??"};
    if (!dladdr(inside, &info))
        return;
    if (info.dli_sname)
        snprintf(out->name, sizeof out->name, "%s", info.dli_sname);
    if (info.dli_fname)
        snprintf(out->file, sizeof out->file, "%s+0x%llx", info.dli_fname,
                 (unsigned long long)(inside - (const char *)info.dli_fbase));
}

const acre_context_source *acre_context_native(void)
{
    static const acre_context_source native = {native_gather, native_resolve, NULL};

    return &native;
}
