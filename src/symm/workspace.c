/* SPDX-License-Identifier: MIT */
/* One block per group for temporary data, and two small questions about topology. */
#include "base/heap.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/process/fork.h"
#include "base/status.h"

#include <acre/collective.h>

#include <string.h>

struct workspace {
    struct list link;
    char *group;
    void *base;
    size_t bytes;
};

static struct lock workspaces_lock = LOCK_INITIALIZER(RANK_ALLOCATOR, "workspaces");
FORK_GUARD(workspaces_lock);
static struct list workspaces = LIST_INITIALIZER(workspaces); /* under workspaces_lock */

/* The workspace of a group, made when it is not there. */
static struct workspace *find_locked(const char *group)
{
    LIST_FOR_EACH(it, &workspaces) {
        struct workspace *space = CONTAINER_OF(it, struct workspace, link);
        if (strcmp(space->group, group) == 0)
            return space;
    }
    struct workspace *space = heap_zalloc(sizeof *space);
    char *name = space ? heap_strdup(group) : NULL;
    if (!name) {
        heap_free(space);
        return NULL;
    }
    space->group = name;
    list_push_back(&workspaces, &space->link);
    return space;
}

ACRE_API acre_status acre_symm_workspace(const char *group, size_t bytes, acre_symm **out)
{
    void *base = NULL, *old = NULL;
    acre_group *found;

    if (!group || !out || bytes == 0)
        return status_fail(ACRE_ERR_INVALID, "acre_symm_workspace: group or out is NULL, or 0 "
                                             "bytes");
    acre_status status = acre_group_find(group, &found);
    if (status != ACRE_OK)
        return status;
    lock_take(&workspaces_lock);
    struct workspace *space = find_locked(group);
    if (space && space->bytes >= bytes)
        base = space->base;
    lock_drop(&workspaces_lock);
    if (!space)
        return ACRE_ERR_HOST_MEMORY;
    if (!base) {
        status = acre_symm_alloc(NULL, bytes, &base);
        if (status != ACRE_OK)
            return status;
        lock_take(&workspaces_lock);
        old = space->base;
        space->base = base;
        space->bytes = bytes;
        lock_drop(&workspaces_lock);
        acre_symm_free(old);
    }
    return acre_symm_rendezvous(base, group, out);
}

/* ---- Topology --------------------------------------------------------------------- */

ACRE_API acre_status acre_symm_connectivity(acre_device_type type, const char *kind, int count,
                                            int *out)
{
    if (!kind || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_symm_connectivity: an argument is NULL");
    if (strcmp(kind, "peer") != 0 || acre_device_count(type) == 0)
        return status_fail(ACRE_ERR_NOT_FOUND,
                           "acre_symm_connectivity: no \"%s\" links are known "
                           "between devices of type %d",
                           kind, (int)type);
    if (count < 1 || count > acre_device_count(type))
        return status_fail(ACRE_ERR_RANGE, "acre_symm_connectivity: %d devices of 1 to %d", count,
                           acre_device_count(type));
    for (int i = 0; i < count; i++)
        for (int k = 0; k < count; k++) {
            bool can = false;
            if (i != k) {
                acre_status status = acre_peer_access(type, i, k, &can);
                if (status != ACRE_OK)
                    return status;
            }
            out[i * count + k] = can;
        }
    return ACRE_OK;
}

ACRE_API acre_algorithm acre_symm_algorithm_legacy(size_t bytes, acre_dtype dtype,
                                                   uintptr_t address)
{
    if ((dtype != ACRE_DTYPE_F32 && dtype != ACRE_DTYPE_BF16) || address % 4 != 0 ||
        bytes > (10u << 20) || bytes % 4 != 0)
        return ACRE_ALGORITHM_AUTO;
    return bytes <= (256u << 10) ? ACRE_ALGORITHM_ONE_SHOT : ACRE_ALGORITHM_TWO_SHOT;
}
