/* SPDX-License-Identifier: MIT */
#include "sim/sim_memory.h"

#include "base/bits.h"
#include "tests/support/sim_bed.h"

TEST(eighty_gibibytes_map_nothing)
{
    int maps = bed_map_count();
    struct sim_bed bed = bed_open("devices:8,memory:80GiB,dry:1");
    acre_pointer_info info = {.struct_size = sizeof info};
    void *p[8], *q;

    for (int i = 0; i < 8; i++) {
        REQUIRE_OK(bed.ops->alloc(bed.sim, i, 80 * GIB, &p[i]));
        EXPECT_EQ((uintptr_t)p[i] % (2 * MIB), 0);
        EXPECT_EQ(bed.ops->alloc(bed.sim, i, 1, &q), ACRE_ERR_DEVICE_MEMORY);
    }
    REQUIRE_OK(bed.ops->pointer_info(bed.sim, (char *)p[5] + 79 * GIB, &info));
    EXPECT_EQ(info.kind, ACRE_MEMORY_DEVICE);
    EXPECT_EQ(info.device, 5);
    EXPECT_PTR_EQ(info.base, p[5]);
    EXPECT_EQ(info.bytes, 80 * GIB);
    for (int i = 0; i < 8; i++)
        REQUIRE_OK(bed.ops->free(bed.sim, i, p[i]));
    EXPECT_LE(bed_map_count(), maps + 2);
    bed_close(&bed);
}

TEST(usage_tells_which_capacities_would_have_done_the_same)
{
    struct sim_bed bed = bed_open("memory:100MiB,dry:1,devices:1");
    void *p, *q, *r;

    EXPECT_EQ(bed_usage(&bed).bytes_refused_least, 0);
    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 60 * MIB, &p));
    EXPECT_EQ(bed.ops->alloc(bed.sim, 0, 70 * MIB, &r), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(bed.ops->alloc(bed.sim, 0, SIZE_MAX - 8 * MIB, &r), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(bed_usage(&bed).bytes_refused_least, 130 * MIB);
    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 20 * MIB, &q));
    REQUIRE_OK(bed.ops->free(bed.sim, 0, p));
    EXPECT_EQ(bed.ops->alloc(bed.sim, 0, 90 * MIB, &r), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(bed_usage(&bed).bytes_used_peak, 80 * MIB);
    EXPECT_EQ(bed_usage(&bed).bytes_refused_least, 110 * MIB);
    REQUIRE_OK(bed.ops->free(bed.sim, 0, q));
    REQUIRE_OK(bed.ops->reserve(bed.sim, 0, 40 * MIB, &p));
    REQUIRE_OK(bed.ops->create(bed.sim, 0, 2 * MIB, ACRE_HANDLE_NONE, &q));
    REQUIRE_OK(bed.ops->map(bed.sim, 0, (char *)p + 10 * MIB, 2 * MIB, 0, q));
    EXPECT_EQ(bed_usage(&bed).mapped_end_peak, 12 * MIB);
    bed_drop(&bed);
}

TEST(equal_calls_give_equal_addresses_in_later_backends)
{
    void *seen[64];

    for (int round = 0; round < 2; round++) {
        struct sim_bed bed = bed_open("memory:80GiB,dry:1");
        uint64_t state = 42;
        void *live[64] = {NULL};

        for (int i = 0; i < 1000; i++) {
            uint64_t value = t_random(&state);
            void **at = &live[value % 64];

            if (*at) {
                REQUIRE_OK(bed.ops->free(bed.sim, 0, *at));
                *at = NULL;
            } else {
                REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 1 + (value >> 8) % (100 * MIB), at));
            }
        }
        if (round == 0)
            memcpy(seen, live, sizeof seen);
        EXPECT(memcmp(seen, live, sizeof seen) == 0);
        bed_drop(&bed);
    }
}

TEST(live_backends_share_no_addresses)
{
    struct sim_bed a = bed_open("memory:80GiB,dry:1"), b = bed_open("memory:80GiB,dry:1");
    void *p, *q;

    REQUIRE_OK(a.ops->alloc(a.sim, 0, 4096, &p));
    REQUIRE_OK(b.ops->alloc(b.sim, 0, 4096, &q));
    EXPECT(p != q);
    acre_backend_unregister(b.backend);
    acre_backend_unregister(a.backend);
    EXPECT_EQ(heap_live_count(), a.heap_before);
}

TEST(addresses_run_out_with_an_error_and_come_back)
{
    acre_backend *backends[41];
    acre_sim_config config = {.struct_size = sizeof config, .memory_bytes = GIB, .dry = 1};
    acre_status status = ACRE_OK;
    int count = 0;

    while (count < 41 && (status = acre_sim_create(&config, &backends[count])) == ACRE_OK)
        count++;
    EXPECT_EQ(count, 40);
    EXPECT_EQ(status, ACRE_ERR_LIMIT);
    while (count > 0)
        acre_backend_unregister(backends[--count]);
    struct sim_bed bed = bed_open("dry:1");
    bed_close(&bed);
}

/* A cache reserves more than all memory for each stream, so a device takes more addresses when
 * those it began with are gone; when there are none at all it says so, and they come back. */
TEST(a_device_takes_more_addresses_when_it_needs_them)
{
    struct sim_bed bed = bed_open("memory:80GiB,devices:1,dry:1"), other = bed_open("dry:1");
    uint64_t count = 0;
    acre_status status;
    char *live[1024];
    void *next;

    while ((status = bed.ops->reserve(bed.sim, 0, 90 * GIB, &next)) == ACRE_OK) {
        live[count] = next;
        for (uint64_t i = 0; i < count; i++)
            EXPECT(live[i] + 90 * GIB <= live[count] || live[count] + 90 * GIB <= live[i]);
        REQUIRE(++count < 1024);
    }
    EXPECT_EQ(status, ACRE_ERR_DEVICE_MEMORY);
    EXPECT_HAS(acre_last_error(), "addresses");
    EXPECT_GT(count, 800);
    REQUIRE_OK(other.ops->alloc(other.sim, 0, 4096, &next));
    for (uint64_t i = 0; i < count; i++)
        EXPECT((char *)next + 4096 <= live[i] || live[i] + 90 * GIB <= (char *)next);
    REQUIRE_OK(other.ops->free(other.sim, 0, next));
    /* A gap in the middle is found again. */
    REQUIRE_OK(bed.ops->unreserve(bed.sim, 0, live[count / 2], 90 * GIB));
    REQUIRE_OK(bed.ops->reserve(bed.sim, 0, 90 * GIB, &next));
    EXPECT_PTR_EQ(next, live[count / 2]);
    acre_backend_unregister(bed.backend);
    acre_backend_unregister(other.backend);
    struct sim_bed again = bed_open("memory:8TiB,devices:1,dry:1");
    bed_drop(&again);
    EXPECT_EQ(heap_live_count(), bed.heap_before);
}

/* Never two live blocks at one address, however long it runs: the cursor goes
 * round the addresses many times. */
TEST(addresses_are_reused_but_never_while_live)
{
    struct sim_bed bed = bed_open("memory:8TiB,devices:1,dry:1");
    uint64_t state = t_seed();
    struct {
        uintptr_t base;
        size_t bytes;
    } live[32] = {{0, 0}};

    for (uint64_t i = 0; i < t_count(20000, 1000000); i++) {
        uint64_t value = t_random(&state);
        unsigned at = value % 32;
        void *p;

        if (live[at].base) {
            REQUIRE_OK(bed.ops->free(bed.sim, 0, (void *)live[at].base));
            live[at].base = 0;
            continue;
        }
        size_t bytes = 4096 + (value >> 8) % (200 * GIB);
        REQUIRE_OK(bed.ops->alloc(bed.sim, 0, bytes, &p));
        for (unsigned j = 0; j < 32; j++)
            EXPECT(!live[j].base || live[j].base + live[j].bytes <= (uintptr_t)p ||
                   (uintptr_t)p + bytes <= live[j].base);
        live[at].base = (uintptr_t)p;
        live[at].bytes = bytes;
    }
    bed_drop(&bed);
}

TEST(virtual_calls_are_checked_as_strictly)
{
    struct sim_bed bed = bed_open("memory:80GiB,dry:1");
    size_t page = BED_PAGE;
    struct sim_pin pin;
    char *a;
    void *handle;

    EXPECT_EQ(bed.ops->reserve(bed.sim, 0, page + 1, (void **)&a), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->reserve(bed.sim, 0, (size_t)1 << 50, (void **)&a),
              ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(bed.ops->reserve(bed.sim, 0, SIZE_MAX - page + 1, (void **)&a),
              ACRE_ERR_DEVICE_MEMORY);
    REQUIRE_OK(bed.ops->reserve(bed.sim, 0, 90 * GIB, (void **)&a));
    REQUIRE_OK(bed.ops->create(bed.sim, 0, 2 * page, ACRE_HANDLE_NONE, &handle));
    EXPECT_EQ(bed.ops->map(bed.sim, 0, a, page, 0, handle), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->map(bed.sim, 0, a + 4096, 2 * page, 0, handle), ACRE_ERR_INVALID);
    REQUIRE_OK(bed.ops->map(bed.sim, 0, a, 2 * page, 0, handle));
    EXPECT_EQ(bed.ops->map(bed.sim, 0, a + page, 2 * page, 0, handle), ACRE_ERR_EXISTS);
    EXPECT_EQ(bed.ops->unmap(bed.sim, 0, a, page), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->unreserve(bed.sim, 0, a, 90 * GIB), ACRE_ERR_STATE);
    REQUIRE_OK(bed.ops->set_access(bed.sim, 0, a, 2 * page, 1, ACRE_ACCESS_READ_WRITE));
    REQUIRE_OK(sim_pin(bed.sim, a + 5, page, &pin));
    EXPECT(!pin.address);
    EXPECT_EQ(pin.writers, 2);
    sim_unpin(bed.sim, &pin);
    EXPECT_EQ(sim_pin(bed.sim, a + 5, 2 * page, &pin), ACRE_ERR_INVALID);
    REQUIRE_OK(bed.ops->access_open(bed.sim, a));
    REQUIRE_OK(bed.ops->access_close(bed.sim, a));
    EXPECT_EQ(bed.ops->access_close(bed.sim, a), ACRE_ERR_STATE);
    REQUIRE_OK(bed.ops->unmap(bed.sim, 0, a, 2 * page));
    REQUIRE_OK(bed.ops->release(bed.sim, 0, handle));
    REQUIRE_OK(bed.ops->unreserve(bed.sim, 0, a, 90 * GIB));
    bed_close(&bed);
}

TEST(sharing_is_not_offered)
{
    struct sim_bed bed = bed_open("dry:1");
    acre_device *device;
    acre_device_info info = {.struct_size = sizeof info};
    int fd;

    REQUIRE_OK(acre_backend_device(bed.backend, 0, &device));
    REQUIRE_OK(acre_device_info_get(device, &info));
    EXPECT_EQ(info.capabilities & ACRE_CAP_SHARE_FD, 0);
    EXPECT(info.capabilities & ACRE_CAP_VIRTUAL);
    EXPECT_EQ(bed.ops->export_fd(bed.sim, 0, &bed, &fd), ACRE_ERR_UNSUPPORTED);
    bed_close(&bed);
}

T_MAIN()
