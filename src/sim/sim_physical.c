/* SPDX-License-Identifier: MIT */
/* Physical handles: memory without an address, under tokens that are checked. */
#include "sim/sim_memory.h"

#include "base/bits.h"
#include "base/heap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* ---- Tokens -------------------------------------------------------------------
 * generation << 25 | slot << 1 | 1. Odd, so no pointer to an object is one. */

#define SLOTS_MAX ((uint32_t)1 << 24)

static void *token_of(const struct sim_memory *memory, uint32_t slot)
{
    return (void *)((uintptr_t)memory->slots[slot].generation << 25 | (uintptr_t)slot << 1 | 1);
}

static struct sim_slot *slot_of(const struct sim_memory *memory, const void *token)
{
    uintptr_t value = (uintptr_t)token;
    uint32_t slot = (uint32_t)(value >> 1) & (SLOTS_MAX - 1);

    if (!(value & 1) || slot >= memory->slot_count || token_of(memory, slot) != token)
        return NULL;
    return &memory->slots[slot];
}

/* Doubles the table and chains the new slots, lowest first. */
static acre_status slots_grow_locked(struct sim_memory *memory)
{
    uint32_t old = memory->slot_count, count = old ? 2 * old : 64;

    if (count > SLOTS_MAX)
        return status_fail(ACRE_ERR_LIMIT, "more than %u handles", SLOTS_MAX);
    struct sim_slot *slots = heap_realloc(memory->slots, count * sizeof *slots);
    if (!slots)
        return ACRE_ERR_HOST_MEMORY;
    for (uint32_t i = old; i < count; i++)
        slots[i] = (struct sim_slot){NULL, false, 1, i + 1 < count ? i + 2 : 0};
    memory->slots = slots;
    memory->slot_count = count;
    memory->slot_free = old + 1;
    return ACRE_OK;
}

acre_status token_take_locked(struct sim_memory *memory, void *object, bool is_multicast,
                              void **out_token)
{
    if (!memory->slot_free) {
        acre_status status = slots_grow_locked(memory);

        if (status != ACRE_OK)
            return status;
    }
    uint32_t index = memory->slot_free - 1;
    struct sim_slot *slot = &memory->slots[index];
    memory->slot_free = slot->next_free;
    slot->object = object;
    slot->is_multicast = is_multicast;
    *out_token = token_of(memory, index);
    return ACRE_OK;
}

void *token_find_locked(const struct sim_memory *memory, const void *token, bool is_multicast)
{
    struct sim_slot *slot = slot_of(memory, token);

    return slot && slot->is_multicast == is_multicast ? slot->object : NULL;
}

void token_give_locked(struct sim_memory *memory, const void *token)
{
    struct sim_slot *slot = slot_of(memory, token);

    CHECK(slot && slot->object);
    slot->object = NULL;
    slot->generation++;
    slot->next_free = memory->slot_free;
    memory->slot_free = (uint32_t)(slot - memory->slots) + 1;
}

void tokens_destroy(struct sim *sim)
{
    struct sim_memory *memory = sim->memory;

    for (uint32_t i = 0; i < memory->slot_count; i++) {
        struct sim_slot *slot = &memory->slots[i];

        if (slot->object && slot->is_multicast)
            multicast_destroy(slot->object);
        else if (slot->object)
            physical_destroy(slot->object);
    }
    heap_free(memory->slots);
}

/* ---- Handles --------------------------------------------------------------------- */

void physical_destroy(struct sim_physical *handle)
{
    extent_destroy(&handle->extent);
    heap_free(handle);
}

bool physical_forget_locked(struct sim *sim, struct sim_physical *handle)
{
    if (!handle->is_released || handle->map_count > 0)
        return false;
    if (!handle->is_imported)
        capacity_give_locked(sim, handle->device, handle->extent.bytes);
    sim->memory->usage.handle_count--;
    return true;
}

/* Finds the handle of a token for a call. */
static acre_status physical_find_locked(struct sim *sim, const char *call, int device,
                                        const void *token, struct sim_physical **out)
{
    struct sim_physical *handle = token_find_locked(sim->memory, token, false);

    if (!handle)
        return status_fail(ACRE_ERR_INVALID,
                           "%s: %p is not a handle of physical memory: "
                           "unknown or released already",
                           call, token);
    if (device >= 0 && handle->device != device)
        return status_fail(ACRE_ERR_INVALID, "%s: the handle belongs to device %d, not %d", call,
                           handle->device, device);
    *out = handle;
    return ACRE_OK;
}

/* Gives a complete handle its token, or takes everything back. */
static acre_status physical_publish(struct sim *sim, struct sim_physical *handle, void **out_token)
{
    acre_status status;

    lock_take(&sim->memory->lock);
    status = token_take_locked(sim->memory, handle, false, out_token);
    if (status == ACRE_OK)
        sim->memory->usage.handle_count++;
    else if (!handle->is_imported)
        capacity_give_locked(sim, handle->device, handle->extent.bytes);
    lock_drop(&sim->memory->lock);
    if (status != ACRE_OK)
        physical_destroy(handle);
    return status;
}

/* Makes a handle with capacity and pages. */
static acre_status physical_create(struct sim *sim, int device, size_t bytes, acre_handle_type type,
                                   struct sim_physical **out)
{
    struct sim_physical *handle = heap_zalloc(sizeof *handle);
    acre_status status;

    if (!handle)
        return ACRE_ERR_HOST_MEMORY;
    handle->device = device;
    handle->type = type;
    lock_take(&sim->memory->lock);
    status = capacity_take_locked(sim, device, bytes);
    lock_drop(&sim->memory->lock);
    if (status != ACRE_OK)
        goto free_handle;
    status = extent_create(sim, device, bytes, type == ACRE_HANDLE_POSIX, &handle->extent);
    if (status != ACRE_OK)
        goto give_capacity;
    *out = handle;
    return ACRE_OK;

give_capacity:
    lock_take(&sim->memory->lock);
    capacity_give_locked(sim, device, bytes);
    lock_drop(&sim->memory->lock);
free_handle:
    heap_free(handle);
    return status;
}

acre_status sim_create(void *self, int device, size_t bytes, acre_handle_type type,
                       void **out_handle)
{
    struct sim *sim = self;
    struct sim_physical *handle = NULL;
    acre_status status = sim_enter(sim, ACRE_SIM_CREATE, device, bytes);

    if (status != ACRE_OK)
        return status;
    status = pages_check(sim, "create", bytes);
    if (status != ACRE_OK)
        return status;
    if (type != ACRE_HANDLE_NONE && type != ACRE_HANDLE_POSIX)
        return status_fail(ACRE_ERR_UNSUPPORTED,
                           "create: handle type %d; the reference device "
                           "shares by descriptor only",
                           (int)type);
    status = physical_create(sim, device, bytes, type, &handle);
    return status == ACRE_OK ? physical_publish(sim, handle, out_handle) : status;
}

acre_status sim_release(void *self, int device, void *token)
{
    struct sim *sim = self;
    struct sim_physical *handle = NULL;
    acre_status status = sim_enter_plain(sim, device);
    bool is_gone = false;

    if (status != ACRE_OK)
        return status;
    lock_take(&sim->memory->lock);
    status = physical_find_locked(sim, "release", device, token, &handle);
    if (status == ACRE_OK) {
        token_give_locked(sim->memory, token);
        handle->is_released = true;
        sim->memory->usage.unused_count += !handle->was_mapped;
        is_gone = physical_forget_locked(sim, handle);
    }
    lock_drop(&sim->memory->lock);
    if (is_gone)
        physical_destroy(handle);
    return status;
}

/* ---- Sharing ------------------------------------------------------------------------ */

/* Copies a descriptor; errno text on failure. */
static acre_status fd_copy(int fd, const char *call, int *out)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

    if (copy < 0)
        return status_fail_native(errno == EBADF ? ACRE_ERR_INVALID : ACRE_ERR_LIMIT, errno,
                                  "%s: descriptor %d cannot be copied: %s", call, fd,
                                  strerror(errno));
    *out = copy;
    return ACRE_OK;
}

acre_status sim_export_fd(void *self, int device, void *token, int *out_fd)
{
    struct sim *sim = self;
    struct sim_physical *handle = NULL;
    acre_status status = sim_enter(sim, ACRE_SIM_EXPORT, device, 0);

    if (status != ACRE_OK)
        return status;
    lock_take(&sim->memory->lock);
    status = physical_find_locked(sim, "export_fd", device, token, &handle);
    if (status == ACRE_OK && handle->type != ACRE_HANDLE_POSIX)
        status = status_fail(ACRE_ERR_INVALID, "export_fd: the handle was not created as "
                                               "ACRE_HANDLE_POSIX");
    if (status == ACRE_OK)
        status = fd_copy(handle->extent.fd, "export_fd", out_fd);
    lock_drop(&sim->memory->lock);
    return status;
}

/* Whether a descriptor is memory that export_fd could have given: sealed memory
 * of a fixed size that is whole pages. */
static acre_status import_check(const struct sim *sim, int fd, size_t *out_bytes)
{
    const int wanted = F_SEAL_SHRINK | F_SEAL_GROW;
    struct stat facts;
    struct statfs system;

    if (fstat(fd, &facts) != 0 || fstatfs(fd, &system) != 0)
        return status_fail_native(ACRE_ERR_INVALID, errno, "import_fd: descriptor %d: %s", fd,
                                  strerror(errno));
    if (!S_ISREG(facts.st_mode) ||
        (system.f_type != TMPFS_MAGIC && system.f_type != HUGETLBFS_MAGIC))
        return status_fail(ACRE_ERR_INVALID,
                           "import_fd: descriptor %d is not shared memory "
                           "(mode %o, file system %lx)",
                           fd, facts.st_mode & S_IFMT, (unsigned long)system.f_type);
    int seals = fcntl(fd, F_GET_SEALS), mode = fcntl(fd, F_GETFL);
    if (seals < 0 || (seals & wanted) != wanted)
        return status_fail(ACRE_ERR_INVALID,
                           "import_fd: descriptor %d is not sealed against "
                           "growing and shrinking (seals %d)",
                           fd, seals);
    if ((mode & O_ACCMODE) != O_RDWR || (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)))
        return status_fail(ACRE_ERR_INVALID, "import_fd: descriptor %d is read-only", fd);
    if (facts.st_size <= 0 || (uint64_t)facts.st_size % sim->config.page_bytes)
        return status_fail(ACRE_ERR_INVALID,
                           "import_fd: %lld bytes are not whole pages of "
                           "%llu bytes",
                           (long long)facts.st_size, (unsigned long long)sim->config.page_bytes);
    *out_bytes = (size_t)facts.st_size;
    return ACRE_OK;
}

acre_status sim_import_fd(void *self, int device, int fd, void **out_handle, uint64_t *out_bytes)
{
    struct sim *sim = self;
    size_t bytes = 0;
    int copy = -1;
    acre_status status = sim_enter(sim, ACRE_SIM_IMPORT, device, 0);

    if (status == ACRE_OK)
        status = import_check(sim, fd, &bytes);
    if (status == ACRE_OK)
        status = fd_copy(fd, "import_fd", &copy);
    if (status != ACRE_OK)
        return status;
    struct sim_physical *handle = heap_zalloc(sizeof *handle);
    if (!handle) {
        close(copy);
        return ACRE_ERR_HOST_MEMORY;
    }
    *handle = (struct sim_physical){.extent = {copy, true, 0, bytes},
                                    .device = device,
                                    .type = ACRE_HANDLE_POSIX,
                                    .is_imported = true};
    status = physical_publish(sim, handle, out_handle);
    if (status == ACRE_OK)
        *out_bytes = bytes;
    return status;
}
