/* SPDX-License-Identifier: MIT */
/* What carries bytes to ranks whose memory cannot be mapped here: the interface of a wire.
 *
 * A wire is made of plain calls that may block for as long as they like: all but is_dead are
 * made by one thread of far.c, where nobody is kept by them beyond a deadline. Wires are a
 * library of their own (src/bind/mpi.c), found by the name of its one symbol, or come with a
 * test. Calls that fail write a sentence and answer an acre_status.
 */
#ifndef SRC_SYMM_WIRE_H
#define SRC_SYMM_WIRE_H

#include <acre/base.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WIRE_VERSION 1u
#define WIRE_SYMBOL "acre_wire" /* const struct wire_ops *acre_wire(uint32_t version) */
#define WIRE_PIECE_MAX (1u << 20) /* bytes of one piece at most */
#define WIRE_TEXT 200

enum wire_kind {
    WIRE_PUT,  /* bytes from here to there; 4 or 8 aligned bytes arrive at once         */
    WIRE_GET,  /* bytes from there to here                                              */
    WIRE_SWAP, /* 4 or 8 bytes: value takes the place of compare; what was there to here */
};

/* One piece of work, with one rank. */
struct wire_op {
    enum wire_kind kind;
    int rank;                /* among those of the wire                           */
    uint64_t address;        /* there, counted from what attach gave to that rank */
    void *here;
    size_t bytes;            /* at most WIRE_PIECE_MAX                            */
    uint64_t compare, value; /* of a swap                                         */
};

/* Where a call that failed says why. */
struct wire_error {
    int rank;             /* with which it failed; -1: none in particular */
    char text[WIRE_TEXT];
};

struct wire_ops {
    uint32_t version;
    const char *name; /* ranks with wires of different names do not reach each other */
    /* Begins; gives the own rank and the number of ranks of the wire. */
    acre_status (*open)(void *self, int *out_rank, int *out_count, struct wire_error *error);
    /* Lets the others reach memory, which no other attached memory overlaps. */
    acre_status (*attach)(void *self, void *base, size_t bytes, uint64_t *out_address,
                          struct wire_error *error);
    void (*detach)(void *self, void *base);
    /* Does all pieces in any order; every one has its effect there when this returns. */
    acre_status (*run)(void *self, const struct wire_op *ops, size_t count,
                       struct wire_error *error);
    /* Serves the others for a moment without waiting. NULL: not needed. */
    void (*serve)(void *self);
    /* Gives all ranks rank 0's bytes; all make this call. */
    acre_status (*spread)(void *self, void *data, size_t bytes, struct wire_error *error);
    /* Whether a rank is known to be gone; from any thread. */
    bool (*is_dead)(void *self, int rank);
    /* Waits until all ranks leave, however long that takes; NULL: not needed. */
    void (*leave)(void *self);
    /* Ends it; all ranks do at about the same time. A call that takes longer than this is left
     * behind; 0: never. */
    void (*close)(void *self);
    uint32_t close_ms_max;
};

typedef const struct wire_ops *wire_find_fn(uint32_t version);

#endif
