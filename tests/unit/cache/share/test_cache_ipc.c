/* SPDX-License-Identifier: MIT */
/* Exporting blocks of a cache (B134), and what becomes of blocks that others have
 * open. */
#include "cache/share/shares.h"

#include "tests/support/lab.h"
#include "tests/support/share_bed.h"
#include "tests/support/sim_rig.h"
#include "tests/support/wrap.h"

/* Kinds of memory: plain under both policies, pages. */
static const struct {
    acre_policy policy;
    const char *conf;
} kinds[] = {{ACRE_POLICY_TORCH, NULL},
             {ACRE_POLICY_ACRE, NULL},
             {ACRE_POLICY_TORCH, "expandable_segments:True"}};
#define FOR_EACH_KIND(it) for (size_t it = 0; it < sizeof kinds / sizeof kinds[0]; it++)
#define OPEN_KIND(it) share_bed_open("memory:64MiB", kinds[it].policy, kinds[it].conf)

TEST(B134_a_plain_handle_is_66_bytes_and_the_offset_counts_from_the_segment)
{
    struct share_bed bed = share_bed_open("memory:64MiB", ACRE_POLICY_TORCH, NULL);
    char *a = share_bed_alloc(&bed, 3 * MIB, 'a'), *b = share_bed_alloc(&bed, 2 * MIB, 'b');
    struct parcel first = share_bed_export(&bed, a), second = share_bed_export(&bed, b);
    void *base, *segment;
    uint64_t bytes;

    REQUIRE_OK(acre_cache_base(bed.cache, b, &segment, &bytes));
    EXPECT_PTR_EQ(segment, a);
    EXPECT_EQ(first.bytes, 66);
    EXPECT_EQ(first.handle[0], 3);
    EXPECT_EQ(first.handle[1], 'c');
    EXPECT_EQ(first.offset, 0);
    EXPECT_EQ(second.offset, 3145728);
    char *there = share_bed_import(&bed, &second, &base);
    EXPECT(share_bed_has(&bed, there, 'b', 2 * MIB));
    EXPECT(share_bed_has(&bed, base, 'a', 3 * MIB));
    REQUIRE_OK(acre_share_close(bed.device, base));
    REQUIRE_OK(acre_cache_free(bed.cache, a));
    REQUIRE_OK(acre_cache_free(bed.cache, b));
    share_bed_settle(&bed, 0);
    share_bed_close(&bed);
}

TEST(an_offset_in_a_block_can_be_exported)
{
    FOR_EACH_KIND(i) {
        struct share_bed bed = OPEN_KIND(i);
        char *a = share_bed_alloc(&bed, 3 * MIB, 'a');
        struct parcel whole = share_bed_export(&bed, a);
        struct parcel inside = share_bed_export(&bed, a + 1000001);
        void *base;

        EXPECT_EQ(inside.offset, whole.offset + 1000001);
        EXPECT(memcmp(whole.handle, inside.handle, sizeof whole.handle) == 0);
        share_bed_fill(&bed, a + 1000001, 'q', 1);
        char *there = share_bed_import(&bed, &inside, &base);
        EXPECT(share_bed_has(&bed, there, 'q', 1));
        EXPECT(share_bed_has(&bed, there + 1, 'a', 100));
        REQUIRE_OK(acre_share_close(bed.device, base));
        share_bed_users(&bed, a, 0);
        REQUIRE_OK(acre_cache_free(bed.cache, a));
        EXPECT_EQ(share_bed_active(&bed), 0); /* nobody has it open: at once */
        share_bed_close(&bed);
    }
}

/* A free that fails changes nothing: what was exported can still be opened. */
TEST(a_failed_free_keeps_the_export)
{
    acre_sim_fault fault = {.struct_size = sizeof fault, .call = ACRE_SIM_EVENT_RECORD, .nth = 1};

    FOR_EACH_KIND(i) {
        struct share_bed bed = OPEN_KIND(i);
        char *a = share_bed_alloc(&bed, 3 * MIB, 'a');
        struct parcel parcel = share_bed_export(&bed, a);
        void *base, *stream;

        REQUIRE_OK(acre_stream_native_create(bed.device, 0, 0, &stream));
        REQUIRE_OK(acre_cache_record_stream(bed.cache, a, stream));
        REQUIRE_OK(acre_sim_fault_arm(bed.sim.backend, &fault));
        EXPECT_EQ(acre_cache_free(bed.cache, a), ACRE_ERR_DEVICE);
        EXPECT_EQ(acre_sim_fault_disarm(bed.sim.backend), 1);
        char *there = share_bed_import(&bed, &parcel, &base);
        EXPECT(share_bed_has(&bed, there, 'a', 3 * MIB));
        REQUIRE_OK(acre_share_close(bed.device, base));
        share_bed_users(&bed, a, 0);
        REQUIRE_OK(acre_cache_free(bed.cache, a));
        EXPECT(acre_share_open(bed.device, parcel.handle, parcel.bytes, &base, NULL) != ACRE_OK);
        share_bed_settle(&bed, 0);
        REQUIRE_OK(acre_stream_native_destroy(bed.device, stream));
        share_bed_close(&bed);
    }
}

/* Frees a block that a stream uses while a capture of that stream is under way, with the n-th
 * allocation of host memory failing. */
static acre_status free_in_capture(struct share_bed *bed, void *pointer, void *stream, uint64_t nth)
{
    void *graph;

    REQUIRE_OK(acre_capture_begin(bed->device, stream));
    REQUIRE_OK(acre_capture_mark_begin(bed->cache, stream));
    heap_fail_nth(nth);
    acre_status status = acre_cache_free(bed->cache, pointer);
    EXPECT_EQ(status, heap_fail_disarm() ? ACRE_ERR_HOST_MEMORY : ACRE_OK);
    REQUIRE_OK(acre_capture_mark_end(bed->cache, stream));
    REQUIRE_OK(acre_capture_end(bed->device, stream, &graph));
    REQUIRE_OK(acre_graph_destroy(bed->device, graph));
    return status;
}

TEST(a_failed_free_in_a_capture_keeps_the_export)
{
    FOR_EACH_KIND(i) {
        struct share_bed bed = OPEN_KIND(i);
        char *a = share_bed_alloc(&bed, 3 * MIB, 'a');
        struct parcel parcel = share_bed_export(&bed, a);
        void *base, *stream;
        uint64_t nth = 1;

        REQUIRE_OK(acre_stream_native_create(bed.device, 0, 0, &stream));
        REQUIRE_OK(acre_cache_record_stream(bed.cache, a, stream));
        for (; free_in_capture(&bed, a, stream, nth) != ACRE_OK; nth++) {
            REQUIRE(nth < 20);
            char *there = share_bed_import(&bed, &parcel, &base);
            EXPECT(share_bed_has(&bed, there, 'a', 3 * MIB));
            REQUIRE_OK(acre_share_close(bed.device, base));
            share_bed_users(&bed, a, 0);
        }
        EXPECT_GT(nth, 1); /* it failed once */
        EXPECT(acre_share_open(bed.device, parcel.handle, parcel.bytes, &base, NULL) != ACRE_OK);
        share_bed_settle(&bed, 0);
        REQUIRE_OK(acre_stream_native_destroy(bed.device, stream));
        share_bed_close(&bed);
    }
}

/* Restores a pool that may not be divided again, for one reason or the other. */
static void refuse_restore(acre_policy policy, bool is_open)
{
    struct share_bed bed = share_bed_open("memory:64MiB", policy, NULL);
    acre_pool_id id = acre_pool_id_next();
    acre_pool_state *state;
    void *stream, *base = NULL, *other, *again;

    REQUIRE_OK(acre_stream_native_create(bed.device, 0, 0, &stream));
    REQUIRE_OK(acre_pool_create(bed.cache, id, NULL));
    REQUIRE_OK(acre_pool_begin(bed.cache, id, NULL));
    char *shared = share_bed_alloc(&bed, 3 * MIB, 's'), *used = share_bed_alloc(&bed, MIB, 'u');
    REQUIRE_OK(acre_pool_end(bed.cache, id));
    REQUIRE_OK(acre_pool_save(bed.cache, id, &state));
    struct parcel parcel = share_bed_export(&bed, shared);
    if (is_open)
        EXPECT(share_bed_has(&bed, share_bed_import(&bed, &parcel, &base), 's', 100));
    else
        REQUIRE_OK(acre_cache_record_stream(bed.cache, used, stream));
    EXPECT_EQ(acre_pool_restore(bed.cache, state, NULL), ACRE_ERR_STATE);
    /* Nothing has changed: */
    EXPECT(share_bed_has(&bed, share_bed_import(&bed, &parcel, &other), 's', 100));
    REQUIRE_OK(acre_share_close(bed.device, other));
    if (base)
        REQUIRE_OK(acre_share_close(bed.device, base));
    share_bed_users(&bed, shared, 0);
    REQUIRE_OK(acre_cache_free(bed.cache, used));
    REQUIRE_OK(acre_device_synchronize(bed.device));
    share_bed_settle(&bed, 1);
    REQUIRE_OK(acre_pool_restore(bed.cache, state, NULL));
    EXPECT(acre_share_open(bed.device, parcel.handle, parcel.bytes, &again, NULL) != ACRE_OK);
    REQUIRE_OK(acre_cache_free(bed.cache, shared));
    REQUIRE_OK(acre_cache_free(bed.cache, used));
    acre_pool_state_destroy(state);
    REQUIRE_OK(acre_pool_release(bed.cache, id));
    REQUIRE_OK(acre_stream_native_destroy(bed.device, stream));
    share_bed_close(&bed);
}

TEST(a_refused_restore_keeps_the_exports)
{
    for (int is_open = 0; is_open < 2; is_open++) {
        refuse_restore(ACRE_POLICY_TORCH, is_open);
        refuse_restore(ACRE_POLICY_ACRE, is_open);
    }
}

/* Pages: 2 MiB in the small pool, 20 MiB in the large one. */
TEST(pages_around_a_block_are_shared)
{
    struct share_bed bed = share_bed_open("memory:64MiB", ACRE_POLICY_TORCH,
                                          "expandable_segments:True");
    char *small = share_bed_alloc(&bed, 4096, 's'), *large = share_bed_alloc(&bed, 39 * MIB, 'l');
    struct parcel a = share_bed_export(&bed, small), b = share_bed_export(&bed, large);
    uint64_t bytes;
    void *base;

    EXPECT_EQ(a.handle[0], 3);
    EXPECT_EQ(a.handle[1], 'p');
    REQUIRE_OK(acre_share_open(bed.device, a.handle, a.bytes, &base, &bytes));
    EXPECT_EQ(bytes, 2 * MIB);
    EXPECT(share_bed_has(&bed, (char *)base + a.offset, 's', 4096));
    REQUIRE_OK(acre_share_close(bed.device, base));
    REQUIRE_OK(acre_share_open(bed.device, b.handle, b.bytes, &base, &bytes));
    EXPECT_EQ(bytes, 40 * MIB);
    EXPECT(share_bed_has(&bed, (char *)base + b.offset, 'l', 39 * MIB));
    share_bed_fill(&bed, (char *)base + b.offset + 30 * MIB, 'm', MIB);
    EXPECT(share_bed_has(&bed, large + 30 * MIB, 'm', MIB));
    EXPECT_EQ(bed_usage(&bed.sim).bytes_used, 42 * MIB);
    REQUIRE_OK(acre_share_close(bed.device, base));
    REQUIRE_OK(acre_cache_free(bed.cache, small));
    REQUIRE_OK(acre_cache_free(bed.cache, large));
    share_bed_settle(&bed, 0);
    share_bed_close(&bed);
}

/* W14: pages of a type that is no descriptor are never taken for one. */
TEST(W14_pages_that_do_not_travel_are_refused_and_released)
{
    struct share_bed bed =
        share_bed_open("memory:64MiB", ACRE_POLICY_TORCH,
                       "expandable_segments:True,expandable_segments_handle_type:none");
    char *a = share_bed_alloc(&bed, 4096, 'a');
    uint8_t handle[66];
    size_t bytes;
    uint64_t offset;

    EXPECT_EQ(acre_share_export(bed.cache, a, handle, sizeof handle, &bytes, &offset),
              ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "descriptor");
    REQUIRE_OK(acre_cache_free(bed.cache, a));
    REQUIRE_OK(acre_cache_empty(bed.cache));
    EXPECT_EQ(bed_usage(&bed.sim).bytes_used, 0);
    share_bed_close(&bed);
}

TEST(a_freed_block_that_others_have_open_is_not_used_again)
{
    FOR_EACH_KIND(i) {
        struct share_bed bed = OPEN_KIND(i);
        char *a = share_bed_alloc(&bed, 3 * MIB, 'a'), *next[8];
        struct parcel parcel = share_bed_export(&bed, a);
        uint64_t bytes;
        void *base, *again;

        char *there = share_bed_import(&bed, &parcel, &base);
        share_bed_users(&bed, a, 1);
        REQUIRE_OK(acre_cache_free(bed.cache, a));
        EXPECT_EQ(acre_cache_free(bed.cache, a), ACRE_ERR_INVALID);
        EXPECT_EQ(share_bed_active(&bed), 1);
        EXPECT_EQ(acre_share_users(bed.cache, a, &bytes), ACRE_ERR_INVALID);
        for (int j = 0; j < 8; j++) {
            next[j] = share_bed_alloc(&bed, 3 * MIB, 'n');
            EXPECT(next[j] + 3 * MIB <= a || next[j] >= a + 3 * MIB);
        }
        REQUIRE_OK(acre_cache_check(bed.cache));
        REQUIRE_OK(acre_cache_empty(bed.cache));
        EXPECT(share_bed_has(&bed, there, 'a', 3 * MIB));
        /* The same bytes are still open here, so that is what one gets; others
         * are told that it is over. */
        uint8_t *bare = parcel.handle + 2;
        if (parcel.handle[1] == 'c')
            EXPECT_EQ(acre_share_open(bed.device, bare, 64, &again, &bytes), ACRE_ERR_NOT_FOUND);
        REQUIRE_OK(acre_share_close(bed.device, base));
        for (int j = 0; j < 8; j++)
            REQUIRE_OK(acre_cache_free(bed.cache, next[j]));
        share_bed_settle(&bed, 0);
        EXPECT_EQ(acre_share_open(bed.device, parcel.handle, parcel.bytes, &again, &bytes),
                  ACRE_ERR_NOT_FOUND);
        share_bed_close(&bed);
    }
}

TEST(a_block_waits_for_streams_and_for_others)
{
    FOR_EACH_KIND(i) {
        struct share_bed bed = OPEN_KIND(i);
        char *a = share_bed_alloc(&bed, MIB, 'a');
        struct parcel parcel = share_bed_export(&bed, a);
        void *base, *stream;

        REQUIRE_OK(acre_stream_native_create(bed.device, 0, 0, &stream));
        share_bed_import(&bed, &parcel, &base);
        REQUIRE_OK(acre_cache_record_stream(bed.cache, a, stream));
        REQUIRE_OK(acre_fill_async(bed.device, a, 1, MIB, stream));
        REQUIRE_OK(acre_cache_free(bed.cache, a));
        REQUIRE_OK(acre_stream_native_synchronize(bed.device, stream));
        REQUIRE_OK(acre_cache_empty(bed.cache));
        EXPECT_EQ(share_bed_active(&bed), 1);
        REQUIRE_OK(acre_share_close(bed.device, base));
        share_bed_settle(&bed, 0);
        REQUIRE_OK(acre_stream_native_destroy(bed.device, stream));
        share_bed_close(&bed);
    }
}

TEST(a_block_exported_again_after_a_free_has_another_handle)
{
    FOR_EACH_KIND(i) {
        struct share_bed bed = OPEN_KIND(i);
        char *a = share_bed_alloc(&bed, MIB, 'a');
        struct parcel first = share_bed_export(&bed, a), again = share_bed_export(&bed, a);
        void *base;
        uint64_t bytes;

        EXPECT(memcmp(first.handle, again.handle, sizeof first.handle) == 0);
        REQUIRE_OK(acre_cache_free(bed.cache, a));
        char *b = share_bed_alloc(&bed, MIB, 'b');
        EXPECT_PTR_EQ(a, b);
        struct parcel second = share_bed_export(&bed, b);
        EXPECT(memcmp(first.handle, second.handle, sizeof first.handle) != 0);
        EXPECT_EQ(acre_share_open(bed.device, first.handle, first.bytes, &base, &bytes),
                  ACRE_ERR_NOT_FOUND); /* replayed */
        REQUIRE_OK(acre_cache_free(bed.cache, b));
        share_bed_close(&bed);
    }
}

TEST(what_cannot_be_exported_is_refused)
{
    FOR_EACH_KIND(i) {
        struct share_bed bed = OPEN_KIND(i);
        uint8_t handle[66];
        size_t bytes;
        uint64_t offset, count = 9;
        char *a = share_bed_alloc(&bed, 1000, 'a'), *b = share_bed_alloc(&bed, 1000, 'b');
        void *direct;

#define EXPORT(cache, pointer, room) \
    acre_share_export(cache, pointer, handle, room, &bytes, &offset)
        EXPECT_EQ(EXPORT(NULL, a, 66), ACRE_ERR_INVALID);
        EXPECT_EQ(EXPORT(bed.cache, NULL, 66), ACRE_ERR_INVALID);
        EXPECT_EQ(EXPORT(bed.cache, &bed, 66), ACRE_ERR_INVALID);
        EXPECT_EQ(EXPORT(bed.cache, a, 65), ACRE_ERR_INVALID);
        REQUIRE_OK(acre_cache_free(bed.cache, b));
        EXPECT_EQ(EXPORT(bed.cache, b, 66), ACRE_ERR_INVALID);
        EXPECT_HAS(acre_last_error(), "invalid device pointer");
        REQUIRE_OK(acre_share_users(bed.cache, a, &count));
        EXPECT_EQ(count, 0);
        acre_cache_enable(bed.cache, false);
        REQUIRE_OK(acre_cache_alloc(bed.cache, 4096, NULL, &direct));
        EXPECT_EQ(EXPORT(bed.cache, direct, 66), ACRE_ERR_UNSUPPORTED);
        REQUIRE_OK(acre_cache_free(bed.cache, direct));
        acre_cache_enable(bed.cache, true);
        REQUIRE_OK(acre_cache_free(bed.cache, a));
        share_bed_close(&bed);
    }
}

TEST(a_device_without_ipc_says_so)
{
    struct lab lab;
    uint8_t handle[66];
    size_t bytes;
    uint64_t offset;

    lab_open(&lab, NULL);
    void *a = lab_alloc(&lab, 4096);
    EXPECT_EQ(acre_share_export(lab.cache, a, handle, sizeof handle, &bytes, &offset),
              ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "ipc");
    lab_free(&lab, a);
    lab_close(&lab);
}

TEST(a_cache_ends_with_blocks_open_elsewhere)
{
    FOR_EACH_KIND(i) {
        struct share_bed bed = OPEN_KIND(i);
        char *a = share_bed_alloc(&bed, MIB, 'a'), *b = share_bed_alloc(&bed, MIB, 'b');
        struct parcel first = share_bed_export(&bed, a), second = share_bed_export(&bed, b);
        void *bases[2];

        char *there = share_bed_import(&bed, &first, &bases[0]);
        share_bed_import(&bed, &second, &bases[1]);
        REQUIRE_OK(acre_cache_free(bed.cache, b)); /* one waits, one is live */
        acre_cache_destroy(bed.cache);
        EXPECT(share_bed_has(&bed, there, 'a', MIB));
        REQUIRE_OK(acre_share_close(bed.device, bases[0]));
        REQUIRE_OK(acre_share_close(bed.device, bases[1]));
        bed_close(&bed.sim);
    }
}

/* Export of a block that another thread frees at the same moment: one of both is
 * first, and nothing is lost. */
static void *free_it(void *arg)
{
    void **pair = arg;

    EXPECT_EQ(acre_cache_free(pair[0], pair[1]), ACRE_OK);
    return NULL;
}

TEST(export_and_free_may_meet)
{
    FOR_EACH_KIND(i) {
        struct share_bed bed = OPEN_KIND(i);
        for (int j = 0; j < 100; j++) {
            struct parcel parcel;
            void *pair[2] = {bed.cache, NULL};
            pthread_t thread;

            REQUIRE_OK(acre_cache_alloc(bed.cache, 4096, NULL, &pair[1]));
            REQUIRE(pthread_create(&thread, NULL, free_it, pair) == 0);
            acre_status status = acre_share_export(bed.cache, pair[1], parcel.handle, 66,
                                                   &parcel.bytes, &parcel.offset);
            EXPECT(status == ACRE_OK || status == ACRE_ERR_INVALID);
            pthread_join(thread, NULL);
            EXPECT_EQ(share_bed_active(&bed), 0);
        }
        share_bed_close(&bed);
    }
}

/* ---- Copies between devices (B135) ------------------------------------------------------ */

struct paths {
    int plain, peer;
};

static acre_status note_path(void *arg, enum wrap_entry entry)
{
    struct paths *paths = arg;

    paths->plain += entry == WRAP_copy_async;
    paths->peer += entry == WRAP_copy_peer_async;
    return ACRE_OK;
}

/* Copies a byte from one device to the other and tells by which way: 'c' plain, 'p'
 * between peers. */
static char path_of(struct paths *paths, acre_device *const devices[2], void *const blocks[2],
                    bool p2p)
{
    *paths = (struct paths){0, 0};
    REQUIRE_OK(acre_memcpy_async(blocks[1], devices[1], blocks[0], devices[0], 512, NULL, p2p));
    EXPECT_EQ(acre_device_synchronize(devices[0]), ACRE_OK);
    EXPECT_EQ(paths->plain + paths->peer, 1);
    return paths->plain ? 'c' : 'p';
}

/* Both ways run on the default stream of the source, behind what is queued there, and waiting
 * for the source is enough. */
TEST(B135_a_copy_without_a_stream_is_in_the_order_of_the_source)
{
    struct sim_bed sim = bed_open("devices:2,memory:256MiB,peers:none");
    acre_cache_config config = {.struct_size = sizeof config, .policy = ACRE_POLICY_TORCH,
                                .flags = ACRE_CACHE_NO_ENVIRONMENT};
    acre_device *devices[2];
    acre_cache *caches[2];
    void *blocks[2];

    for (int is_mapped = 0; is_mapped < 2; is_mapped++) {
        struct rig_gate gate = RIG_GATE_INITIALIZER;
        char seen[512], zero[512] = {0};
        config.conf = is_mapped ? "expandable_segments:True" : NULL;
        for (int i = 0; i < 2; i++) {
            REQUIRE_OK(acre_backend_device(sim.backend, i, &devices[i]));
            REQUIRE_OK(acre_cache_create(devices[i], &config, &caches[i]));
            REQUIRE_OK(acre_cache_alloc(caches[i], 512, NULL, &blocks[i]));
            REQUIRE_OK(acre_copy(devices[i], blocks[i], zero, 512, ACRE_COPY_HOST_TO_DEVICE));
        }
        REQUIRE_OK(acre_launch_host(devices[0], NULL, rig_gate_task, &gate));
        REQUIRE_OK(acre_fill_async(devices[0], blocks[0], 'x', 512, NULL));
        REQUIRE_OK(acre_memcpy_async(blocks[1], devices[1], blocks[0], devices[0], 512, NULL,
                                     false));
        EXPECT_EQ(acre_stream_native_query(devices[0], NULL), ACRE_ERR_NOT_READY);
        EXPECT_EQ(acre_stream_native_query(devices[1], NULL), ACRE_OK); /* nothing is there */
        rig_gate_open(&gate);
        REQUIRE_OK(acre_device_synchronize(devices[0]));
        REQUIRE_OK(acre_copy(devices[1], seen, blocks[1], 512, ACRE_COPY_DEVICE_TO_HOST));
        EXPECT(seen[0] == 'x' && seen[511] == 'x');
        for (int i = 0; i < 2; i++)
            acre_cache_destroy(caches[i]);
    }
    bed_close(&sim);
}

TEST(B135_a_copy_goes_the_right_way)
{
    struct sim_bed sim = bed_open("devices:2,memory:256MiB,peers:none");
    struct wrap_config shape = {.name = "watched", .type = ACRE_DEVICE_PRIVATE,
                                .flags = ACRE_BACKEND_NULL_STREAM};
    acre_cache_config config = {.struct_size = sizeof config, .policy = ACRE_POLICY_TORCH,
                                .flags = ACRE_CACHE_NO_ENVIRONMENT};
    struct paths paths = {0, 0};
    acre_backend *watched;
    acre_device *devices[2];
    acre_cache *caches[2];
    void *plain[2], *mapped[2], *far[2];

    REQUIRE_OK(wrap_create(sim.backend, &shape, note_path, NULL, &paths, &watched));
    for (int i = 0; i < 2; i++) {
        REQUIRE_OK(acre_backend_device(watched, i, &devices[i]));
        REQUIRE_OK(acre_cache_create(devices[i], &config, &caches[i]));
        REQUIRE_OK(acre_cache_alloc(caches[i], 512, NULL, &plain[i]));
        REQUIRE_OK(acre_cache_conf_set(caches[i], "expandable_segments:True"));
    }
    far[0] = plain[0];
    far[1] = plain[1];
    EXPECT_EQ(path_of(&paths, devices, plain, false), 'c');
    EXPECT_EQ(path_of(&paths, devices, plain, true), 'c');
    for (int i = 0; i < 2; i++) { /* it does not matter on which side */
        REQUIRE_OK(acre_cache_alloc(caches[i], 3 * MIB, NULL, &mapped[i]));
        far[i] = mapped[i];
        EXPECT_EQ(path_of(&paths, devices, far, false), 'p');
        EXPECT_EQ(path_of(&paths, devices, plain, true), 'c');
        far[i] = plain[i];
        acre_device *const same[2] = {devices[i], devices[i]};
        void *const within[2] = {mapped[i], plain[i]};
        EXPECT_EQ(path_of(&paths, same, within, false), 'c');
        REQUIRE_OK(acre_cache_free(caches[i], mapped[i]));
        EXPECT_EQ(path_of(&paths, devices, plain, false), 'p'); /* still there */
        REQUIRE_OK(acre_cache_empty(caches[i]));
        EXPECT_EQ(path_of(&paths, devices, plain, false), 'c'); /* gone */
    }
    EXPECT_EQ(acre_memcpy_async(plain[1], NULL, plain[0], devices[0], 1, NULL, true),
              ACRE_ERR_INVALID);
    for (int i = 0; i < 2; i++)
        acre_cache_destroy(caches[i]);
    acre_backend_unregister(watched);
    bed_close(&sim);
}

T_MAIN()
