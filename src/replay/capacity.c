/* SPDX-License-Identifier: MIT */
#include "replay/capacity.h"

#include "base/bits.h"

#include <string.h>

/* Trials that are remembered: more than halving 4 TiB takes. */
#define SPANS_MAX 48

/* Reservations for which a device of any size has addresses: a dry device has those of 16 times
 * its memory, and each reservation takes 1.125 times that. */
#define RESERVES_MAX 12

struct capacity_trials {
    capacity_try_fn try_fn;
    void *arg;
    struct capacity_span spans[SPANS_MAX];
    unsigned count;
};

uint64_t capacity_in_mib(uint64_t bytes)
{
    uint64_t mib = bytes / MIB + (bytes % MIB != 0);

    return mib ? mib : 1;
}

/* ---- Spans ----------------------------------------------------------------------------- */

bool capacity_is_told_by_refusals(acre_policy policy, const char *conf)
{
    static const char *const plain[] = {
        "expandable_segments:", "max_split_size_mb:", "roundup_power2_divisions:"};

    if (policy != ACRE_POLICY_TORCH)
        return false; /* policy acre parts its addresses by the size of the device */
    while (conf && *conf) {
        bool is_plain = false;
        for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
            is_plain |= strncmp(conf, plain[i], strlen(plain[i])) == 0;
        if (!is_plain)
            return false;
        conf = strchr(conf, ',');
        conf = conf ? conf + 1 : NULL;
    }
    return true;
}

/* The smallest capacity whose reservations were large enough for all that was mapped, and for
 * one more allocation behind it; reservations are of 9/8 of a device. */
static uint64_t addresses_mib(const acre_sim_usage *usage, uint64_t bytes_max)
{
    if (!usage->mapped_end_peak && !usage->calls[ACRE_SIM_RESERVE])
        return 0;
    if (usage->calls[ACRE_SIM_RESERVE] > RESERVES_MAX || bytes_max > UINT64_MAX / 16)
        return UINT64_MAX;
    /* Pages are of 20 MiB at most, so that rounding takes less than 32 MiB. */
    return capacity_in_mib(usage->mapped_end_peak + bytes_max + 32 * MIB);
}

struct capacity_span capacity_span_of(const acre_sim_usage *usage, uint64_t mib, uint64_t bytes_max,
                                      bool fits)
{
    uint64_t addresses = addresses_mib(usage, bytes_max), refused = usage->bytes_refused_least;
    struct capacity_span span = {.from_mib = mib, .to_mib = mib, .fits = fits};

    if (addresses != UINT64_MAX)
        addresses -= addresses / 9; /* 9/8 of this is as much, or more */
    if (mib < addresses || (!fits && !refused))
        return span; /* a reservation may have been too small, or something else failed */
    span.from_mib = capacity_in_mib(usage->bytes_used_peak);
    span.from_mib = span.from_mib > addresses ? span.from_mib : addresses;
    span.to_mib = refused ? capacity_in_mib(refused) - 1 : CAPACITY_MIB_MAX;
    return span;
}

/* ---- Halving --------------------------------------------------------------------------- */

static acre_status search_try(struct capacity_trials *search, uint64_t mib, bool *out_fits)
{
    struct capacity_span found;

    for (unsigned i = 0; i < search->count; i++) {
        const struct capacity_span *span = &search->spans[i];
        if (mib >= span->from_mib && mib <= span->to_mib) {
            *out_fits = span->fits;
            return ACRE_OK;
        }
    }
    acre_status status = search->try_fn(search->arg, mib, &found);
    if (status != ACRE_OK)
        return status;
    *out_fits = found.fits;
    if (search->count < SPANS_MAX)
        search->spans[search->count++] = found;
    return ACRE_OK;
}

acre_status capacity_search(const struct capacity_range *range, capacity_try_fn try_fn, void *arg,
                            uint64_t *out_mib)
{
    struct capacity_trials search = {
        .try_fn = try_fn, .arg = arg, .spans = {range->first}, .count = 1};
    uint64_t low = range->low_mib, high = range->high_mib;
    bool is_enough = false;

    while (!is_enough) {
        if (high > CAPACITY_MIB_MAX) {
            *out_mib = 0;
            return ACRE_OK;
        }
        acre_status status = search_try(&search, high, &is_enough);
        if (status != ACRE_OK)
            return status;
        if (!is_enough) {
            low = high + 1;
            high *= 2;
        }
    }
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        acre_status status = search_try(&search, middle, &is_enough);
        if (status != ACRE_OK)
            return status;
        if (is_enough)
            high = middle;
        else
            low = middle + 1;
    }
    *out_mib = high;
    return ACRE_OK;
}
