/* SPDX-License-Identifier: MIT */
/* Device memory with a pattern in it, and files for it; for tests of files. */
#ifndef TESTS_SUPPORT_FILE_BED_H
#define TESTS_SUPPORT_FILE_BED_H

#include "exchange/ring.h"
#include "tests/support/files.h"
#include "tests/support/sim_bed.h"

#include <acre/acre.h>

#include <fcntl.h>

enum { PAGE = 4096, BLOCKS = 40, RANGE = BLOCKS * PAGE };

static struct sim_bed bed;
static acre_device *device;
static char *memory;         /* of the device, RANGE bytes */
static unsigned char pattern[RANGE], seen[RANGE];

static inline void start(void)
{
    uint64_t state = 7;

    bed = bed_open("devices:1,memory:64MiB");
    REQUIRE_OK(acre_backend_device(bed.backend, 0, &device));
    REQUIRE_OK(acre_device_alloc(device, RANGE, (void **)&memory));
    for (int i = 0; i < RANGE; i++)
        pattern[i] = (unsigned char)t_random(&state);
    bed_write(&bed, memory, pattern, RANGE);
}

static inline void stop(void)
{
    REQUIRE_OK(acre_device_free(device, memory));
    bed_close(&bed);
}

/* Engines that work here. */
static inline bool engine_is_there(acre_file_engine engine)
{
    struct io_ring *ring;

    if (engine != ACRE_FILE_URING)
        return true;
    if (ring_create(1, &ring) != ACRE_OK)
        return false;
    ring_destroy(ring);
    return true;
}

static inline acre_file *file_with_blocks(const char *name, acre_file_engine engine,
                                          size_t block_bytes)
{
    const acre_file_config config = {.struct_size = sizeof config, .engine = engine, .depth = 4,
                                     .block_bytes = block_bytes, .flags = ACRE_FILE_MAY_BUFFER};
    acre_file *file;

    REQUIRE_OK(acre_file_open(files_path(name), O_RDWR | O_CREAT | O_TRUNC, &config, &file));
    return file;
}

/* A new file with small blocks, so that a transfer has many. */
static inline acre_file *file_new(const char *name, acre_file_engine engine)
{
    return file_with_blocks(name, engine, PAGE);
}

static inline acre_file_info info_of(acre_file *file)
{
    acre_file_info info = {.struct_size = sizeof info};

    REQUIRE_OK(acre_file_info_get(file, &info));
    return info;
}

static inline void expect_memory(const void *place, const void *wanted, size_t bytes)
{
    bed_read(&bed, seen, place, bytes);
    EXPECT_EQ(memcmp(seen, wanted, bytes), 0);
}

static inline void clear_memory(void)
{
    static const unsigned char zero[RANGE];

    bed_write(&bed, memory, zero, RANGE);
}

#endif
