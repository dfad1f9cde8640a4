/* SPDX-License-Identifier: MIT */
/* What tests ask of the stand-ins, by dlsym on the library they are to control.
 *
 * A stand-in is a libcuda.so.1 or libamdhip64.so over the reference device. It
 * refuses with the vendor's codes what the vendor refuses, counts everything, and
 * fails calls on demand. Environment, read at the first call:
 *
 *   STANDIN_SIM      the device behind it, in the grammar of ACRE_SIM
 *   STANDIN_INIT     code that initialising answers (34: as a stub library does)
 *   STANDIN_VERSION  version of the driver, for example 11040
 *   STANDIN_WITHOUT  what devices say they lack, of: virtual fabric posix multicast
 *                    pools values; separated by commas
 *   STANDIN_FAIL     NAME@N=CODE: standin_fail(NAME, N, CODE)
 */
#ifndef TESTS_STANDIN_STANDIN_H
#define TESTS_STANDIN_STANDIN_H

#include <stdint.h>

/* Everything that callers hold at this moment. */
#define STANDIN_LIVE_MAP(X)                                                    \
    X(allocations) X(opened) X(host) X(registered) X(reservations) X(handles)  \
    X(mappings) X(multicasts) X(streams) X(events) X(graphs) X(pools)          \
    X(pool_blocks) X(contexts) X(greens)

struct standin_live {
#define STANDIN_LIVE_FIELD(name) uint64_t name;
    STANDIN_LIVE_MAP(STANDIN_LIVE_FIELD)
#undef STANDIN_LIVE_FIELD
};

/* Fails calls of one entry point (NULL: of any) with a code of the vendor: the
 * n-th from now, once; n 0: all of them. Several may be armed. */
void standin_fail(const char *name, uint64_t nth, int code);
/* The n-th call of any entry point from now. */
void standin_fail_nth(uint64_t nth, int code);
/* With 1, faults of any entry point pass over those that give something back,
 * since a driver that cannot free leaves a leak that nobody can help. */
void standin_spare(int is_spared);
/* Disarms all; how many calls failed since. */
uint64_t standin_fail_end(void);
/* The entry point that failed last by demand; "" when none did. */
const char *standin_failed(void);
/* How often an entry point was called (NULL: all of them). */
uint64_t standin_calls(const char *name);
/* What is held; the sum is in the result. */
uint64_t standin_live(struct standin_live *out);

/* Ends the device behind the library and, unless sim is NULL, makes another, in the
 * grammar of ACRE_SIM. Nobody may use the library meanwhile. Not 0: something is
 * still held, and nothing was done. */
uint64_t standin_restart(const char *sim);
/* What the device behind holds; 0 is success. */
struct acre_sim_usage;
int standin_usage(struct acre_sim_usage *out);

#endif
