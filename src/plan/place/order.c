/* SPDX-License-Identifier: MIT */
#include "plan/place/order.h"

#include "base/heap.h"
#include "plan/place/mix.h"

#include <math.h>
#include <string.h>

/* A buffer's place in an order: powers of its size, of one of its lives and of its load. */
struct recipe {
    float size, life, load;
    unsigned which; /* of the lives                                    */
};

static const struct recipe first_orders[] = {
    {0, 1, 0, 0}, {1, 1, 0, 0},    {0, 1, 0, 1},    {0, 1, 0, 2},    {0, 1, 0, 4},
    {0, 1, 0, 3}, {0.1f, 1, 0, 2}, {0.1f, 1, 0, 4}, {1, 0, 0, 0},    {1, 1, 1, 0},
    {0, 1, 1, 0}, {0.3f, 1, 0, 4}, {1, 0, 1, 0},    {0.5f, 1, 0, 0},
};
#define FIRST_ORDERS (sizeof first_orders / sizeof *first_orders)

/* A section counts in a life as its share of the fullest to such a power. */
static const double full_powers[ORDER_LIVES] = {0, 20, 40, 60, 80};

static float order_unit(uint64_t x)
{
    return (float)(mix_bits(x) >> 40) * 0x1p-24f;
}

/* The largest load in the life of every buffer, by a sparse table. */
static acre_status fill_loads(struct order_facts *facts)
{
    const struct sections *sections = facts->sections;
    size_t count = sections->section_count;
    unsigned levels = 1;

    while ((size_t)1 << levels <= count)
        levels++;
    int64_t *table = heap_array((count + 1) * levels, sizeof *table);
    if (!table)
        return ACRE_ERR_HOST_MEMORY;
    memcpy(table, sections->load, count * sizeof *table);
    for (unsigned level = 1; level < levels; level++)
        for (size_t s = 0; s + ((size_t)1 << level) <= count; s++) {
            int64_t a = table[(level - 1) * count + s];
            int64_t b = table[(level - 1) * count + s + ((size_t)1 << (level - 1))];
            table[level * count + s] = a > b ? a : b;
        }
    for (uint32_t i = 0; i < sections->buffer_count; i++) {
        if (sections->size[i] == 0)
            continue;
        uint32_t first = sections_first(sections, i), last = sections_last(sections, i);
        unsigned level = 31 - (unsigned)__builtin_clz(last - first);
        int64_t a = table[level * count + first], b = table[level * count + last - (1u << level)];
        facts->load[i] = logf((float)(a > b ? a : b));
    }
    heap_free(table);
    return ACRE_OK;
}

/* The lengths of lives, by sums over the sections up to each. */
static acre_status fill_lives(struct order_facts *facts, unsigned which)
{
    const struct sections *sections = facts->sections;
    double *sums = heap_array(sections->section_count + (size_t)1, sizeof *sums);

    if (!sums)
        return ACRE_ERR_HOST_MEMORY;
    for (uint32_t s = 0; s < sections->section_count; s++) {
        double share = (double)sections->load[s] / (double)sections->lower_bound;
        sums[s + 1] = sums[s] + pow(share, full_powers[which]);
    }
    for (uint32_t i = 0; i < sections->buffer_count; i++)
        if (sections->size[i] > 0)
            facts->lives[which][i] =
                logf((float)(sums[sections_last(sections, i)] - sums[sections_first(sections, i)]) +
                     1e-30f);
    heap_free(sums);
    return ACRE_OK;
}

acre_status order_facts_init(struct order_facts *facts, const struct sections *sections)
{
    size_t count = sections->buffer_count;
    acre_status status = ACRE_OK;

    facts->sections = sections;
    facts->size = heap_array(count + 1, sizeof *facts->size);
    facts->load = heap_array(count + 1, sizeof *facts->load);
    if (!facts->size || !facts->load)
        return ACRE_ERR_HOST_MEMORY;
    for (unsigned k = 0; k < ORDER_LIVES && status == ACRE_OK; k++) {
        facts->lives[k] = heap_array(count + 1, sizeof *facts->lives[k]);
        status = facts->lives[k] ? fill_lives(facts, k) : ACRE_ERR_HOST_MEMORY;
    }
    if (status != ACRE_OK)
        return status;
    for (uint32_t i = 0; i < count; i++)
        if (sections->size[i] > 0)
            facts->size[i] = logf((float)sections->size[i]);
    return fill_loads(facts);
}

void order_facts_fini(struct order_facts *facts)
{
    heap_free(facts->size);
    heap_free(facts->load);
    for (unsigned k = 0; k < ORDER_LIVES; k++)
        heap_free(facts->lives[k]);
}

acre_status order_work_init(struct order_work *work, const struct sections *sections)
{
    size_t count = sections->buffer_count + (size_t)1;

    work->items = heap_array(count, sizeof *work->items);
    work->spare = heap_array(count, sizeof *work->spare);
    work->order = heap_array(count, sizeof *work->order);
    return work->items && work->spare && work->order ? ACRE_OK : ACRE_ERR_HOST_MEMORY;
}

void order_work_fini(struct order_work *work)
{
    heap_free(work->items);
    heap_free(work->spare);
    heap_free(work->order);
}

/* Sorts by key, smallest first, equal keys as they stand: four passes of a byte. */
static void sort_items(struct order_work *work, uint32_t count)
{
    for (unsigned shift = 0; shift < 32; shift += 8) {
        uint32_t start[257] = {0};
        for (uint32_t n = 0; n < count; n++)
            start[((work->items[n].key >> shift) & 255) + 1]++;
        for (unsigned b = 0; b < 256; b++)
            start[b + 1] += start[b];
        for (uint32_t n = 0; n < count; n++)
            work->spare[start[(work->items[n].key >> shift) & 255]++] = work->items[n];
        struct order_item *items = work->items;
        work->items = work->spare;
        work->spare = items;
    }
}

/* A number that grows as the key falls. */
static uint32_t order_sortable(float key)
{
    uint32_t bits;

    memcpy(&bits, &key, sizeof bits);
    return ~(bits & 0x80000000u ? ~bits : bits | 0x80000000u);
}

static struct recipe draw_recipe(uint64_t salt)
{
    return (struct recipe){1.5f * order_unit(salt + 1), 1.5f * order_unit(salt + 2),
                           1.5f * order_unit(salt + 3),
                           (unsigned)(mix_bits(salt + 4) % ORDER_LIVES)};
}

void order_make(const struct order_facts *facts, struct order_work *work, uint64_t seed,
                uint32_t turn)
{
    uint32_t count = facts->sections->buffer_count;
    uint64_t salt = mix_bits(seed ^ mix_bits(turn));
    struct recipe recipe = turn < FIRST_ORDERS ? first_orders[turn] : draw_recipe(salt);
    const float *lives = facts->lives[recipe.which];
    float noise = turn >= FIRST_ORDERS && turn % 2 ? order_unit(salt + 9) : 0;

    for (uint32_t n = 0; n < count; n++) {
        uint32_t i = facts->sections->order[n];
        float key =
            recipe.size * facts->size[i] + recipe.life * lives[i] + recipe.load * facts->load[i];
        if (noise > 0)
            key += noise * order_unit(salt ^ mix_bits(n));
        work->items[n] = (struct order_item){order_sortable(key), i};
    }
    sort_items(work, count);
    for (uint32_t n = 0; n < count; n++)
        work->order[n] = work->items[n].buffer;
}
