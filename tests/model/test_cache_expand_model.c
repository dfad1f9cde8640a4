/* SPDX-License-Identifier: MIT */
/* Expandable segments on a reference device with real memory: random work whose
 * contents are verified, while pages come and go. A page taken away too early, or
 * handed out twice, shows as wrong bytes or as a fault of the device. */
#include "base/bits.h"
#include "tests/support/dice.h"
#include "tests/support/standin_bed.h"
#include "tests/support/t.h"

#include <acre/cache.h>
#include <acre/sim.h>

#define STREAMS 3
#define LIVE_MAX 48
#define DEVICE_TEXT "160MiB"

struct piece {
    unsigned char *base;
    size_t bytes;
    int stream;
    unsigned char value;
};

static acre_backend *backend;
static acre_device *device, *peer;
static acre_cache *cache;
static void *streams[STREAMS];
static struct piece live[LIVE_MAX];
static int live_count;

static void open_model(const char *conf)
{
    acre_cache_config config = {.struct_size = sizeof config, .policy = ACRE_POLICY_TORCH,
                                .conf = conf, .flags = ACRE_CACHE_NO_ENVIRONMENT};

    dice_begin();
    live_count = 0;
    backend = ground_create("devices:2,memory:" DEVICE_TEXT);
    REQUIRE_OK(acre_backend_device(backend, 0, &device));
    REQUIRE_OK(acre_backend_device(backend, 1, &peer));
    for (int i = 1; i < STREAMS; i++)
        REQUIRE_OK(acre_stream_native_create(device, 0, 0, &streams[i]));
    REQUIRE_OK(acre_cache_create(device, &config, &cache));
}

static void close_model(void)
{
    REQUIRE_OK(acre_device_synchronize(device));
    acre_cache_destroy(cache);
    for (int i = 1; i < STREAMS; i++)
        REQUIRE_OK(acre_stream_native_destroy(device, streams[i]));
    acre_sim_usage usage = ground_usage(backend);
    EXPECT_EQ(usage.bytes_used, 0);
    EXPECT_EQ(usage.reserve_count, 0);
    EXPECT_EQ(usage.handle_count, 0);
    EXPECT_EQ(usage.map_count, 0);
    ground_destroy(backend);
}

static size_t random_size(void)
{
    static const size_t largest[] = {2048, 64 * KIB, MIB, MIB, MIB, 2 * MIB, 3 * MIB, 20 * MIB};

    return 1 + below(largest[below(8)]);
}

/* First, last and some byte in between, read by a copy on a stream. */
static void verify(const struct piece *piece, int stream)
{
    const size_t places[] = {0, piece->bytes - 1, below(piece->bytes)};

    for (int i = 0; i < 3; i++) {
        unsigned char got = 0;
        REQUIRE_OK(acre_copy_async(device, &got, piece->base + places[i], 1,
                                   ACRE_COPY_DEVICE_TO_HOST, streams[stream]));
        REQUIRE_OK(acre_stream_native_synchronize(device, streams[stream]));
        if (got != piece->value)
            t_fail(__FILE__, __LINE__, "byte %zu of %zu is %d, not %d", places[i], piece->bytes,
                   got, piece->value);
    }
}

static void run_alloc(void)
{
    struct piece piece = {.bytes = random_size(), .stream = (int)below(STREAMS),
                          .value = (unsigned char)below(256)};
    void *base;

    if (live_count == LIVE_MAX)
        return;
    acre_status status = acre_cache_alloc(cache, piece.bytes, streams[piece.stream], &base);
    if (status == ACRE_ERR_DEVICE_MEMORY)
        return;
    REQUIRE_EQ(status, ACRE_OK);
    piece.base = base;
    REQUIRE_OK(acre_fill_async(device, base, piece.value, piece.bytes, streams[piece.stream]));
    live[live_count++] = piece;
}

static void run_free(void)
{
    if (!live_count)
        return;
    int index = (int)below((uint64_t)live_count);
    struct piece piece = live[index];
    live[index] = live[--live_count];
    verify(&piece, piece.stream);
    if (below(4) == 0) { /* its last use is on another stream, which is not waited for */
        int other = (piece.stream + 1) % STREAMS;
        REQUIRE_OK(acre_cache_record_stream(cache, piece.base, streams[other]));
        REQUIRE_OK(acre_fill_async(device, piece.base, piece.value ^ 255, piece.bytes,
                                   streams[other]));
    } else if (below(2)) { /* queued work may outlive the free on its own stream */
        REQUIRE_OK(acre_fill_async(device, piece.base, piece.value ^ 255, piece.bytes,
                                   streams[piece.stream]));
    }
    REQUIRE_OK(acre_cache_free(cache, piece.base));
}

static void run_step(void)
{
    uint64_t dice = below(100);

    if (dice < 50)
        run_alloc();
    else if (dice < 94)
        run_free();
    else if (dice < 97)
        REQUIRE_OK(acre_cache_empty(cache));
    else if (dice < 98)
        REQUIRE_OK(acre_cache_conf_set(cache, below(3) ? "expandable_segments:True"
                                                       : "expandable_segments:False"));
    else if (live_count) {
        const struct piece *piece = &live[below((uint64_t)live_count)];
        verify(piece, piece->stream);
    }
}

static void run_model(const char *conf)
{
    uint64_t steps = t_count(1200, 100000 / t_slowness());

    open_model(conf);
    for (uint64_t step = 0; step < steps; step++) {
        run_step();
        if (step % 32 == 0)
            REQUIRE_OK(acre_cache_check(cache));
    }
    REQUIRE_OK(acre_device_synchronize(device)); /* others' streams read below */
    for (int i = 0; i < live_count; i++) {
        verify(&live[i], 0);
        REQUIRE_OK(acre_cache_free(cache, live[i].base));
    }
    REQUIRE_OK(acre_cache_empty(cache));
    close_model();
}

TEST(contents_survive_while_pages_come_and_go)
{
    run_model("expandable_segments:True,large_segment_size_mb:12");
}

TEST(contents_survive_with_unshareable_pages)
{
    run_model("expandable_segments:True,large_segment_size_mb:11,"
              "expandable_segments_handle_type:none");
}

TEST(the_reference_device_shares_pages_as_descriptors)
{
    acre_stream_segment_size found;
    uint64_t count;
    void *base;

    open_model("expandable_segments:True");
    REQUIRE_OK(acre_cache_alloc(cache, 3 * MIB, NULL, &base));
    REQUIRE_OK(acre_cache_stream_segment_sizes(cache, &found, 1, &count));
    EXPECT_EQ(count, 1);
    EXPECT(found.handle_type == ACRE_HANDLE_POSIX ||
           (ground_is_driver() && found.handle_type == ACRE_HANDLE_FABRIC));
    REQUIRE_OK(acre_cache_free(cache, base));
    close_model();
}

/* Whether the other device can write there. */
static bool peer_writes(void *base)
{
    acre_status status = acre_fill_async(peer, base, 77, 16, NULL);

    if (status == ACRE_OK)
        status = acre_device_synchronize(peer);
    return status == ACRE_OK;
}

TEST(peers_reach_existing_and_future_pages)
{
    unsigned char got = 0;
    void *before, *after;

    open_model("expandable_segments:True");
    REQUIRE_OK(acre_cache_alloc(cache, 3 * MIB, NULL, &before));
    EXPECT(!peer_writes(before));
    REQUIRE_OK(acre_cache_peer_enable(cache, peer));
    REQUIRE_OK(acre_cache_peer_enable(cache, peer));
    REQUIRE_OK(acre_cache_peer_enable(cache, device));
    EXPECT(peer_writes(before));
    REQUIRE_OK(acre_copy(device, &got, before, 1, ACRE_COPY_DEVICE_TO_HOST));
    EXPECT_EQ(got, 77);
    REQUIRE_OK(acre_cache_alloc(cache, 30 * MIB, NULL, &after));
    EXPECT(peer_writes((char *)after + 29 * MIB));
    EXPECT_EQ(acre_cache_peer_enable(cache, NULL), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_cache_free(cache, before));
    REQUIRE_OK(acre_cache_free(cache, after));
    close_model();
}

T_MAIN()
