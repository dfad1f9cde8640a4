/* SPDX-License-Identifier: MIT */
#include "tests/support/ranks.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

struct start {
    struct rank me;
    void (*body)(struct rank *);
    const char *path;
};

static void rank_main(void *arg)
{
    struct start *start = arg;
    struct rank *me = &start->me;

    REQUIRE_OK(acre_store_open_file(start->path, 0, &me->store));
    acre_group_config config = {.struct_size = sizeof config, .rank = me->rank,
                                .world_size = me->count, .name = "world", .store = me->store,
                                .timeout_ms = me->timeout_ms,
                                .flags = ACRE_GROUP_ALLOW_OVERLAP};
    REQUIRE_OK(acre_group_create(&config, &me->group));
    start->body(me);
    acre_group_destroy(me->group);
    acre_store_destroy(me->store);
}

void ranks_run_with(int count, void (*body)(struct rank *), uint64_t timeout_ms,
                    unsigned may_die)
{
    char path[64];
    pid_t pids[RANKS_MAX];
    void *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    REQUIRE(shared != MAP_FAILED);
    snprintf(path, sizeof path, "/tmp/acre-ranks-%d", (int)getpid());
    unlink(path);
    for (int i = 0; i < count; i++) {
        struct start start = {{i, count, NULL, NULL, shared, timeout_ms}, body, path};
        pids[i] = t_start(rank_main, &start);
    }
    for (int i = 0; i < count; i++) {
        int status = t_join(pids[i]);
        if (status != 0 && !(may_die >> i & 1))
            t_fail(__FILE__, __LINE__, "rank %d ended with %d", i, status);
    }
    unlink(path);
    munmap(shared, 4096);
}

void ranks_run(int count, void (*body)(struct rank *))
{
    ranks_run_with(count, body, 60000, 0);
}

acre_symm *ranks_symm(struct rank *me, size_t bytes, void **out_base)
{
    acre_symm *symm = NULL;
    void *base;

    (void)me;
    REQUIRE_OK(acre_symm_alloc(NULL, bytes, &base));
    REQUIRE_OK(acre_symm_rendezvous(base, "world", &symm));
    REQUIRE(symm != NULL);
    if (out_base)
        *out_base = base;
    return symm;
}

void ranks_meet_some(struct rank *me, int index, int count)
{
    atomic_fetch_add(&me->shared[256 + index], 1);
    while (atomic_load(&me->shared[256 + index]) < (uint64_t)count)
        usleep(200);
}

void ranks_meet(struct rank *me, int index)
{
    ranks_meet_some(me, index, me->count);
}

acre_group *ranks_subgroup(struct rank *me, const char *name, unsigned members)
{
    acre_group *group;
    acre_group_config config = {.struct_size = sizeof config, .name = name, .store = me->store,
                                .world_size = __builtin_popcount(members), .timeout_ms = 60000};

    if (!(members >> me->rank & 1))
        return NULL;
    config.rank = __builtin_popcount(members & ((1u << me->rank) - 1));
    REQUIRE_OK(acre_group_create(&config, &group));
    return group;
}
