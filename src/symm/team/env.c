/* SPDX-License-Identifier: MIT */
/* The group that the environment describes. Four who start ranks are understood:
 *
 *     acre run           ACRE_RANK, ACRE_WORLD_SIZE, ACRE_STORE
 *     torchrun and kin   RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT: rank 0 serves the store
 *     mpirun, Open MPI   OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE
 *     mpirun, MPICH      PMI_RANK, PMI_SIZE
 *
 * Ranks that mpirun started on a host have one parent. Without another store they meet in a
 * file named after that process and the moment it started. The last rank that opens the file
 * removes it, so that nothing stays however the ranks end; a file that stayed because a rank
 * died before that is removed by the user's next job.
 * Ranks on several hosts meet in a store that rank 0 serves.
 */
#include "base/status.h"
#include "base/text.h"
#include "symm/deadline.h"
#include "symm/far/far.h"
#include "symm/team/group.h"
#include "symm/far/plug.h"
#include "symm/store/store.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define GROUP_START_MS 60000 /* for all ranks of a job to begin         */
#define CONNECT_MS     2000  /* for one address of rank 0 to answer     */
#define STALE_S        600   /* after which the file of a job is swept  */

static const char *const rank_names[] = {"ACRE_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                         NULL};
static const char *const size_names[] = {"ACRE_WORLD_SIZE", "WORLD_SIZE", "OMPI_COMM_WORLD_SIZE",
                                         "PMI_SIZE", NULL};
static const char *const port_names[] = {"MASTER_PORT", NULL};

/* The first of the variables that is set, as a number; fallback where none is. */
static acre_status number_of(const char *const *names, int64_t fallback, uint64_t max, int64_t *out)
{
    uint64_t number;

    *out = fallback;
    while (*names && !getenv(*names))
        names++;
    if (!*names)
        return ACRE_OK;
    const char *text = getenv(*names);
    if (!text_parse_unsigned(text, strlen(text), &number) || number > max)
        return status_fail(ACRE_ERR_CONFIG,
                           "acre_group_create_env: %s=%s is no number up to "
                           "%llu",
                           *names, text, (unsigned long long)max);
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

/* Removes files of this user's jobs whose starter has ended long ago. Young files are left: a
 * starter in another container has a number that means nothing here. */
static void jobs_sweep(const char *folder)
{
    DIR *list = opendir(folder);
    struct dirent *entry;

    while (list && (entry = readdir(list))) {
        unsigned user;
        int pid, end = 0;
        unsigned long long start;
        struct stat stat;
        if (sscanf(entry->d_name, "acre-job-%u-%d-%llu%n", &user, &pid, &start, &end) == 3 &&
            entry->d_name[end] == 0 && user == geteuid() && started_at(pid) != start &&
            fstatat(dirfd(list), entry->d_name, &stat, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(stat.st_mode) && stat.st_uid == user && stat.st_mtime + STALE_S < time(NULL))
            unlinkat(dirfd(list), entry->d_name, 0);
    }
    if (list)
        closedir(list);
}

/* Notes that this rank has opened the file; the last rank to do so removes the name. */
static acre_status job_open_note(const acre_group_config *config, const char *path)
{
    int64_t deadline = deadline_in_ms(GROUP_START_MS), times = 0, ranks = 0;
    char key[48];

    snprintf(key, sizeof key, "acre/job/%d", config->rank);
    acre_status status = store_add_until(config->store, key, 1, deadline, &times);
    if (status == ACRE_OK && times == 1)
        status = store_add_until(config->store, "acre/job/all", 1, deadline, &ranks);
    if (status == ACRE_OK && ranks == config->world_size)
        unlink(path);
    return status;
}

/* Where the ranks of one mpirun meet on this host. */
static acre_status store_of_parent(acre_group_config *config)
{
    const char *folder = getenv("XDG_RUNTIME_DIR");
    char path[512];

    folder = folder && *folder ? folder : "/tmp";
    jobs_sweep(folder);
    snprintf(path, sizeof path, "%s/acre-job-%u-%d-%llu", folder, (unsigned)geteuid(),
             (int)getppid(), started_at(getppid()));
    acre_status status = acre_store_open_file(path, 0, &config->store);
    return status == ACRE_OK ? job_open_note(config, path) : status;
}

/* Addresses of this host that others may reach, as text with a blank after each. */
static void addresses_of_host(char *out, size_t bytes)
{
    struct ifaddrs *list = NULL;
    struct text text;
    char name[INET_ADDRSTRLEN];

    text_init(&text, out, bytes);
    if (getifaddrs(&list) != 0)
        return;
    for (struct ifaddrs *it = list; it; it = it->ifa_next) {
        const struct sockaddr_in *address = (const void *)it->ifa_addr;
        if (address && address->sin_family == AF_INET && !(it->ifa_flags & IFF_LOOPBACK) &&
            inet_ntop(AF_INET, &address->sin_addr, name, sizeof name))
            text_add(&text, "%s ", name);
    }
    freeifaddrs(list);
}

/* Where the ranks of an mpirun over several hosts meet: rank 0 serves, and tells the others
 * over the wire at which addresses, of which the first that answers is taken. */
static acre_status store_of_wire(acre_group_config *config, acre_store_server **out_server)
{
    struct call {
        char secret[33], addresses[479];
        uint16_t port;
    } call = {.port = 0};
    uint8_t random[16] = {0};
    const char *wire;
    int rank;
    int64_t deadline = deadline_in_ms(GROUP_START_MS);
    acre_status status = far_open(deadline, &wire, &rank);

    if (status == ACRE_OK && rank == 0) {
        if (getrandom(random, sizeof random, 0) != sizeof random)
            return status_fail(ACRE_ERR_IO, "acre_group_create_env: no random bytes");
        for (size_t i = 0; i < sizeof random; i++)
            snprintf(call.secret + 2 * i, 3, "%02x", random[i]);
        status = acre_store_server_create("0.0.0.0", 0, call.secret, out_server);
        if (status == ACRE_OK)
            call.port = acre_store_server_port(*out_server);
        addresses_of_host(call.addresses, sizeof call.addresses);
    }
    if (status == ACRE_OK)
        status = far_spread(&call, sizeof call, deadline);
    if (status != ACRE_OK)
        return status;
    if (rank == 0)
        return acre_store_connect("127.0.0.1", call.port, call.secret, 0, &config->store);
    status = status_fail(ACRE_ERR_PEER, "acre_group_create_env: rank 0 has no address that "
                                        "another host could reach, or does not serve its store");
    char *rest = call.addresses;
    for (char *at; status != ACRE_OK && (at = strtok_r(rest, " ", &rest));)
        status = acre_store_connect(at, call.port, call.secret, CONNECT_MS, &config->store);
    return status;
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
            return plug_has_hosts() ? store_of_wire(config, out_server) : store_of_parent(config);
        return status_fail(ACRE_ERR_CONFIG,
                           "acre_group_create_env: %d ranks need ACRE_STORE, or "
                           "MASTER_ADDR and MASTER_PORT",
                           config->world_size);
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
