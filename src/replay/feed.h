/* SPDX-License-Identifier: MIT */
/* The events of a trace in chunks, as often as wanted.
 *
 * A trace of up to FEED_KEPT_MAX events is kept in memory after the first pass;
 * a longer one is read again, so that memory stays bounded. The history of a
 * snapshot is in memory from the start.
 */
#ifndef SRC_REPLAY_FEED_H
#define SRC_REPLAY_FEED_H

#include <acre/trace.h>

#define FEED_CHUNK 4096
#define FEED_CHUNK_TIMED 64 /* events between looks at the clock */
#define FEED_KEPT_MAX ((size_t)1 << 20)

/* What is known about the state at the start of a history; all 0 for a trace. */
struct feed_start {
    uint64_t allocs;          /* that stand for it, at the front of the events     */
    uint64_t bytes;           /* requested by them                                 */
    uint64_t open_count;      /* blocks whose exact size is not known ...          */
    uint64_t open_bytes_max;  /* ... and how much larger they may be in all        */
    uint64_t contradictions;  /* events that do not fit the segments               */
    uint32_t device;          /* whose history it is                               */
    uint32_t padding;         /* in every size: bytes that were not asked for      */
};

struct feed {
    acre_trace *trace;        /* NULL for a snapshot                               */
    struct feed_start start;  /* of a snapshot                                     */
    uint32_t streams;         /* 0: as recorded; N: allocation i to stream i mod N */
    uint64_t alloc_count;     /* of this pass so far                               */
    uint64_t slot_count;      /* every slot met so far is below it                 */
    acre_trace_event *kept;   /* all events so far, or NULL when there are too many */
    size_t kept_count, kept_capacity;
    bool is_started;          /* something was read: a rewind has work to do       */
    bool is_borrowed;         /* kept belongs to another feed                      */
    bool is_whole;            /* kept holds the whole trace                        */
    bool is_too_long;         /* nothing is kept                                   */
    size_t at;                /* next of kept, once it is whole                    */
    uint64_t deadline_ns;     /* of feed_now_ns: nothing is given any more then; 0: none */
    acre_trace_event chunk[FEED_CHUNK];
};

/* Opens a trace, or a snapshot, of which device counts; FACTS_CHOOSE lets the content
 * decide (facts.h). With has_requests, requests that failed are made again. Errors: those of
 * acre_trace_open and snapshot_read; ACRE_ERR_NOT_FOUND (no history),
 * ACRE_ERR_FORMAT (the snapshot is inconsistent). */
acre_status feed_open(const char *path, uint32_t device, bool has_requests, uint32_t streams,
                      struct feed **out);
void feed_close(struct feed *feed); /* NULL is fine */
/* A feed of the same events, for another thread. It borrows what is kept, so that the
 * first one must stay and be whole; false in *out_is_shared: it is not, and there is no
 * new feed. */
acre_status feed_share(const struct feed *feed, struct feed **out, bool *out_is_shared);
/* The seconds until the deadline; 0: there is none. Errors: ACRE_ERR_TIMEOUT. */
acre_status feed_seconds_left(const struct feed *feed, double *out);
/* Gives the next events, at most FEED_CHUNK; none at the end. They are valid
 * until the next call. Errors: those of acre_trace_read, ACRE_ERR_TIMEOUT. */
acre_status feed_next(struct feed *feed, const acre_trace_event **out_events,
                      size_t *out_count);
/* Starts the next pass. */
acre_status feed_rewind(struct feed *feed);
/* How much of this pass was given, between 0 and 1. */
double feed_progress(const struct feed *feed);
/* Nanoseconds since some moment. */
uint64_t feed_now_ns(void);

#endif
