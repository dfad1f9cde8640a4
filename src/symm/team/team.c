/* SPDX-License-Identifier: MIT */
/* Making a team: offers are exchanged, checked, and what they carry is mapped. */
#include "symm/team/team.h"

#include "base/heap.h"
#include "base/status.h"
#include "symm/deadline.h"
#include "symm/link/exchange.h"
#include "symm/far/mail.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SPIN_COUNT 1500 /* some tens of microseconds */

void team_get(struct team *team)
{
    atomic_fetch_add_explicit(&team->refs, 1, memory_order_relaxed);
}

void team_put(struct team *team)
{
    if (!team || atomic_fetch_sub_explicit(&team->refs, 1, memory_order_acq_rel) > 1)
        return;
    if (team->places)
        mail_bury(team);
    else
        team_free(team);
}

void team_free(struct team *team)
{
    for (int i = 0; i < team->count; i++) {
        if (team->memories)
            memory_put(team->memories[i]);
        if (team->controls)
            memory_put(team->controls[i]);
    }
    heap_free(team->memories);
    heap_free(team->controls);
    heap_free(team->places);
    heap_free(team->rounds);
    lock_fini(&team->lock);
    group_put(team->group);
    heap_free(team);
}

static bool device_runs_kernels(acre_device *device)
{
    acre_device_info info = {.struct_size = sizeof info};

    return acre_device_info_get(device, &info) == ACRE_OK && (info.capabilities & ACRE_CAP_KERNELS);
}

static acre_status team_new(acre_group *group, struct memory *memory, const struct layout *layout,
                            struct team **out)
{
    struct team *team = heap_zalloc(sizeof *team);

    if (!team)
        return ACRE_ERR_HOST_MEMORY;
    list_init(&team->link);
    lock_init(&team->lock, RANK_THREADS, "team");
    atomic_init(&team->refs, 1);
    atomic_fetch_add_explicit(&group->refs, 1, memory_order_relaxed);
    team->group = group;
    team->rank = group->rank;
    team->count = group->count;
    team->layout = *layout;
    team->device = memory->device;
    team->has_kernels = !memory->device || device_runs_kernels(memory->device);
    team->channels = (uint32_t)(layout->pad_bytes / 4 / (size_t)group->count);
    team->memories = heap_array((size_t)group->count, sizeof *team->memories);
    team->controls = heap_array((size_t)group->count, sizeof *team->controls);
    team->rounds = heap_array((size_t)team->channels + 1, sizeof *team->rounds);
    if (!team->memories || !team->controls || !team->rounds) {
        team_put(team);
        return ACRE_ERR_HOST_MEMORY;
    }
    memory_get(memory);
    team->memories[team->rank] = memory;
    *out = team;
    return ACRE_OK;
}

/* Own control page and descriptors; a failure is told to the others on the offer. */
static acre_status offer_fill(struct team *team, struct link_offer *mine)
{
    struct memory *memory = team->memories[team->rank];
    acre_status status = memory_create(NULL, control_bytes(team->channels, team->count),
                                       &team->controls[team->rank]);

    struct record *record = &mine->record;
    bool is_fabric = memory_is_fabric(memory);
    if (status == ACRE_OK)
        status = is_fabric ? memory_export_fabric(memory, record->fabric)
                           : memory_export(memory, &mine->fds[0]);
    if (status == ACRE_OK)
        status = memory_export(team->controls[team->rank], &mine->fds[is_fabric ? 0 : 1]);
    if (status == ACRE_OK && team->group->peers->has_far)
        status = memory_attach(memory, &record->far_block);
    if (status == ACRE_OK && team->group->peers->has_far)
        status = memory_attach(team->controls[team->rank], &record->far_control);
    record->kind = !memory->device ? KIND_HOST : is_fabric ? KIND_FABRIC : KIND_DEVICE;
    record->block_bytes = memory->bytes;
    record->buffer_bytes = team->layout.buffer_bytes;
    record->pad_offset = team->layout.pad_offset;
    record->pad_bytes = team->layout.pad_bytes;
    record->control_bytes = control_bytes(team->channels, team->count);
    if (memory->device) {
        acre_device_id id = acre_device_id_of(memory->device);
        record->device_type = (int32_t)id.type;
        record->device_index = id.index;
    }
    record->status = status;
    if (status != ACRE_OK)
        snprintf(record->text, sizeof record->text, "%s", acre_last_error());
    return status;
}

/* Whether there is a processor for each rank among those that any of them may use; ranks that
 * are bound to one each count with all of theirs. */
static bool has_processor_each(const acre_group *group)
{
    cpu_set_t all, own;

    CPU_ZERO(&all);
    for (int i = 0; i < group->count; i++) {
        pid_t pid = i == group->rank ? 0 : group->peers->peers[i].pid;

        if (sched_getaffinity(pid, sizeof own, &own) != 0)
            return group->count <= sysconf(_SC_NPROCESSORS_ONLN);
        CPU_OR(&all, &all, &own);
    }
    return CPU_COUNT(&all) >= group->count;
}

/* Notes where ranks on other hosts are, whose wire needs the processor as well. */
static acre_status team_place(struct team *team, const struct link_offer *offers)
{
    const struct link *peers = team->group->peers;

    if (!peers->has_far) {
        team->spin_count = has_processor_each(team->group) ? SPIN_COUNT : 0;
        return ACRE_OK;
    }
    team->places = heap_array((size_t)team->count, sizeof *team->places);
    if (!team->places)
        return ACRE_ERR_HOST_MEMORY;
    for (int i = 0; i < team->count; i++)
        team->places[i] =
            (struct place_far){peers->peers[i].is_far, peers->peers[i].wire_rank,
                               offers[i].record.far_block, offers[i].record.far_control};
    return ACRE_OK;
}

/* Maps the memory of every other rank of this host. */
static acre_status team_map(struct team *team, struct link_offer *offers)
{
    acre_status status = team_place(team, offers);

    for (int i = 0; i < team->count && status == ACRE_OK; i++) {
        if (i == team->rank || team_is_far(team, i))
            continue;
        bool is_fabric = offers[i].record.kind == KIND_FABRIC;
        size_t bytes = team->memories[team->rank]->bytes;
        status = is_fabric
                     ? memory_import_fabric(team->device, offers[i].record.fabric, bytes,
                                            &team->memories[i])
                     : memory_import(team->device, offers[i].fds[0], bytes, &team->memories[i]);
        if (status == ACRE_OK)
            status = memory_import(NULL, offers[i].fds[is_fabric ? 0 : 1],
                                   control_bytes(team->channels, team->count), &team->controls[i]);
    }
    if (status == ACRE_OK && team->count == 2 && !team->device && !team->places) {
        team->pair[0] = team_control(team, team->rank);
        team->pair[1] = team_control(team, 1 - team->rank);
    }
    return status;
}

static acre_status offers_check(const struct link_offer *offers, int count)
{
    struct record *records = heap_array((size_t)count, sizeof *records);

    if (!records)
        return ACRE_ERR_HOST_MEMORY;
    for (int i = 0; i < count; i++)
        records[i] = offers[i].record;
    acre_status status = record_check(records, count);
    heap_free(records);
    return status;
}

static acre_status team_meet(struct team *team, struct link_offer *offers, int64_t deadline)
{
    acre_group *group = team->group;
    struct link_offer mine = {.fds = {-1, -1}};
    struct status_saved saved;
    acre_status status = group_join_locked(group, deadline);

    if (status != ACRE_OK)
        return status;
    mail_sweep();
    acre_status own = offer_fill(team, &mine);
    status_save(&saved);
    status = exchange_offers_locked(group, &mine, offers, deadline);
    offer_close(&mine);
    if (status != ACRE_OK)
        return status;
    offers[team->rank].fds[0] = offers[team->rank].fds[1] = -1;
    status = offers_check(offers, group->count);
    if (status == ACRE_OK)
        status = team_map(team, offers);
    team->has_multicast = team->has_kernels;
    for (int i = 0; i < group->count; i++) {
        team->has_multicast &= !(offers[i].record.flags & ACRE_GROUP_NO_MULTICAST);
        offer_close(&offers[i]);
    }
    if (own != ACRE_OK)
        status_restore(&saved);
    return exchange_vote_locked(group, own != ACRE_OK ? own : status, deadline);
}

acre_status team_create_locked(acre_group *group, struct memory *memory,
                               const struct layout *layout, struct team **out)
{
    struct link_offer *offers = heap_array((size_t)group->count, sizeof *offers);
    int64_t deadline = deadline_in_ms(group->timeout_ms);
    struct team *team = NULL;
    acre_status status = offers ? team_new(group, memory, layout, &team) : ACRE_ERR_HOST_MEMORY;

    if (status == ACRE_OK)
        status = team_meet(team, offers, deadline);
    else
        exchange_refuse_locked(group, status, deadline);
    heap_free(offers);
    if (status != ACRE_OK && team) {
        heap_free(team->places); /* nobody uses a team that did not come about */
        team->places = NULL;
        team_put(team);
    }
    if (status == ACRE_OK)
        *out = team;
    return status;
}
