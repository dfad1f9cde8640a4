/* SPDX-License-Identifier: MIT */
/* Tables of any bytes: never a crash or a leak; what is accepted is placed when it
 * is small, and the placement holds. */
#include "base/heap.h"
#include "tests/fuzz/fuzz.h"

#include <acre/plan.h>

#include <sys/mman.h>
#include <unistd.h>

#define PLACED_MAX 12

static void place(const acre_plan_buffer *buffers, size_t count)
{
    acre_plan_config config = {.struct_size = sizeof config, .threads = 1, .seconds = 0.01};
    uint64_t offsets[PLACED_MAX];

    if (count > PLACED_MAX)
        return;
    acre_status status = acre_plan_place(buffers, count, &config, offsets, NULL);
    FUZZ_EXPECT(status == ACRE_OK || status == ACRE_ERR_INVALID);
    if (status == ACRE_OK)
        FUZZ_EXPECT(acre_plan_verify(buffers, count, offsets, 0) == ACRE_OK);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    char path[64];
    acre_plan_table *table;
    size_t count;
    uint64_t live = heap_live_count();

    if (fd < 0)
        fd = memfd_create("csv", 0);
    if (size > 200000 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        return 0;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (acre_plan_read(path, &table) == ACRE_OK) {
        const acre_plan_buffer *buffers = acre_plan_buffers(table, &count);
        place(buffers, count);
        acre_plan_close(table);
    }
    FUZZ_EXPECT(heap_live_count() == live);
    return 0;
}
