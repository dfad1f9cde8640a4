/* SPDX-License-Identifier: MIT */
/* Blocks, groups by name, and views: S1 to S14, S43 to S46, S78, S79, S81. */
#include "symm/team/block.h"

#include "base/heap.h"
#include "symm/team/group.h"
#include "symm/kind.h"
#include "symm/symm.h"

#include "tests/support/ranks.h"

static void *alloc(size_t bytes)
{
    void *base;

    REQUIRE_OK(acre_symm_alloc(NULL, bytes, &base));
    return base;
}

/* A world of one. */
static acre_group *alone(const char *name)
{
    acre_group *group;
    acre_group_config config = {.struct_size = sizeof config, .world_size = 1, .name = name};

    REQUIRE_OK(acre_group_create(&config, &group));
    return group;
}

/* ---- Layout and allocation -------------------------------------------------------- */

TEST(S1_pad_size_has_a_default)
{
    EXPECT_EQ(acre_symm_pad_bytes(), 9216);
    REQUIRE_OK(acre_symm_set_pad_bytes(4096));
    EXPECT_EQ(acre_symm_pad_bytes(), 4096);
    REQUIRE_OK(acre_symm_set_pad_bytes(0));
    EXPECT_EQ(acre_symm_pad_bytes(), 9216);
    EXPECT_EQ(acre_symm_set_pad_bytes(17), ACRE_ERR_INVALID);
}

TEST(S2_S3_layout)
{
    static const size_t sizes[] = {0, 1, 15, 16, 17, 4096};
    static const size_t offsets[] = {0, 16, 16, 16, 32, 4096};
    struct layout layout;

    for (int i = 0; i < 6; i++)
        for (size_t granularity = 4096; granularity <= 2 << 20; granularity *= 512) {
            REQUIRE_OK(layout_make(sizes[i], 9216, granularity, &layout));
            EXPECT_EQ(layout.pad_offset, offsets[i]);
            EXPECT_EQ(layout.block_bytes % granularity, 0);
            EXPECT_GE(layout.block_bytes, offsets[i] + 9216);
            EXPECT_LT(layout.block_bytes, offsets[i] + 9216 + granularity);
        }
    EXPECT_EQ(layout_make(SIZE_MAX - 5, 9216, 4096, &layout), ACRE_ERR_INVALID);
}

TEST(S4_S5_blocks_are_zero_and_parts_do_not_touch)
{
    acre_group *group = alone("one");
    unsigned char *base = alloc(5000);
    acre_symm *symm;
    acre_symm_info info = {.struct_size = sizeof info};

    REQUIRE_OK(acre_symm_rendezvous(base, "one", &symm));
    REQUIRE_OK(acre_symm_info_get(symm, &info));
    for (size_t i = 0; i < info.block_bytes; i++)
        EXPECT(base[i] == 0);
    memset(base, 0xaa, 5000);
    for (size_t i = 0; i < info.pad_bytes; i++)
        EXPECT(base[info.pad_offset + i] == 0);
    memset(base + info.pad_offset, 0x55, info.pad_bytes);
    for (size_t i = 0; i < 5000; i++)
        EXPECT(base[i] == 0xaa);
    acre_symm_release(symm);
    acre_symm_free(base);
    acre_group_destroy(group);
}

TEST(S6_S7_sizes_and_frees)
{
    char *base = alloc(1000);
    size_t bytes;
    int local;

    REQUIRE_OK(acre_symm_alloc_size(base, &bytes));
    EXPECT_EQ(bytes, 1000);
    EXPECT_EQ(acre_symm_alloc_size(base + 1, &bytes), ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(acre_symm_alloc_size(&local, &bytes), ACRE_ERR_NOT_FOUND);
    acre_symm_free(&local);
    acre_symm_free(base);
    acre_symm_free(base);
    acre_symm_free(NULL);
    EXPECT_EQ(heap_live_count(), 0);
}

TEST(S8_S10_other_memory_is_refused)
{
    acre_group *group = alone("one");
    void *empty = alloc(0), *base = alloc(16);
    acre_symm *symm = (acre_symm *)&symm;
    int local;

    EXPECT_EQ(acre_symm_rendezvous(empty, "one", &symm), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_symm_rendezvous(&local, "one", &symm), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "acre_symm_alloc");
    EXPECT(symm == (acre_symm *)&symm);
    REQUIRE_OK(acre_symm_rendezvous(base, "one", &symm));
    EXPECT(symm != NULL);
    acre_symm_release(symm);
    acre_symm_free(base);
    acre_symm_free(empty);
    acre_group_destroy(group);
    EXPECT_EQ(heap_live_count(), 0);
}

TEST(S9_two_gibibytes_are_sparse)
{
    size_t bytes = (size_t)2 << 30, size;
    char *base = alloc(bytes);

    base[bytes - 1] = 1;
    REQUIRE_OK(acre_symm_alloc_size(base, &size));
    EXPECT_EQ(size, bytes);
    acre_symm_free(base);
}

/* ---- Groups ----------------------------------------------------------------------- */

TEST(S11_groups_by_name)
{
    acre_group *group = alone("one"), *other;
    acre_group_config config = {.struct_size = sizeof config, .world_size = 1, .name = "one"};

    EXPECT_EQ(acre_group_create(&config, &other), ACRE_ERR_EXISTS);
    REQUIRE_OK(acre_group_find("one", &other));
    EXPECT_PTR_EQ(other, group);
    EXPECT_EQ(acre_group_find("two", &other), ACRE_ERR_NOT_FOUND);
    EXPECT_HAS(acre_last_error(), "two");
    config.name = "two";
    config.rank = 1;
    EXPECT_EQ(acre_group_create(&config, &other), ACRE_ERR_RANGE);
    config.world_size = 2;
    EXPECT_EQ(acre_group_create(&config, &other), ACRE_ERR_INVALID);
    acre_group_destroy(group);
    EXPECT_EQ(acre_group_find("one", &other), ACRE_ERR_NOT_FOUND);
}

TEST(S12_the_group_of_a_rendezvous)
{
    acre_group *a = alone("a"), *b = alone("b");
    acre_symm_config config = {.struct_size = sizeof config, .group = "a"};
    void *plain = alloc(64), *bound;
    acre_symm *symm;

    EXPECT_EQ(acre_symm_rendezvous(plain, NULL, &symm), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_symm_rendezvous(plain, "", &symm), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_symm_rendezvous(plain, "c", &symm), ACRE_ERR_NOT_FOUND);
    REQUIRE_OK(acre_symm_alloc(&config, 64, &bound));
    REQUIRE_OK(acre_symm_rendezvous(bound, "", &symm));
    EXPECT_PTR_EQ(symm->team->group, a);
    acre_symm_release(symm);
    REQUIRE_OK(acre_symm_rendezvous(bound, "b", &symm));
    EXPECT_PTR_EQ(symm->team->group, b);
    acre_symm_release(symm);
    acre_symm_free(plain);
    acre_symm_free(bound);
    acre_group_destroy(a);
    acre_group_destroy(b);
    EXPECT_EQ(heap_live_count(), 0);
}

TEST(S13_S14_kinds)
{
    acre_symm_free(alloc(1));
    EXPECT_EQ(acre_symm_set_backend(ACRE_DEVICE_CPU, "smoke"), ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(acre_symm_set_backend(ACRE_DEVICE_CPU, "virtual"), ACRE_ERR_STATE);
    REQUIRE_OK(acre_symm_set_backend(ACRE_DEVICE_CPU, acre_symm_backend(ACRE_DEVICE_CPU)));
    EXPECT(acre_symm_has_multicast(ACRE_DEVICE_CPU, 0));
    EXPECT(!acre_symm_has_multicast(ACRE_DEVICE_OPENCL, 0));
    EXPECT(!acre_symm_has_multicast((acre_device_type)21, 0));
}

/* ---- Views ------------------------------------------------------------------------ */

TEST(S43_S44_S45_S46_views_are_checked)
{
    acre_group *group = alone("one");
    char *base = alloc(1000);
    acre_symm *symm;
    void *at;
    size_t count;

    REQUIRE_OK(acre_symm_rendezvous(base, "one", &symm));
    EXPECT_EQ(acre_symm_buffer(symm, -1, 0, 1, &at), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_symm_buffer(symm, 1, 0, 1, &at), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_symm_buffer(symm, 0, 996, 8, &at), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "1000");
    EXPECT_HAS(acre_last_error(), "8 bytes");
    REQUIRE_OK(acre_symm_buffer(symm, 0, 992, 8, &at));
    REQUIRE_OK(acre_symm_buffer(symm, 0, 0, 1000, &at));
    EXPECT_EQ(acre_symm_buffer(symm, 0, (size_t)-8, 8, &at), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_symm_pad(symm, 0, 4, 0, 0, &at, &count));
    EXPECT_EQ(count, 9216 / 4);
    REQUIRE_OK(acre_symm_pad(symm, 0, 8, 0, 0, &at, &count));
    EXPECT_EQ(count, 9216 / 8);
    REQUIRE_OK(acre_symm_pad(symm, 0, 4, 0, 64, &at, &count));
    EXPECT_EQ(count, 64);
    REQUIRE_OK(acre_symm_set_pad_bytes(1 << 20));
    EXPECT_EQ(acre_symm_pad(symm, 0, 4, 0, 2305, &at, NULL), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_symm_set_pad_bytes(0));
    EXPECT_EQ(acre_symm_pad(symm, 1, 4, 0, 1, &at, NULL), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_symm_pad(symm, -1, 4, 0, 1, &at, NULL), ACRE_ERR_RANGE);
    acre_symm_release(symm);
    acre_symm_free(base);
    acre_group_destroy(group);
}

/* ---- Persistence and pools -------------------------------------------------------- */

static void persistent(struct rank *me)
{
    acre_symm_config config = {.struct_size = sizeof config, .has_id = 1, .alloc_id = 7};
    void *base, *again;
    acre_symm *symm;

    REQUIRE_OK(acre_symm_alloc(&config, 256, &base));
    EXPECT_EQ(acre_symm_alloc(&config, 256, &again), ACRE_ERR_BUSY);
    REQUIRE_OK(acre_symm_rendezvous(base, "world", &symm));
    acre_symm_release(symm);
    acre_symm_free(base);
    EXPECT(!acre_symm_contains(base));
    EXPECT_EQ(acre_symm_alloc(&config, 512, &again), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "256");
    EXPECT_HAS(acre_last_error(), "512");
    config.group = "world";
    EXPECT_EQ(acre_symm_alloc(&config, 256, &again), ACRE_ERR_INVALID);
    config.group = NULL;
    acre_device *device;
    REQUIRE_OK(acre_device_get(ACRE_DEVICE_PRIVATE, 0, &device));
    config.device = device;
    EXPECT_EQ(acre_symm_alloc(&config, 256, &again), ACRE_ERR_INVALID);
    config.device = NULL;
    REQUIRE_OK(acre_symm_alloc(&config, 256, &again));
    EXPECT_PTR_EQ(again, base);
    uint64_t epoch = me->group->epoch;
    REQUIRE_OK(acre_symm_rendezvous(base, "world", &symm));
    EXPECT_EQ(me->group->epoch, epoch);
    acre_symm_release(symm);
    acre_symm_free(base);
}

TEST(S78_S79_persistent_allocations)
{
    ranks_run(2, persistent);
}

TEST(S81_membership)
{
    char *base = alloc(100);
    int local;

    EXPECT(acre_symm_contains(base));
    EXPECT(acre_symm_contains(base + 99));
    EXPECT(!acre_symm_contains(base + 100));
    EXPECT(!acre_symm_contains(&local));
    EXPECT(!acre_symm_contains(NULL));
    acre_symm_free(base);
    EXPECT(!acre_symm_contains(base));
}

T_MAIN()
