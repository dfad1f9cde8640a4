/* SPDX-License-Identifier: MIT */
#include "explain/shares.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Stacks beyond this many hold next to nothing. */
#define MERGED_MAX 512

static void size_name(char out[32], uint32_t power)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

    snprintf(out, 32, "%u %s", 1u << power % 10, units[power / 10]);
}

char *shares_size_text(struct notes *notes, uint32_t power)
{
    char low[32], high[32];

    size_name(low, power);
    size_name(high, power + 1);
    return notes_text(notes, "%s to %s", low, high);
}

static int by_bytes(const void *a, const void *b)
{
    const acre_share *left = a, *right = b;

    if (left->bytes != right->bytes)
        return left->bytes > right->bytes ? -1 : 1;
    return strcmp(left->text, right->text);
}

/* Adds a stack to the share of its text, or makes a new one: stacks that differ only in
 * frames that are not shown are one to the reader. */
static bool share_merge(acre_share *shares, size_t *count, const struct group *group,
                        const char *text, struct notes *notes)
{
    for (size_t i = 0; i < *count; i++)
        if (strcmp(shares[i].text, text) == 0) {
            shares[i].bytes += group->bytes;
            shares[i].count += group->count;
            return true;
        }
    shares[*count] = (acre_share){group->bytes, group->count, notes_text(notes, "%s", text)};
    return shares[(*count)++].text != NULL;
}

acre_status shares_of_stacks(const struct snapshot *snapshot,
                             const struct device_state *device_state, size_t max,
                             struct notes *notes, const acre_share **out, uint64_t *out_count)
{
    size_t looked_at =
        device_state->stack_count < MERGED_MAX ? device_state->stack_count : MERGED_MAX;
    acre_share *shares = notes_take(notes, (looked_at + 1) * sizeof *shares);
    char text[STACK_TEXT_MAX];
    size_t count = 0;

    if (!shares)
        return ACRE_ERR_HOST_MEMORY;
    for (size_t i = 0; i < looked_at; i++) {
        const struct group *group = &device_state->stacks[i];
        device_state_stack_text(snapshot, group->key, text, sizeof text);
        if (!share_merge(shares, &count, group, text, notes))
            return ACRE_ERR_HOST_MEMORY;
    }
    if (count)
        qsort(shares, count, sizeof *shares, by_bytes);
    *out = shares;
    *out_count = count < max ? count : max;
    return ACRE_OK;
}

acre_status shares_of_categories(const struct device_state *device_state, struct notes *notes,
                                 const acre_share **out, uint64_t *out_count)
{
    acre_share *shares = notes_take(notes, CATEGORY_COUNT * sizeof *shares);
    size_t count = 0;

    if (!shares)
        return ACRE_ERR_HOST_MEMORY;
    for (int i = 0; i < CATEGORY_COUNT; i++)
        if (device_state->categories[i])
            shares[count++] = (acre_share){.bytes = device_state->categories[i],
                                           .text = frames_category_name((enum frames_category)i)};
    qsort(shares, count, sizeof *shares, by_bytes);
    *out = shares;
    *out_count = count;
    return ACRE_OK;
}

acre_status shares_of_sizes(const struct device_state *device_state, struct notes *notes,
                            const acre_share **out, uint64_t *out_count)
{
    acre_share *shares = notes_take(notes, (device_state->size_count + 1) * sizeof *shares);

    if (!shares)
        return ACRE_ERR_HOST_MEMORY;
    for (size_t i = 0; i < device_state->size_count; i++) {
        shares[i].bytes = device_state->sizes[i].bytes;
        shares[i].count = device_state->sizes[i].count;
        shares[i].text = shares_size_text(notes, device_state->sizes[i].key);
        if (!shares[i].text)
            return ACRE_ERR_HOST_MEMORY;
    }
    *out = shares;
    *out_count = device_state->size_count;
    return ACRE_OK;
}

const acre_share *shares_first_known(const acre_share *shares, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (strcmp(shares[i].text, MOMENT_NO_STACK) != 0)
            return &shares[i];
    return NULL;
}
