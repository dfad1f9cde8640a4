/* SPDX-License-Identifier: MIT */
/* The handles that are open in a process (B134, W15, W16). */
#include "cache/import.h"

#include "tests/support/share_bed.h"

#include <pthread.h>

TEST(B134_the_same_bytes_are_opened_once_and_closed_with_the_last)
{
    struct share_bed bed = share_bed_open("memory:64MiB", ACRE_POLICY_TORCH, NULL);
    char *a = share_bed_alloc(&bed, 3 * MIB, 'a');
    struct parcel parcel = share_bed_export(&bed, a);
    void *first, *second, *bare;
    uint64_t bytes;

    share_bed_import(&bed, &parcel, &first);
    share_bed_import(&bed, &parcel, &second);
    EXPECT_PTR_EQ(first, second);
    share_bed_users(&bed, a, 1);
    /* The bare 64 bytes are accepted, but cached apart. */
    REQUIRE_OK(acre_share_open(bed.device, parcel.handle + 2, 64, &bare, &bytes));
    EXPECT(bare != first);
    share_bed_users(&bed, a, 2);
    REQUIRE_OK(acre_share_close(bed.device, bare));
    share_bed_users(&bed, a, 1);
    REQUIRE_OK(acre_share_close(bed.device, first));
    EXPECT(share_bed_has(&bed, second, 'a', 3 * MIB));
    share_bed_users(&bed, a, 1);
    REQUIRE_OK(acre_share_close(bed.device, second));
    share_bed_users(&bed, a, 0);
    EXPECT_EQ(acre_share_close(bed.device, second), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "closed already");
    REQUIRE_OK(acre_cache_free(bed.cache, a));
    share_bed_close(&bed);
}

TEST(B134_bad_version_and_type_are_refused)
{
    struct share_bed bed = share_bed_open("memory:64MiB", ACRE_POLICY_TORCH, NULL);
    char *a = share_bed_alloc(&bed, 4096, 'a');
    struct parcel good = share_bed_export(&bed, a), bad = good;
    void *base = &bed;
    uint64_t bytes = 5;

    bad.handle[0] = 4;
    EXPECT_EQ(acre_share_open(bed.device, bad.handle, 66, &base, &bytes), ACRE_ERR_FORMAT);
    EXPECT_HAS(acre_last_error(), "version 4");
    bad.handle[0] = 3;
    bad.handle[1] = 'q';
    EXPECT_EQ(acre_share_open(bed.device, bad.handle, 66, &base, &bytes), ACRE_ERR_FORMAT);
    EXPECT_HAS(acre_last_error(), "kind 113");
    EXPECT_EQ(acre_share_open(bed.device, good.handle, 0, &base, &bytes), ACRE_ERR_FORMAT);
    bad.handle[0] = 0;
    bad.handle[1] = 'c';
    EXPECT_EQ(acre_share_open(bed.device, bad.handle, 66, &base, &bytes), ACRE_ERR_FORMAT);
    EXPECT_PTR_EQ(base, &bed);
    EXPECT_EQ(bytes, 5);
    EXPECT_EQ(acre_share_open(NULL, good.handle, 66, &base, &bytes), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_share_open(bed.device, NULL, 66, &base, &bytes), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_share_open(bed.device, good.handle, 66, NULL, &bytes), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_share_open(bed.device, good.handle, 66, &base, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_share_close(bed.device, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_share_close(bed.device, a), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_cache_free(bed.cache, a));
    share_bed_close(&bed);
}

/* W15: whatever happens to the bytes, an error and nothing left. */
TEST(W15_a_handle_that_was_cut_or_changed_is_refused)
{
    struct share_bed bed = share_bed_open("memory:64MiB", ACRE_POLICY_TORCH, NULL);
    char *a = share_bed_alloc(&bed, 4096, 'a');
    struct parcel good = share_bed_export(&bed, a);
    uint64_t bytes;
    void *base;

    for (size_t length = 0; length < 66; length++)
        EXPECT(acre_share_open(bed.device, good.handle, length, &base, &bytes) != ACRE_OK);
    for (size_t i = 0; i < 66; i++) {
        struct parcel bad = good;
        if (i == 0)
            continue; /* a lower version is accepted */
        bad.handle[i] ^= 0x15;
        EXPECT(acre_share_open(bed.device, bad.handle, 66, &base, &bytes) != ACRE_OK);
    }
    share_bed_users(&bed, a, 0);
    REQUIRE_OK(acre_cache_free(bed.cache, a));
    share_bed_close(&bed);
}

struct racer {
    struct share_bed *bed;
    const struct parcel *parcel;
};

static void *race(void *arg)
{
    struct racer *racer = arg;

    for (int i = 0; i < 100; i++) {
        void *base = NULL;
        uint64_t bytes = 0;
        char byte = 0;

        EXPECT_EQ(acre_share_open(racer->bed->device, racer->parcel->handle,
                                  racer->parcel->bytes, &base, &bytes), ACRE_OK);
        EXPECT_EQ(acre_copy(racer->bed->device, &byte, base, 1, ACRE_COPY_DEVICE_TO_HOST),
                  ACRE_OK);
        EXPECT_EQ(byte, 'r');
        EXPECT_EQ(acre_share_close(racer->bed->device, base), ACRE_OK);
    }
    return NULL;
}

/* W16: a thread never finds an entry whose last reference has just gone. */
TEST(W16_opening_meets_the_last_closing)
{
    struct share_bed bed = share_bed_open("memory:64MiB", ACRE_POLICY_TORCH, NULL);
    char *a = share_bed_alloc(&bed, 4096, 'r');
    struct parcel parcel = share_bed_export(&bed, a);
    struct racer racer = {&bed, &parcel};
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        REQUIRE(pthread_create(&threads[i], NULL, race, &racer) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    share_bed_users(&bed, a, 0);
    REQUIRE_OK(acre_cache_free(bed.cache, a));
    share_bed_close(&bed);
}

TEST(a_failed_opening_leaves_nothing_and_may_be_tried_again)
{
    for (uint64_t nth = 1;; nth++) {
        struct share_bed bed = share_bed_open("memory:64MiB", ACRE_POLICY_TORCH, NULL);
        char *a = share_bed_alloc(&bed, 4096, 'a');
        struct parcel parcel = share_bed_export(&bed, a);
        void *base;
        uint64_t bytes;

        heap_fail_nth(nth);
        acre_status status = acre_share_open(bed.device, parcel.handle, 66, &base, &bytes);
        bool was_failed = heap_fail_disarm();
        EXPECT_EQ(status, was_failed ? ACRE_ERR_HOST_MEMORY : ACRE_OK);
        if (status != ACRE_OK)
            REQUIRE_OK(acre_share_open(bed.device, parcel.handle, 66, &base, &bytes));
        REQUIRE_OK(acre_share_close(bed.device, base));
        REQUIRE_OK(acre_cache_free(bed.cache, a));
        share_bed_settle(&bed, 0);
        share_bed_close(&bed);
        if (!was_failed)
            break;
    }
}

T_MAIN()
