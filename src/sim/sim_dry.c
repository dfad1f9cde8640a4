/* SPDX-License-Identifier: MIT */
/* Dry devices: addresses that nothing is mapped at.
 *
 * Addresses below 2^47 are parted into lots of 2 TiB, from 4 TiB to 84 TiB: above
 * what programs that are not position-independent use, below where Linux puts
 * the others and their mappings. A backend takes as many neighbouring lots as it
 * needs for 16 times its memory, the lowest that are free; so addresses of two
 * live backends never meet, and a backend made after another has gone gets the
 * same ones.
 *
 * Placement is next fit: behind the last one while that goes, then again from
 * the start, over what is still live. Equal calls give equal addresses.
 */
#include "sim/sim_memory.h"

#include "base/bits.h"
#include "base/process/fork.h"

#define LOT_BYTES ((uintptr_t)1 << 41)
#define LOT_BASE  (2 * LOT_BYTES)
#define LOT_COUNT 40
#define DRY_ALIGN ((uintptr_t)2 * MIB) /* or the page of virtual memory, if larger */

static struct lock lots_lock = LOCK_INITIALIZER(RANK_LEAF, "dry lots");
FORK_GUARD(lots_lock);
static uint64_t lots_taken; /* bit i: lot i belongs to a backend; guarded by lots_lock */

static unsigned lots_wanted(const acre_sim_config *config)
{
    uint64_t lots = config->memory_bytes / (LOT_BYTES / 16 / config->devices) + 1;

    return lots > LOT_COUNT ? LOT_COUNT : (unsigned)lots;
}

acre_status dry_init(struct sim *sim)
{
    struct sim_memory *memory = sim->memory;
    unsigned count = lots_wanted(&sim->config);
    uint64_t mask = ((uint64_t)1 << count) - 1;

    lock_take(&lots_lock);
    unsigned at = 0;
    while (at + count <= LOT_COUNT && (lots_taken & mask << at))
        at++;
    bool is_found = at + count <= LOT_COUNT;
    if (is_found)
        lots_taken |= mask << at;
    lock_drop(&lots_lock);
    if (!is_found)
        return status_fail(ACRE_ERR_LIMIT,
                           "no addresses are left for a further dry device of "
                           "%llu bytes; unregister one",
                           (unsigned long long)sim->config.memory_bytes);
    memory->dry_align = sim->config.page_bytes > DRY_ALIGN ? sim->config.page_bytes : DRY_ALIGN;
    memory->dry_begin = memory->dry_cursor = LOT_BASE + at * LOT_BYTES;
    memory->dry_end = memory->dry_free_until = memory->dry_begin + count * LOT_BYTES;
    return ACRE_OK;
}

void dry_fini(struct sim *sim)
{
    struct sim_memory *memory = sim->memory;
    unsigned count = (unsigned)((memory->dry_end - memory->dry_begin) / LOT_BYTES);
    uint64_t mask = ((uint64_t)1 << count) - 1;

    if (count == 0)
        return;
    lock_take(&lots_lock);
    lots_taken &= ~(mask << (memory->dry_begin - LOT_BASE) / LOT_BYTES);
    lock_drop(&lots_lock);
}

/* Moves the cursor to the next gap of at least `need` bytes. */
static bool dry_advance_locked(struct sim_memory *memory, uintptr_t need)
{
    uintptr_t start = memory->dry_cursor;

    for (bool is_again = false;;) {
        if (need > memory->dry_end - start) {
            if (is_again || need > memory->dry_end - memory->dry_begin)
                return false;
            is_again = true;
            start = memory->dry_begin;
            continue;
        }
        struct sim_node *node = index_overlap(&memory->spans, start, need);
        if (!node)
            break;
        start = round_up(node_end(node), memory->dry_align);
    }
    struct sim_node *above = index_above(&memory->spans, start);
    memory->dry_cursor = start;
    memory->dry_free_until = above && above->base < memory->dry_end ? above->base : memory->dry_end;
    return true;
}

acre_status dry_place_locked(struct sim_memory *memory, struct sim_node *node)
{
    uintptr_t need = round_up(node->bytes, memory->dry_align);

    if (UNLIKELY(need == 0 || need > memory->dry_free_until - memory->dry_cursor))
        if (need == 0 || !dry_advance_locked(memory, need))
            return status_fail(ACRE_ERR_DEVICE_MEMORY,
                               "no %zu bytes of addresses are left on "
                               "the dry device",
                               node->bytes);
    node->base = memory->dry_cursor;
    memory->dry_cursor += need;
    return ACRE_OK;
}
