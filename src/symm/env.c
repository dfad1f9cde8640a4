/* SPDX-License-Identifier: MIT */
/* The group that the environment describes. Four who start ranks are understood:
 *
 *     acre run           ACRE_RANK, ACRE_WORLD_SIZE, ACRE_STORE
 *     torchrun and kin   RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT: rank 0 serves the store
 *     mpirun, Open MPI   OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE
 *     mpirun, MPICH      PMI_RANK, PMI_SIZE
 *
 * Ranks that mpirun started on a host have one parent. Without another store they meet in a
 * file named after that process and the moment it started, which the last of them removes.
 */
#include "base/status.h"
#include "base/text.h"
#include "symm/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const rank_names[] = {"ACRE_RANK", "RANK", "OMPI_COMM_WORLD_RANK",
                                         "PMI_RANK", NULL};
static const char *const size_names[] = {"ACRE_WORLD_SIZE", "WORLD_SIZE",
                                         "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", NULL};
static const char *const port_names[] = {"MASTER_PORT", NULL};

/* The first of the variables that is set, as a number; fallback where none is. */
static acre_status number_of(const char *const *names, int64_t fallback, uint64_t max,
                             int64_t *out)
{
    uint64_t number;

    *out = fallback;
    while (*names && !getenv(*names))
        names++;
    if (!*names)
        return ACRE_OK;
    const char *text = getenv(*names);
    if (!text_parse_unsigned(text, strlen(text), &number) || number > max)
        return status_fail(ACRE_ERR_CONFIG, "acre_group_create_env: %s=%s is no number up to "
                           "%llu", *names, text, (unsigned long long)max);
    *out = (int64_t)number;
    return ACRE_OK;
}

/* When a process started, in ticks since the machine did; 0 when that is not known. */
static unsigned long long started_at(pid_t pid)
{
    char path[32], line[1024];
    unsigned long long ticks = 0;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    size_t got = file ? fread(line, 1, sizeof line - 1, file) : 0;
    if (file)
        fclose(file);
    line[got] = 0;
    char *at = strrchr(line, ')'); /* names of programs may hold anything */
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    if (at)
        ticks = strtoull(at, NULL, 10);
    return ticks;
}

/* Where the ranks of one mpirun meet on this host. */
static acre_status store_of_parent(acre_group_config *config)
{
    const char *folder = getenv("XDG_RUNTIME_DIR");
    char path[512];

    snprintf(path, sizeof path, "%s/acre-job-%u-%d-%llu", folder && *folder ? folder : "/tmp",
             (unsigned)geteuid(), (int)getppid(), started_at(getppid()));
    return acre_store_open_file(path, (uint32_t)config->world_size, &config->store);
}

/* The store of MASTER_ADDR and MASTER_PORT; rank 0 serves it. */
static acre_status store_of_master(acre_group_config *config, acre_store_server **out_server)
{
    const char *host = getenv("MASTER_ADDR"), *secret = getenv("ACRE_STORE_SECRET");
    int64_t port;
    acre_status status = number_of(port_names, -1, 65535, &port);

    if (status != ACRE_OK)
        return status;
    if (!host || port <= 0) {
        if (getenv("OMPI_COMM_WORLD_RANK") || getenv("PMI_RANK"))
            return store_of_parent(config);
        return status_fail(ACRE_ERR_CONFIG, "acre_group_create_env: %d ranks need ACRE_STORE, or "
                           "MASTER_ADDR and MASTER_PORT", config->world_size);
    }
    if (config->rank == 0)
        status = acre_store_server_create(host, (uint16_t)port, secret, out_server);
    if (status == ACRE_OK)
        status = acre_store_connect(host, (uint16_t)port, secret, 0, &config->store);
    return status;
}

ACRE_API acre_status acre_group_create_env(const char *name, acre_group **out)
{
    acre_group_config config = {.struct_size = sizeof config, .name = name};
    acre_store_server *server = NULL;
    int64_t rank, count;
    acre_status status = number_of(rank_names, 0, WORLD_MAX, &rank);

    if (status == ACRE_OK)
        status = number_of(size_names, 1, WORLD_MAX, &count);
    if (status != ACRE_OK)
        return status;
    config.rank = (int32_t)rank;
    config.world_size = (int32_t)count;
    if (getenv("ACRE_STORE"))
        status = acre_store_open(getenv("ACRE_STORE"), &config.store);
    else if (count > 1)
        status = store_of_master(&config, &server);
    if (status == ACRE_OK)
        status = acre_group_create(&config, out);
    if (status != ACRE_OK) {
        acre_store_destroy(config.store);
        acre_store_server_destroy(server);
        return status;
    }
    (*out)->own_store = config.store;
    (*out)->server = server;
    return ACRE_OK;
}
