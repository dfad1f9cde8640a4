/* SPDX-License-Identifier: MIT */
/* Libraries of wires by name; see plug.h. They lie beside libacre.so, or where the loader
 * looks. What they need comes with them: symbols of an MPI are for all its own parts. */
#include "symm/far/plug.h"

#include "base/status.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How an mpirun tells a process about its job. */
static const struct starter {
    const char *wire, *size, *local_size;
} starters[] = {
    {"openmpi", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"mpich", "PMI_SIZE", "MPI_LOCALNRANKS"},
};

static const struct starter *starter_find(void)
{
    for (size_t i = 0; i < sizeof starters / sizeof *starters; i++)
        if (getenv(starters[i].size))
            return &starters[i];
    return NULL;
}

bool plug_has_hosts(void)
{
    const struct starter *starter = starter_find();
    const char *local = starter ? getenv(starter->local_size) : NULL;

    return local && atoi(local) < atoi(getenv(starter->size));
}

/* The name of the wire to take; NULL: none. */
static const char *wire_name(void)
{
    const char *name = getenv("ACRE_SYMM_WIRE");
    const struct starter *starter = starter_find();

    if (name && strcmp(name, "mpi") == 0)
        return starter ? starter->wire : "mpi";
    if (name && *name)
        return strcmp(name, "none") == 0 ? NULL : name;
    return plug_has_hosts() ? starter->wire : NULL;
}

/* In the folder of this library, then where the loader looks. */
static void *library_open(const char *name)
{
    char path[1200], file[300];
    Dl_info info;

    if (strchr(name, '/'))
        return dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    snprintf(file, sizeof file, "libacre_mpi_%.200s.so", name);
    if (dladdr((void *)(uintptr_t)plug_find, &info) && info.dli_fname) {
        const char *slash = strrchr(info.dli_fname, '/');
        int length = slash ? (int)(slash - info.dli_fname) + 1 : 0;
        snprintf(path, sizeof path, "%.*s%s", length < 800 ? length : 0, info.dli_fname, file);
        void *library = slash ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
        if (library)
            return library;
    }
    return dlopen(file, RTLD_NOW | RTLD_GLOBAL);
}

acre_status plug_find(const struct wire_ops **out)
{
    const char *name = wire_name();
    wire_find_fn *find = NULL;

    *out = NULL;
    if (!name)
        return ACRE_OK;
    void *library = library_open(name);
    void *symbol = library ? dlsym(library, WIRE_SYMBOL) : NULL;
    if (!symbol)
        return status_fail(ACRE_ERR_NOT_FOUND,
                           "symmetric memory: ranks on several hosts need the "
                           "wire \"%s\": %s; install the MPI and build Acre with its mpicc, or "
                           "set ACRE_SYMM_WIRE=none",
                           name, dlerror());
    memcpy(&find, &symbol, sizeof find);
    const struct wire_ops *ops = find(WIRE_VERSION);
    if (!ops || ops->version != WIRE_VERSION)
        return status_fail(ACRE_ERR_CONFIG,
                           "symmetric memory: the wire \"%s\" is of another "
                           "version of Acre",
                           name);
    *out = ops;
    return ACRE_OK;
}
