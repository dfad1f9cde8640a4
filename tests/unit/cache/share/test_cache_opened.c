/* SPDX-License-Identifier: MIT */
/* The handles that are open in a process (B134, W15, W16). */
#include "cache/share/import.h"

#include "base/process/service.h"
#include "tests/support/share_bed.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

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

/* W15: an offer that is not what it says is refused, whatever it says. */
static acre_status page_fd(void *arg, uint32_t index, int *out_fd)
{
    int fd = memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    (void)index;
    EXPECT_EQ(ftruncate(fd, (off_t)*(size_t *)arg), 0);
    EXPECT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    *out_fd = fd;
    return ACRE_OK;
}

static acre_status open_false(struct share_bed *bed, uint64_t page_bytes, uint64_t page_count,
                              uint32_t fd_total, size_t file_bytes, const char *kind)
{
    struct share_note note = {.page_bytes = page_bytes, .page_count = page_count};
    struct offer_terms terms = {.fd_total = fd_total, .note_bytes = sizeof note,
                                .fd_at = page_fd, .arg = &file_bytes};
    uint8_t handle[SHARE_HANDLE_BYTES] = {SHARE_VERSION, SHARE_PAGES};
    struct offer *offer;
    uint64_t bytes;
    void *base;

    strncpy(note.kind, kind, sizeof note.kind);
    memcpy(terms.note, &note, sizeof note);
    REQUIRE_OK(offer_create(&terms, &offer));
    offer_ticket(offer, handle + 2);
    acre_status status = acre_share_open(bed->device, handle, sizeof handle, &base, &bytes);
    if (status == ACRE_OK)
        REQUIRE_OK(acre_share_close(bed->device, base));
    offer_destroy(offer);
    return status;
}

TEST(W15_what_an_exporter_says_is_not_trusted)
{
    struct share_bed bed = share_bed_open("memory:64MiB", ACRE_POLICY_TORCH, NULL);
    const uint64_t page = 2 * MIB;

#define FALSE(...) EXPECT_EQ(open_false(&bed, __VA_ARGS__), ACRE_ERR_FORMAT)
    EXPECT_EQ(open_false(&bed, page, 3, 3, page, SHARE_NOTE_KIND), ACRE_OK);
    FALSE(0, 3, 3, page, SHARE_NOTE_KIND);          /* would divide by zero        */
    FALSE(page + 512, 3, 3, page, SHARE_NOTE_KIND); /* no pages of this device     */
    FALSE(page, 0, 0, page, SHARE_NOTE_KIND);
    FALSE(page, 4, 3, page, SHARE_NOTE_KIND);       /* more than descriptors       */
    FALSE(page, 2, 3, page, SHARE_NOTE_KIND);
    FALSE(page, UINT64_MAX / 2, 3, page, SHARE_NOTE_KIND);
    FALSE(2 * page, 3, 3, page, SHARE_NOTE_KIND);   /* files of another size       */
    FALSE(page, 3, 3, 2 * page, SHARE_NOTE_KIND);
    FALSE(page, 3, 3, page, "other");
    EXPECT_EQ(open_false(&bed, page, 3, 3, page + 4096, SHARE_NOTE_KIND), ACRE_ERR_INVALID);
    share_bed_close(&bed);
}

/* A ticket of pages is not one of plain memory, and the other way round. */
TEST(kinds_are_not_mixed_up)
{
    struct share_bed bed = share_bed_open("memory:64MiB", ACRE_POLICY_TORCH,
                                          "expandable_segments:True");
    char *a = share_bed_alloc(&bed, 4096, 'a');
    struct parcel pages = share_bed_export(&bed, a);
    void *plain, *base;
    uint64_t bytes;
    uint8_t handle[66] = {3, 'p'};

    pages.handle[1] = 'c';
    EXPECT_EQ(acre_share_open(bed.device, pages.handle, 66, &base, &bytes), ACRE_ERR_FORMAT);
    REQUIRE_OK(acre_device_alloc(bed.device, 4096, &plain));
    REQUIRE_OK(acre_ipc_export(bed.device, plain, handle + 2));
    EXPECT_EQ(acre_share_open(bed.device, handle, 66, &base, &bytes), ACRE_ERR_FORMAT);
    REQUIRE_OK(acre_device_free(bed.device, plain));
    share_bed_users(&bed, a, 0);
    REQUIRE_OK(acre_cache_free(bed.cache, a));
    share_bed_close(&bed);
}

/* Each host allocation, then each call of the device, fails once during export,
 * opening and closing. */
static acre_status whole_way(struct share_bed *bed, const char *a)
{
    struct parcel parcel;
    void *base;
    uint64_t bytes;
    acre_status status = acre_share_export(bed->cache, a, parcel.handle, 66, &parcel.bytes,
                                           &parcel.offset);

    if (status != ACRE_OK)
        return status;
    status = acre_share_open(bed->device, parcel.handle, 66, &base, &bytes);
    if (status != ACRE_OK)
        return status;
    EXPECT(share_bed_has(bed, (char *)base + parcel.offset, 'a', 5 * MIB));
    return acre_share_close(bed->device, base);
}

static bool fail_once(const char *conf, int kind, uint64_t nth)
{
    struct share_bed bed = share_bed_open("memory:64MiB", ACRE_POLICY_TORCH, conf);
    char *a = share_bed_alloc(&bed, 5 * MIB, 'a');
    acre_sim_fault fault = {.struct_size = sizeof fault, .call = kind == 1 ? ACRE_SIM_EXPORT
                                    : kind == 2 ? ACRE_SIM_IMPORT : ACRE_SIM_MAP,
                            .nth = nth, .status = ACRE_ERR_DEVICE};
    bool was_failed;

    if (kind)
        REQUIRE_OK(acre_sim_fault_arm(bed.sim.backend, &fault));
    else
        heap_fail_nth(nth);
    acre_status status = whole_way(&bed, a);
    was_failed = kind ? acre_sim_fault_disarm(bed.sim.backend) > 0 : heap_fail_disarm();
    if (!was_failed)
        EXPECT_EQ(status, ACRE_OK);
    else if (kind == 0)
        EXPECT_EQ(status, ACRE_ERR_HOST_MEMORY);
    else /* the exporter's service answers for its own device */
        EXPECT(status == ACRE_ERR_DEVICE || status == ACRE_ERR_PEER);
    EXPECT(share_bed_has(&bed, a, 'a', 5 * MIB));
    EXPECT_EQ(whole_way(&bed, a), ACRE_OK);
    REQUIRE_OK(acre_cache_free(bed.cache, a));
    share_bed_settle(&bed, 0);
    share_bed_close(&bed);
    return was_failed;
}

TEST(a_failed_call_leaves_nothing_and_may_be_tried_again)
{
    for (int kind = 0; kind < 4; kind++) {
        for (uint64_t nth = 1; fail_once(NULL, kind, nth); nth++)
            ;
        for (uint64_t nth = 1; fail_once("expandable_segments:True,large_segment_size_mb:20",
                                         kind, nth); nth++)
            ;
    }
}

T_MAIN()
