/* SPDX-License-Identifier: MIT */
/* The smallest device on which a replay does not fail.
 *
 * Capacities are tried by halving, and each answer is that of a replay. But one replay often
 * answers for several capacities: where nothing but refusals of the device depends on its
 * size, every capacity that would have granted and refused the same requests gives the same
 * replay, event by event. A trial therefore tells the whole span it stands for, and a capacity in
 * the span of an earlier trial is not tried again. Nothing is assumed beyond that: whether more
 * memory always helps is not, as it does not.
 */
#ifndef SRC_REPLAY_CAPACITY_H
#define SRC_REPLAY_CAPACITY_H

#include <acre/cache.h>
#include <acre/sim.h>

#include <stdbool.h>

/* No capacity beyond this is tried: 4 TiB, in MiB. */
#define CAPACITY_MIB_MAX ((uint64_t)4 << 20)

/* Capacities for which one replay stands, both ends included. */
struct capacity_span {
    uint64_t from_mib, to_mib; /* none when from_mib > to_mib */
    bool fits;
};

/* Replays on a device of mib MiB. Sets *out to what it showed; its span holds at least
 * mib itself. */
typedef acre_status (*capacity_try_fn)(void *arg, uint64_t mib, struct capacity_span *out);

/* Searches from low to high, and beyond high when that is not enough. first is what is known
 * before, perhaps nothing. *out_mib is 0 when nothing up to CAPACITY_MIB_MAX works. */
struct capacity_range {
    uint64_t low_mib, high_mib;
    struct capacity_span first;
};
acre_status capacity_search(const struct capacity_range *range, capacity_try_fn try_fn, void *arg,
                            uint64_t *out_mib);

/* Whether replays under a configuration depend on the capacity through refusals alone, and
 * through addresses that are reserved in its proportion; false when that is not known. */
bool capacity_is_told_by_refusals(acre_policy policy, const char *conf);

/* The span of a replay on a device of mib MiB, from the counts of the device. No allocation was
 * larger than bytes_max. */
struct capacity_span capacity_span_of(const acre_sim_usage *usage, uint64_t mib, uint64_t bytes_max,
                                      bool fits);

/* Bytes in whole MiB, at least 1. */
uint64_t capacity_in_mib(uint64_t bytes);

#endif
