/* SPDX-License-Identifier: MIT */
#include "explain/shares.h"

#include <stdio.h>
#include <string.h>

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

acre_status shares_of_stacks(const struct snapshot *snapshot,
                             const struct device_state *device_state, size_t max,
                             struct notes *notes, const acre_share **out, uint64_t *out_count)
{
    size_t count = device_state->stack_count < max ? device_state->stack_count : max;
    acre_share *shares = notes_take(notes, (count + 1) * sizeof *shares);
    char text[STACK_TEXT_MAX];

    if (!shares)
        return ACRE_ERR_HOST_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const struct group *group = &device_state->stacks[i];
        shares[i].bytes = group->bytes;
        shares[i].count = group->count;
        shares[i].text = notes_text(
            notes, "%s", device_state_stack_text(snapshot, group->key, text, sizeof text));
        if (!shares[i].text)
            return ACRE_ERR_HOST_MEMORY;
    }
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
