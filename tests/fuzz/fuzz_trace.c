/* SPDX-License-Identifier: MIT */
/* Traces of any bytes, gzip included: never a crash or a leak; what is accepted
 * is consistent: frees and uses name live allocations by their slot. */
#include "base/heap.h"
#include "tests/fuzz/fuzz.h"

#include <acre/trace.h>

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void check_events(acre_trace *trace)
{
    static uint64_t owner[65536]; /* id + 1 by slot; 0: free */
    acre_trace_event events[64];
    acre_status status = ACRE_OK;
    size_t count = 1;

    memset(owner, 0, sizeof owner);
    while (count > 0 && (status = acre_trace_read(trace, events, 64, &count)) == ACRE_OK)
        for (size_t i = 0; i < count; i++) {
            const acre_trace_event *event = &events[i];
            FUZZ_EXPECT(event->slot < 65536);
            if (event->kind == ACRE_TRACE_ALLOC) {
                FUZZ_EXPECT(event->bytes >= 1 && event->bytes <= (uint64_t)1 << 60);
                FUZZ_EXPECT(owner[event->slot] == 0);
                owner[event->slot] = event->id + 1;
            } else if (event->kind == ACRE_TRACE_FREE || event->kind == ACRE_TRACE_USE) {
                FUZZ_EXPECT(owner[event->slot] == event->id + 1);
                if (event->kind == ACRE_TRACE_FREE)
                    owner[event->slot] = 0;
            }
        }
    FUZZ_EXPECT(status == ACRE_OK || status == ACRE_ERR_FORMAT);
    FUZZ_EXPECT(status == ACRE_OK || *acre_last_error());
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    char path[64];
    acre_trace *trace;
    uint64_t live = heap_live_count();

    if (fd < 0)
        fd = memfd_create("trace", 0);
    if (size > 200000 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (acre_trace_open(path, &trace) == ACRE_OK) {
        check_events(trace);
        FUZZ_EXPECT(acre_trace_rewind(trace) == ACRE_OK);
        check_events(trace);
        acre_trace_close(trace);
    }
    FUZZ_EXPECT(heap_live_count() == live);
    return 0;
}
