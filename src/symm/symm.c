/* SPDX-License-Identifier: MIT */
/* Rendezvous and handles. */
#include "symm/symm.h"

#include "base/heap.h"
#include "base/log.h"
#include "base/status.h"
#include "base/struct_size.h"
#include "base/text.h"
#include "symm/team/block.h"

#include <string.h>

/* ---- Rendezvous ------------------------------------------------------------------- */

/* The team from the cache, or by meeting the others. */
static acre_status team_obtain(acre_group *group, const struct found *found, struct team **out)
{
    acre_status status = ACRE_OK;

    struct team *team = block_team(found->memory, group->serial);
    if (!team) {
        lock_take(&group->lock);
        team = block_team(found->memory, group->serial);
        if (!team)
            status = team_create_locked(group, found->memory, &found->layout, &team);
        if (status == ACRE_OK && list_empty(&team->link))
            block_keep_team(found->memory, team);
        lock_drop(&group->lock);
    }
    if (status == ACRE_OK)
        *out = team;
    return status;
}

static acre_status handle_create(struct team *team, size_t offset, acre_symm **out)
{
    acre_symm *symm = heap_zalloc(sizeof *symm);

    if (!symm)
        return ACRE_ERR_HOST_MEMORY;
    symm->team = team;
    symm->offset = offset;
    *out = symm;
    return ACRE_OK;
}

ACRE_API acre_status acre_symm_rendezvous(void *pointer, const char *group, acre_symm **out)
{
    struct found found;
    struct team *team = NULL;
    acre_group *meeting = NULL;

    if (!out)
        return status_fail(ACRE_ERR_INVALID, "acre_symm_rendezvous: out is NULL");
    if (!block_find(pointer, &found)) {
        return status_fail(ACRE_ERR_INVALID,
                           "acre_symm_rendezvous: %p is not in symmetric memory; allocate it with "
                           "acre_symm_alloc",
                           pointer);
    }
    const char *name = group && *group ? group : found.group;
    acre_status status = ACRE_OK;
    if (!*name)
        status = status_fail(ACRE_ERR_INVALID, "acre_symm_rendezvous: name a group, here or when "
                                               "allocating");
    if (status == ACRE_OK)
        status = group_get(name, &meeting);
    if (status == ACRE_OK && group_is_inherited(meeting))
        status = group_fail_forked(meeting);
    if (status == ACRE_OK)
        status = team_obtain(meeting, &found, &team);
    if (status == ACRE_OK) {
        status = handle_create(team, found.offset, out);
        if (status != ACRE_OK)
            team_put(team);
    }
    if (meeting)
        group_put(meeting);
    memory_put(found.memory);
    return status;
}

ACRE_API void acre_symm_release(acre_symm *symm)
{
    if (!symm)
        return;
    if (symm->team->device)
        acre_device_synchronize(symm->team->device);
    team_put(symm->team);
    heap_free(symm);
}

/* ---- Views ------------------------------------------------------------------------ */

ACRE_API acre_status acre_symm_info_get(const acre_symm *symm, acre_symm_info *out)
{
    if (!symm)
        return status_fail(ACRE_ERR_INVALID, "acre_symm_info_get: symm is NULL");
    acre_status status = STRUCT_CHECK("acre_symm_info_get", acre_symm_info, out);
    if (status != ACRE_OK)
        return status;
    const struct team *team = symm->team;
    acre_symm_info info = {.struct_size = sizeof info,
                           .rank = team->rank,
                           .world_size = team->count,
                           .device = team->device,
                           .buffer_bytes = team->layout.buffer_bytes,
                           .pad_bytes = team->layout.pad_bytes,
                           .pad_offset = team->layout.pad_offset,
                           .block_bytes = team->layout.block_bytes,
                           .offset = symm->offset,
                           .channels = team->channels,
                           .has_multicast = team->has_multicast,
                           .is_direct = !team->places};
    STRUCT_GIVE(acre_symm_info, out, &info);
    return ACRE_OK;
}

acre_status rank_check(const struct team *team, const char *call, int rank)
{
    if (rank >= 0 && rank < team->count)
        return ACRE_OK;
    return status_fail(ACRE_ERR_RANGE, "%s: rank %d is outside 0 to %d", call, rank,
                       team->count - 1);
}

static acre_status direct_check(const struct team *team, const char *call, int rank)
{
    if (!team_is_far(team, rank))
        return ACRE_OK;
    return status_fail(ACRE_ERR_UNSUPPORTED,
                       "%s: rank %d is on another host and has no address "
                       "here; use acre_symm_put and acre_symm_get",
                       call, rank);
}

ACRE_API acre_status acre_symm_buffer(const acre_symm *symm, int rank, size_t offset, size_t bytes,
                                      void **out)
{
    if (!symm || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_symm_buffer: an argument is NULL");
    acre_status status = rank_check(symm->team, "acre_symm_buffer", rank);
    size_t size = symm->team->layout.buffer_bytes;
    if (status == ACRE_OK && (offset > size || bytes > size - offset))
        status = status_fail(ACRE_ERR_INVALID,
                             "acre_symm_buffer: %zu bytes from %zu on exceed "
                             "the buffer of %zu bytes",
                             bytes, offset, size);
    if (status == ACRE_OK)
        status = direct_check(symm->team, "acre_symm_buffer", rank);
    if (status == ACRE_OK)
        *out = symm->team->memories[rank]->base + offset;
    return status;
}

ACRE_API acre_status acre_symm_remote(const acre_symm *symm, int rank, size_t bytes, void **out)
{
    if (!symm)
        return status_fail(ACRE_ERR_INVALID, "acre_symm_remote: symm is NULL");
    return acre_symm_buffer(symm, rank, symm->offset, bytes, out);
}

ACRE_API acre_status acre_symm_pad(const acre_symm *symm, int rank, size_t element_bytes,
                                   size_t first, size_t count, void **out, size_t *out_count)
{
    if (!symm || !out || element_bytes == 0)
        return status_fail(ACRE_ERR_INVALID, "acre_symm_pad: an argument is NULL or 0");
    const struct layout *layout = &symm->team->layout;
    size_t all = layout->pad_bytes / element_bytes;
    acre_status status = rank_check(symm->team, "acre_symm_pad", rank);
    if (status == ACRE_OK && (first > all || count > all - first))
        status = status_fail(
            ACRE_ERR_INVALID, "acre_symm_pad: %zu element%s from %zu on %s the pad of %zu bytes",
            count, text_plural(count), first, count == 1 ? "exceeds" : "exceed", layout->pad_bytes);
    if (status == ACRE_OK)
        status = direct_check(symm->team, "acre_symm_pad", rank);
    if (status != ACRE_OK)
        return status;
    *out = symm->team->memories[rank]->base + layout->pad_offset + first * element_bytes;
    if (out_count)
        *out_count = count ? count : all - first;
    return ACRE_OK;
}
