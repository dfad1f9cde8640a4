/* SPDX-License-Identifier: MIT */
/* What the benchmark programs share beyond cli/bench/measure.h: options, and ending
 * when something fails. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include "cli/bench/measure.h"

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

/* Prints what failed and exits with status 1, unless status is ACRE_OK. */
void bench_require(acre_status status, const char *what);

/* A cache of a policy ("acre", "torch"; NULL: the default) on a dry device of
 * 80 GiB of its own. */
acre_cache *bench_cache(const char *policy);

/* The same on a device whose calls cost nothing: an event is complete when it is recorded. */
acre_cache *bench_cache_none(const char *policy);

/* The policy of a name; ends the program when there is none such. */
acre_policy bench_policy(const char *name);

/* A further stream of the cache's device. */
void *bench_stream(acre_cache *cache);

#endif
