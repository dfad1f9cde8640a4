/* SPDX-License-Identifier: MIT */
/* Dry devices: addresses that nothing is mapped at.
 *
 * Addresses below 2^47 are parted into lots of 2 TiB, from 4 TiB to 84 TiB: above
 * what programs that are not position-independent use, below where Linux puts
 * the others and their mappings. A backend takes as many neighbouring lots as it
 * needs for 16 times its memory, the lowest that are free, and more of them when
 * these are full: caches and streams reserve more than they use. So addresses of two
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

/* Takes neighbouring lots, the lowest that are free; their bits, or 0. */
static uint64_t lots_take(unsigned count)
{
    uint64_t mask = ((uint64_t)1 << count) - 1;
    unsigned at = 0;

    lock_take(&lots_lock);
    while (at + count <= LOT_COUNT && (lots_taken & mask << at))
        at++;
    mask = at + count <= LOT_COUNT ? mask << at : 0;
    lots_taken |= mask;
    lock_drop(&lots_lock);
    return mask;
}

/* Takes the first run of neighbouring lots out of a set. */
static bool lots_next(uint64_t *lots, uintptr_t *out_begin, uintptr_t *out_end)
{
    unsigned at = 0, end;

    while (at < LOT_COUNT && !(*lots >> at & 1))
        at++;
    for (end = at; end < LOT_COUNT && *lots >> end & 1; end++)
        *lots &= ~((uint64_t)1 << end);
    *out_begin = LOT_BASE + at * LOT_BYTES;
    *out_end = LOT_BASE + end * LOT_BYTES;
    return at < end;
}

acre_status dry_init(struct sim *sim)
{
    struct sim_memory *memory = sim->memory;
    uint64_t lots = lots_take(lots_wanted(&sim->config));

    if (!lots)
        return status_fail(ACRE_ERR_LIMIT,
                           "no addresses are left for a further dry device of "
                           "%llu bytes; unregister one",
                           (unsigned long long)sim->config.memory_bytes);
    memory->dry_lots = lots;
    memory->dry_align = sim->config.page_bytes > DRY_ALIGN ? sim->config.page_bytes : DRY_ALIGN;
    lots_next(&lots, &memory->dry_cursor, &memory->dry_end);
    memory->dry_free_until = memory->dry_end;
    return ACRE_OK;
}

void dry_fini(struct sim *sim)
{
    lock_take(&lots_lock);
    lots_taken &= ~sim->memory->dry_lots;
    lock_drop(&lots_lock);
}

/* Moves the cursor to the first gap of at least `need` bytes in a run of lots. */
static bool dry_search_locked(struct sim_memory *memory, uintptr_t start, uintptr_t end,
                              uintptr_t need)
{
    struct sim_node *node, *above;

    for (; need <= end - start; start = round_up(node_end(node), memory->dry_align)) {
        node = index_overlap(&memory->spans, start, need);
        if (node)
            continue;
        above = index_above(&memory->spans, start);
        memory->dry_cursor = start;
        memory->dry_end = end;
        memory->dry_free_until = above && above->base < end ? above->base : end;
        return true;
    }
    return false;
}

/* Moves the cursor to the next gap: behind it, or else in any lot from the start. */
static bool dry_advance_locked(struct sim_memory *memory, uintptr_t need)
{
    uint64_t lots = memory->dry_lots;
    uintptr_t begin, end;

    if (dry_search_locked(memory, memory->dry_cursor, memory->dry_end, need))
        return true;
    while (lots_next(&lots, &begin, &end))
        if (dry_search_locked(memory, begin, end, need))
            return true;
    return false;
}

/* Takes lots for `need` bytes more. */
static bool dry_extend(struct sim_memory *memory, uintptr_t need)
{
    uintptr_t count = need / LOT_BYTES + (need % LOT_BYTES > 0);
    uint64_t lots = count <= LOT_COUNT ? lots_take((unsigned)count) : 0;

    memory->dry_lots |= lots;
    return lots != 0;
}

acre_status dry_place_locked(struct sim_memory *memory, struct sim_node *node)
{
    uintptr_t need = round_up(node->bytes, memory->dry_align);

    if (UNLIKELY(need == 0 || need > memory->dry_free_until - memory->dry_cursor))
        if (need == 0 || (!dry_advance_locked(memory, need) &&
                          (!dry_extend(memory, need) || !dry_advance_locked(memory, need))))
            return status_fail(ACRE_ERR_DEVICE_MEMORY,
                               "no %zu bytes of addresses are left on "
                               "the dry device",
                               node->bytes);
    node->base = memory->dry_cursor;
    memory->dry_cursor += need;
    return ACRE_OK;
}
