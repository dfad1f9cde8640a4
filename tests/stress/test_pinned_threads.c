/* SPDX-License-Identifier: MIT */
/* Four threads allocate, write, copy from on their own stream, use, free for one another
 * and empty the cache meanwhile. What a copy read must be what its thread wrote: a block
 * reused too early would show. */
#include "tests/support/pinned_bed.h"

#include <pthread.h>

enum { THREADS = 4, OFFERS = 16 };

struct offer {
    pthread_mutex_t lock;
    void *pointer; /* somebody else frees it */
};

static struct pinned_bed bed;
static struct offer offers[OFFERS];
static _Atomic int damaged, refused;

/* What a stream reads from a block, later. */
struct reading {
    const unsigned char *from;
    size_t bytes;
    unsigned char value;
};

static void read_task(void *arg)
{
    struct reading *reading = arg;

    for (size_t i = 0; i < reading->bytes; i += 61)
        damaged += reading->from[i] != reading->value;
    free(reading);
}

static void exchange(void **pointer, uint64_t which)
{
    struct offer *offer = &offers[which % OFFERS];
    void *other;

    pthread_mutex_lock(&offer->lock);
    other = offer->pointer;
    offer->pointer = *pointer;
    pthread_mutex_unlock(&offer->lock);
    *pointer = other;
}

static void work_once(uint64_t *random, int stream, acre_device *device)
{
    size_t bytes = 1 + t_random(random) % (t_random(random) % 8 ? 6000 : 200000);
    unsigned char value = (unsigned char)t_random(random);
    void *pointer;

    if (acre_pinned_alloc(bed.pinned, bytes, &pointer) != ACRE_OK) {
        refused++;
        return;
    }
    memset(pointer, value, bytes);
    if (t_random(random) % 3 == 0) {
        struct reading *reading = malloc(sizeof *reading);
        *reading = (struct reading){.from = pointer, .bytes = bytes, .value = value};
        refused += acre_launch_host(device, bed.streams[stream], read_task, reading) != ACRE_OK;
        refused += acre_pinned_record_stream(bed.pinned, pointer, device,
                                             bed.streams[stream]) != ACRE_OK;
    }
    exchange(&pointer, t_random(random));
    refused += acre_pinned_free(bed.pinned, pointer) != ACRE_OK;
    if (t_random(random) % 64 == 0)
        refused += acre_pinned_empty(bed.pinned) != ACRE_OK;
    if (t_random(random) % 64 == 0)
        refused += pinned_verify(bed.pinned) != ACRE_OK;
}

static void *work(void *arg)
{
    int number = (int)(intptr_t)arg, stream = number % BED_STREAMS;
    uint64_t random = 1000 + (uint64_t)number, count = t_count(2000, 200000);

    for (uint64_t i = 0; i < count; i++)
        work_once(&random, stream, pinned_bed_device(&bed, stream));
    return NULL;
}

static void run(acre_policy policy, const char *conf)
{
    pthread_t threads[THREADS];

    pinned_bed_open(&bed, policy, conf);
    for (int i = 0; i < OFFERS; i++) {
        pthread_mutex_init(&offers[i].lock, NULL);
        offers[i].pointer = NULL;
    }
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < OFFERS; i++) {
        pinned_give(&bed, offers[i].pointer);
        pthread_mutex_destroy(&offers[i].lock);
    }
    for (int i = 0; i < BED_STREAMS; i++)
        REQUIRE_OK(acre_stream_native_synchronize(pinned_bed_device(&bed, i), bed.streams[i]));
    REQUIRE_OK(pinned_process(bed.pinned));
    EXPECT_EQ(pinned_stats(&bed).active_bytes.current, 0);
    EXPECT_EQ(damaged, 0);
    EXPECT_EQ(refused, 0);
    pinned_bed_close(&bed);
}

TEST(policy_acre)
{
    run(ACRE_POLICY_ACRE, NULL);
}

TEST(policy_torch_with_a_background_thread)
{
    run(ACRE_POLICY_TORCH, "pinned_use_background_threads:True");
}

/* ---- Options ------------------------------------------------------------------------------- */

static _Atomic bool is_over;

static void *set_cached(void *arg)
{
    char text[64];

    for (int i = 0; !is_over; i++) {
        snprintf(text, sizeof text, "pinned_max_cached_size_mb:%d", 100 + i % 64);
        refused += acre_pinned_conf_set(bed.pinned, text) != ACRE_OK;
    }
    return arg;
}

static uint64_t round_threshold(void)
{
    quick_lock_take(&bed.pinned->lock);
    uint64_t bytes = bed.pinned->conf.pinned_max_round_threshold_bytes;
    quick_lock_drop(&bed.pinned->lock);
    return bytes;
}

/* Each of two threads sets an option of its own, which the other must leave alone. */
TEST(options_that_two_threads_set_are_all_heeded)
{
    pthread_t thread;
    char text[64];
    int lost = 0;

    refused = 0;
    pinned_bed_open(&bed, ACRE_POLICY_ACRE, NULL);
    REQUIRE(pthread_create(&thread, NULL, set_cached, NULL) == 0);
    for (int i = 0; i < (int)(t_count(200000, 2000000) / t_slowness()); i++) {
        snprintf(text, sizeof text, "pinned_max_round_threshold_mb:%d", 1 << i % 7);
        refused += acre_pinned_conf_set(bed.pinned, text) != ACRE_OK;
        for (int look = 0; look < 4; look++)
            lost += round_threshold() != (uint64_t)MIB << i % 7;
    }
    is_over = true;
    pthread_join(thread, NULL);
    EXPECT_EQ(refused, 0);
    EXPECT_EQ(lost, 0);
    pinned_bed_close(&bed);
}

T_MAIN()
