/* SPDX-License-Identifier: MIT */
/* The stops of the demo. Each shows one thing on the reference device, compares
 * what it sees with what must be, and is false when they differ; it has then
 * told on standard error what went wrong. A stop returns what it took. */
#ifndef CLI_TOUR_H
#define CLI_TOUR_H

#include "cli/report.h"

#include <acre/acre.h>

struct tour {
    struct report *report;
    acre_backend *backend;  /* a reference device of the demo's own */
    acre_device *device[2];
    uint64_t limit_bytes;   /* what a device hands out at most; 0: all it has */
};

/* In the order of the demo: function, title. */
#define TOUR_STOPS(X)                                                          \
    X(devices, "Devices")                                                      \
    X(protection, "Device memory is protected")                                \
    X(streams, "Streams and events")                                           \
    X(copies, "Copies")                                                        \
    X(ranges, "Virtual ranges")                                                \
    X(graphs, "Capture and graphs")                                            \
    X(cache, "The caching allocator")                                          \
    X(stitching, "Fragmentation, and stitched memory")                         \
    X(training, "Memory over time")                                            \
    X(faults, "Faults on demand")                                              \
    X(ending, "Nothing is left behind")

#define TOUR_DECLARE(name, title) bool tour_##name(struct tour *tour);
TOUR_STOPS(TOUR_DECLARE)
#undef TOUR_DECLARE

/* Tells on standard error which call failed and why; always false. */
bool tour_failed(const char *file, int line, const char *what, acre_status status);

/* Leaves the stop unless the call succeeds. */
#define TRY(call)                                                              \
    do {                                                                       \
        acre_status try_status = (call);                                       \
        if (try_status != ACRE_OK)                                             \
            return tour_failed(__FILE__, __LINE__, #call, try_status);         \
    } while (0)

/* Leaves the stop unless the fact holds. */
#define EXPECT(fact)                                                           \
    do {                                                                       \
        if (!(fact))                                                           \
            return tour_failed(__FILE__, __LINE__, #fact, ACRE_OK);            \
    } while (0)

#endif
