/* SPDX-License-Identifier: MIT */
/* Groups by name, and the one that the environment describes. */
#include "symm/team/group.h"

#include "base/heap.h"
#include "base/status.h"
#include "base/struct_size.h"
#include "symm/deadline.h"
#include "symm/link/exchange.h"

#include <stdlib.h>
#include <string.h>

#define GROUP_TIMEOUT_MS 300000u

static struct lock registry_lock = LOCK_INITIALIZER(RANK_REGISTRY, "groups");
FORK_GUARD(registry_lock);
static struct list registry = LIST_INITIALIZER(registry); /* under registry_lock */
static uint64_t serial_last;                              /* under registry_lock */

/* ---- References ------------------------------------------------------------------- */

static void group_free(acre_group *group)
{
    link_destroy(group->peers);
    acre_store_destroy(group->own_store);
    acre_store_server_destroy(group->server);
    lock_fini(&group->lock);
    heap_free(group->name);
    heap_free(group->store_name);
    heap_free(group);
}

void group_put(acre_group *group)
{
    if (atomic_fetch_sub_explicit(&group->refs, 1, memory_order_acq_rel) == 1)
        group_free(group);
}

static acre_group *find_locked(const char *name)
{
    LIST_FOR_EACH(it, &registry) {
        acre_group *group = CONTAINER_OF(it, acre_group, link);
        if (strcmp(group->name, name) == 0)
            return group;
    }
    return NULL;
}

acre_status group_get(const char *name, acre_group **out)
{
    lock_take(&registry_lock);
    acre_group *group = find_locked(name);
    if (group)
        atomic_fetch_add_explicit(&group->refs, 1, memory_order_relaxed);
    lock_drop(&registry_lock);
    if (!group)
        return status_fail(ACRE_ERR_NOT_FOUND, "symmetric memory: there is no group \"%s\"", name);
    *out = group;
    return ACRE_OK;
}

acre_status group_fail_forked(const acre_group *group)
{
    return status_fail(ACRE_ERR_FORKED,
                       "symmetric memory: group \"%s\" was made before fork and does not work in "
                       "the child, which makes one of its own",
                       group->name);
}

acre_status group_join_locked(acre_group *group, int64_t deadline)
{
    if (group->peers)
        return ACRE_OK;
    return link_join(group->store, group->store_name, group->rank, group->count, deadline,
                     &group->peers);
}

/* ---- Creating --------------------------------------------------------------------- */

static acre_status config_check(const acre_group_config *config, acre_group *const *out)
{
    if (!out || !config->name || !*config->name)
        return status_fail(ACRE_ERR_INVALID, "acre_group_create: %s is missing",
                           out ? "name" : "out");
    if (strlen(config->name) > 255 || (config->store_name && strlen(config->store_name) > 255))
        return status_fail(ACRE_ERR_INVALID, "acre_group_create: a name has at most 255 bytes");
    if (config->world_size < 1 || config->world_size > WORLD_MAX)
        return status_fail(ACRE_ERR_RANGE, "acre_group_create: %d ranks; a group has 1 to %d",
                           config->world_size, WORLD_MAX);
    if (config->rank < 0 || config->rank >= config->world_size)
        return status_fail(ACRE_ERR_RANGE, "acre_group_create: rank %d is outside 0 to %d",
                           config->rank, config->world_size - 1);
    if (!config->store && config->world_size > 1)
        return status_fail(ACRE_ERR_INVALID, "acre_group_create: %d ranks need a store to meet",
                           config->world_size);
    return ACRE_OK;
}

/* "1" sets the bit, "0" clears it, anything else is no answer. */
static uint32_t flag_of(const char *variable, uint32_t bit, uint32_t flags)
{
    const char *text = getenv(variable);

    if (text && strcmp(text, "1") == 0)
        return flags | bit;
    return text && strcmp(text, "0") == 0 ? flags & ~bit : flags;
}

static acre_group *group_new(const acre_group_config *config)
{
    acre_group *group = heap_zalloc(sizeof *group);

    if (!group)
        return NULL;
    list_init(&group->link);
    atomic_init(&group->refs, 1);
    group->generation = fork_generation();
    lock_init(&group->lock, RANK_GROUP, "group");
    group->name = heap_strdup(config->name);
    group->store_name = heap_strdup(config->store_name ? config->store_name : config->name);
    group->store = config->store;
    group->rank = config->rank;
    group->count = config->world_size;
    group->flags =
        flag_of("ACRE_SYMM_ALLOW_OVERLAPPING_DEVICES", ACRE_GROUP_ALLOW_OVERLAP, config->flags);
    group->flags = flag_of("ACRE_SYMM_DISABLE_MULTICAST", ACRE_GROUP_NO_MULTICAST, group->flags);
    group->clique = -1;
    if (config->flags & ACRE_GROUP_HAS_CLIQUE)
        group->clique = config->clique;
    group->timeout_ms = config->timeout_ms ? config->timeout_ms : GROUP_TIMEOUT_MS;
    if (!group->name || !group->store_name) {
        group_free(group);
        return NULL;
    }
    return group;
}

ACRE_API acre_status acre_group_create(const acre_group_config *config, acre_group **out)
{
    acre_group_config whole;
    acre_status status = STRUCT_TAKE("acre_group_create", acre_group_config, config, &whole);

    config = &whole;
    if (status == ACRE_OK)
        status = config_check(config, out);
    if (status != ACRE_OK)
        return status;
    acre_group *group = group_new(config);
    if (!group)
        return ACRE_ERR_HOST_MEMORY;
    lock_take(&registry_lock);
    if (find_locked(config->name)) {
        status = status_fail(ACRE_ERR_EXISTS, "acre_group_create: there is a group \"%s\" already",
                             config->name);
    } else {
        group->serial = ++serial_last;
        list_push_back(&registry, &group->link);
    }
    lock_drop(&registry_lock);
    if (status != ACRE_OK)
        group_free(group);
    else
        *out = group;
    return status;
}

/* ---- Asking ----------------------------------------------------------------------- */

ACRE_API acre_status acre_group_find(const char *name, acre_group **out)
{
    if (!name || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_group_find: %s is NULL", name ? "out" : "name");
    acre_status status = group_get(name, out);
    if (status == ACRE_OK)
        group_put(*out);
    return status;
}

ACRE_API void acre_group_destroy(acre_group *group)
{
    if (!group)
        return;
    lock_take(&registry_lock);
    list_remove(&group->link);
    lock_drop(&registry_lock);
    group_put(group);
}

ACRE_API int acre_group_rank(const acre_group *group)
{
    return group ? group->rank : -1;
}

ACRE_API int acre_group_world_size(const acre_group *group)
{
    return group ? group->count : 0;
}

ACRE_API acre_status acre_group_barrier(acre_group *group)
{
    if (!group)
        return status_fail(ACRE_ERR_INVALID, "acre_group_barrier: group is NULL");
    if (group_is_inherited(group))
        return group_fail_forked(group);
    lock_take(&group->lock);
    acre_status status = exchange_barrier_locked(group, deadline_in_ms(group->timeout_ms));
    lock_drop(&group->lock);
    return status;
}
