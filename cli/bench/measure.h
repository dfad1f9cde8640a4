/* SPDX-License-Identifier: MIT */
/* Patterns of allocations, timed on a cache and on host allocators.
 *
 * Peers are host allocators that people would use for host memory. Each is
 * timed on the same pattern, in the same run, in a child process that is this
 * program again with the peer preloaded in place of malloc.
 */
#ifndef CLI_MEASURE_H
#define CLI_MEASURE_H

#include <acre/acre.h>

#include <stdbool.h>
#include <stdint.h>

double measure_seconds(void);
uint64_t measure_random(uint64_t *state);

/* A cache on a dry device of 80 GiB of its own, or on the device of --backend; end the
 * cache, then unregister the backend, which is NULL for one that stays. */
acre_status measure_cache(acre_policy policy, acre_backend **out_backend, acre_cache **out);

/* Allocates and frees a block again and again. Aborts when that fails: whoever
 * times it must have tried before. A NULL cache means malloc and free. */
void measure_pairs(acre_cache *cache, void *stream, size_t bytes, uint64_t pairs);

/* Nanoseconds per pair of measure_pairs, on the default stream, of pairs or of as many as were
 * done after limit seconds. */
double measure_pair_ns(acre_cache *cache, size_t bytes, uint64_t pairs, double limit);

/* Allocates the blocks that stay while pairs are timed: of the same size, at
 * most 1 MiB. False: there is no memory. */
bool measure_live(acre_cache *cache, void *stream, size_t bytes, uint64_t count);

/* Keeps live blocks, sizes log-uniform between 512 and largest bytes, and
 * replaces a random one ops times; the sizes are drawn from seed beforehand.
 * Ends after limit seconds; twice as many may go by before the clock starts.
 * Gives nanoseconds per replacement, negative when memory ran out. A NULL cache
 * means malloc and free. */
double measure_mix(acre_cache *cache, uint64_t ops, uint64_t live, uint64_t largest,
                   uint64_t seed, double limit);

/* A host allocator to compare with; library is NULL for that of libc. */
struct measure_peer {
    const char *name;
    const char *library;
};
enum { MEASURE_PEERS = 3 };
extern const struct measure_peer measure_peers[MEASURE_PEERS];

/* Runs this program again with the arguments given and "--peer", the allocator
 * preloaded, and reads the one number that it prints; negative when the library
 * is not there. */
double measure_peer_run(const struct measure_peer *peer, int argc, char **argv);

#endif
