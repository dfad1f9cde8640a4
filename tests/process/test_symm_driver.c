/* SPDX-License-Identifier: MIT */
/* Symmetric memory on drivers, through their stand-ins: every rank has a driver of its
 * own and the memory of all others, as descriptors or over a fabric. What needs a kernel
 * says so. ACRE_TEST_DRIVER names the vendor. */
#include "base/bits.h"
#include "tests/support/ranks.h"
#include "tests/support/standin_bed.h"

#include <acre/acre.h>

#include <unistd.h>

#define BYTES 100000 /* of each buffer */

/* A rank and its driver. */
struct site {
    struct rank *me;
    acre_backend *backend;
    acre_device *device;
    void *base;
    acre_symm *symm;
};

static void site_open(struct site *site, struct rank *me)
{
    *site = (struct site){.me = me};
    REQUIRE_OK(standin_backend(standin_vendor(), "devices:2,memory:64MiB", &site->backend));
    REQUIRE_OK(acre_backend_device(site->backend, me->rank % 2, &site->device));
}

static void site_meet(struct site *site)
{
    acre_symm_config config = {.struct_size = sizeof config, .device = site->device};

    REQUIRE_OK(acre_symm_alloc(&config, BYTES, &site->base));
    REQUIRE_OK(acre_symm_rendezvous(site->base, "world", &site->symm));
    REQUIRE(site->symm != NULL);
}

static void site_close(struct site *site)
{
    acre_symm_release(site->symm);
    acre_symm_free(site->base);
    acre_backend_unregister(site->backend);
    standin_end();
}

static void *buffer_of(struct site *site, int rank)
{
    void *address = NULL;

    REQUIRE_OK(acre_symm_buffer(site->symm, rank, 0, BYTES, &address));
    return address;
}

static void fill(struct site *site, void *to, int value)
{
    REQUIRE_OK(acre_fill_async(site->device, to, value, BYTES, NULL));
    REQUIRE_OK(acre_device_synchronize(site->device));
}

static void expect(struct site *site, const void *from, int value)
{
    static unsigned char copy[BYTES];

    REQUIRE_OK(acre_copy(site->device, copy, from, BYTES, ACRE_COPY_DEVICE_TO_HOST));
    EXPECT(copy[0] == value && memcmp(copy, copy + 1, BYTES - 1) == 0);
}

/* ---- Reaching all ranks ---------------------------------------------------------------- */

static void reach_body(struct rank *me)
{
    struct site site;
    acre_symm_info info = {.struct_size = sizeof info};
    int next = (me->rank + 1) % me->count, before = (me->rank + me->count - 1) % me->count;

    site_open(&site, me);
    site_meet(&site);
    REQUIRE_OK(acre_symm_info_get(site.symm, &info));
    EXPECT_EQ(info.world_size, me->count);
    EXPECT(info.is_direct);
    EXPECT(!info.has_multicast);
    EXPECT_EQ(info.block_bytes % (2 * MIB), 0);
    EXPECT_PTR_EQ(buffer_of(&site, me->rank), site.base);
    expect(&site, site.base, 0); /* zeroed before anybody sees it */
    REQUIRE_OK(acre_symm_barrier(site.symm, 0, 60000));
    fill(&site, buffer_of(&site, next), 'a' + me->rank);
    REQUIRE_OK(acre_symm_barrier(site.symm, 0, 60000));
    expect(&site, site.base, 'a' + before);
    for (int i = 0; i < me->count; i++)
        expect(&site, buffer_of(&site, i), 'a' + (i + me->count - 1) % me->count);
    REQUIRE_OK(acre_symm_barrier(site.symm, 0, 60000));
    site_close(&site);
}

TEST(every_rank_reaches_the_memory_of_all)
{
    ranks_run(2, reach_body);
    ranks_run(3, reach_body);
}

TEST(memory_travels_over_a_fabric_where_there_are_no_descriptors)
{
    if (strcmp(standin_vendor(), "hip") == 0)
        T_SKIP("HIP has no fabric handles");
    setenv("STANDIN_WITHOUT", "posix", 1);
    ranks_run(2, reach_body);
    unsetenv("STANDIN_WITHOUT");
}

static void no_sharing_body(struct rank *me)
{
    acre_symm_config config = {.struct_size = sizeof config};
    struct site site;

    site_open(&site, me);
    config.device = site.device;
    EXPECT_EQ(acre_symm_alloc(&config, BYTES, &site.base), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "cannot share its memory");
    site_close(&site);
}

TEST(devices_that_share_nothing_are_refused)
{
    setenv("STANDIN_WITHOUT", "virtual,posix,fabric", 1);
    ranks_run(2, no_sharing_body);
    unsetenv("STANDIN_WITHOUT");
}

/* ---- Copies, and what needs kernels --------------------------------------------------------- */

static void copies_body(struct rank *me)
{
    const char *needs = "needs a kernel";
    acre_collective_options later = {.struct_size = sizeof later, .is_async = 1};
    struct site site;
    void *own, *stream;
    int other = 1 - me->rank;

    site_open(&site, me);
    site_meet(&site);
    REQUIRE_OK(acre_device_alloc(site.device, BYTES, &own));
    REQUIRE_OK(acre_stream_native_create(site.device, 0, 0, &stream));
    fill(&site, own, 'p' + me->rank);
    REQUIRE_OK(acre_symm_barrier(site.symm, 1, 60000));
    REQUIRE_OK(acre_symm_put(site.symm, other, 0, own, BYTES, NULL));
    REQUIRE_OK(acre_symm_barrier(site.symm, 1, 60000));
    expect(&site, site.base, 'p' + other);
    later.stream = stream;
    REQUIRE_OK(acre_symm_get(site.symm, other, 0, own, BYTES, &later));
    REQUIRE_OK(acre_stream_native_synchronize(site.device, stream));
    expect(&site, own, 'p' + me->rank);
    EXPECT_EQ(acre_symm_put(site.symm, other, 1, own, BYTES, NULL), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_symm_memset32(site.symm, own, BYTES / 4, 0, 0x07070707, BYTES / 4, NULL));
    expect(&site, own, 7);
    REQUIRE_OK(acre_symm_write_value32(site.symm, own, BYTES / 4, 1, 0x07070708, NULL));
    EXPECT_EQ(acre_symm_memset32(site.symm, own, BYTES / 4, 0, 1, 2, NULL),
              ACRE_ERR_UNSUPPORTED);
    EXPECT_EQ(acre_symm_put_signal(site.symm, other, 0, 1000), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), needs);
    EXPECT_EQ(acre_symm_all_reduce(site.symm, 0, 64, ACRE_DTYPE_F32, NULL, NULL),
              ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), needs);
    EXPECT_EQ(acre_symm_broadcast(site.symm, 0, 64, 0, NULL), ACRE_ERR_UNSUPPORTED);
    REQUIRE_OK(acre_symm_barrier(site.symm, 1, 60000));
    REQUIRE_OK(acre_stream_native_destroy(site.device, stream));
    REQUIRE_OK(acre_device_free(site.device, own));
    site_close(&site);
}

TEST(copies_work_and_what_needs_a_kernel_says_so)
{
    ranks_run(2, copies_body);
}

/* ---- Ranks that do not go together ------------------------------------------------------- */

static void cliques_body(struct rank *me)
{
    acre_group_config config = {.struct_size = sizeof config, .rank = me->rank,
                                .world_size = me->count, .name = "cliques", .store = me->store,
                                .timeout_ms = 60000, .flags = ACRE_GROUP_HAS_CLIQUE,
                                .clique = 3 + me->rank};
    acre_symm_config block = {.struct_size = sizeof block};
    acre_symm *symm = NULL;
    acre_group *group;
    struct site site;

    site_open(&site, me);
    block.device = site.device;
    REQUIRE_OK(acre_group_create(&config, &group));
    REQUIRE_OK(acre_symm_alloc(&block, BYTES, &site.base));
    EXPECT_EQ(acre_symm_rendezvous(site.base, "cliques", &symm), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "rank 1 device 1 clique 4");
    acre_group_destroy(group);
    site_close(&site);
}

TEST(ranks_of_different_cliques_are_refused)
{
    ranks_run(2, cliques_body);
}

/* A call of rank 1's driver fails during the rendezvous: nobody gets a handle, and
 * nothing is left; the same again succeeds. */
static void failing_body(struct rank *me)
{
    acre_symm_config config = {.struct_size = sizeof config};
    struct site site;

    site_open(&site, me);
    config.device = site.device;
    for (int nth = 1; nth <= 40; nth += 3) {
        acre_symm *symm = NULL;

        REQUIRE_OK(acre_symm_alloc(&config, BYTES, &site.base));
        if (me->rank == 1)
            standin_now.fail_nth((uint64_t)nth, STANDIN_UNKNOWN);
        acre_status status = acre_symm_rendezvous(site.base, "world", &symm);
        bool was_failed = standin_now.fail_end() > 0;
        if (status == ACRE_OK)
            acre_symm_release(symm);
        else
            EXPECT(*acre_last_error() && (was_failed || me->rank == 0));
        atomic_store(&me->shared[2 * nth + me->rank], (uint64_t)status + 1);
        REQUIRE_OK(acre_group_barrier(me->group));
        EXPECT((atomic_load(&me->shared[2 * nth]) == 1) ==
               (atomic_load(&me->shared[2 * nth + 1]) == 1)); /* all or nobody */
        acre_symm_free(site.base);
    }
    site.base = NULL;
    site_meet(&site);
    REQUIRE_OK(acre_symm_barrier(site.symm, 0, 60000));
    site_close(&site);
}

TEST(all_succeed_or_all_fail)
{
    ranks_run(2, failing_body);
}

T_MAIN()
