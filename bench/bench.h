/* SPDX-License-Identifier: MIT */
/* What the benchmark programs share: time, options, a dry device, peers.
 *
 * Peers are host allocators that people would use for host memory. Each is
 * timed on the same pattern, in the same run, in a child process that is this
 * program again with the peer preloaded. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <acre/acre.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* One option: a name without dashes and where its value goes. */
struct bench_option {
    const char *name;
    const char *help;      /* one line                                       */
    uint64_t *number;      /* takes a number, with K, M or G for 2^10 ...    */
    const char **word;     /* or takes a word                                */
    bool *flag;            /* or takes nothing                               */
};

/* Reads the command line; on --help or a mistake prints and exits. */
void bench_options(int argc, char **argv, const char *purpose,
                   const struct bench_option *options);

double bench_seconds(void);
uint64_t bench_random(uint64_t *state);

/* Prints what failed and exits with status 1, unless status is ACRE_OK. */
void bench_require(acre_status status, const char *what);

/* A cache of a policy ("acre", "torch"; NULL: the default) on a dry device of
 * 80 GiB of its own. */
acre_cache *bench_cache(const char *policy);

/* A further stream of the cache's device. */
void *bench_stream(acre_cache *cache);

/* A host allocator to compare with; library is NULL for that of libc. */
struct bench_peer {
    const char *name;
    const char *library;
};
extern const struct bench_peer bench_peers[3];

/* Runs this program again with the arguments given and "--peer", the allocator
 * preloaded, and reads the one number that it prints; negative when the library
 * is not there. */
double bench_peer_run(const struct bench_peer *peer, int argc, char **argv);

#endif
