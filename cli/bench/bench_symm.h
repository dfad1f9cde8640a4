/* SPDX-License-Identifier: MIT */
/* acre bench symm, which acre bench hands over to. */
#ifndef CLI_BENCH_SYMM_H
#define CLI_BENCH_SYMM_H

/* argv[0] is "symm"; the exit status. */
int bench_symm(int argc, char **argv);
/* The part that each rank runs: prints lines "operation bytes nanoseconds" on rank 0. */
int bench_symm_rank(void);

#endif
