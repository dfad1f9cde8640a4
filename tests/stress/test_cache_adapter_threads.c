/* SPDX-License-Identifier: MIT */
/* Threads, streams and devices through the shared allocator of a process.
 *
 * Each pointer is filled on the stream that was current when it was allocated, and
 * sometimes copied from on a second stream, which is recorded. It is then cleared
 * without waiting, at once or by another thread with another current device: memory
 * that is reused too early shows up as a copy with a wrong byte. */
#include "tests/support/sim_pair.h"

#include <pthread.h>
#include <stdatomic.h>

#define TYPE ACRE_DEVICE_OPENCL
#define THREADS 8
#define SLOTS 32
#define STREAMS 4
#define BYTES_MAX 40000

struct slot {
    pthread_mutex_t lock;
    acre_data_ptr ptr;
};

static struct slot slots[SLOTS];
static acre_stream streams[2][STREAMS];
static acre_allocator *allocator;
static _Atomic int damaged, refused;

static void expect_ok(acre_status status)
{
    if (status != ACRE_OK)
        atomic_fetch_add(&refused, 1);
}

/* Puts a pointer into a slot and clears what was there. */
static void exchange(struct slot *slot, acre_data_ptr *ptr)
{
    acre_data_ptr old = ACRE_DATA_PTR_EMPTY;

    pthread_mutex_lock(&slot->lock);
    acre_data_ptr_move(&old, &slot->ptr);
    acre_data_ptr_move(&slot->ptr, ptr);
    pthread_mutex_unlock(&slot->lock);
    acre_data_ptr_clear(&old);
}

static _Thread_local char copy[BYTES_MAX];

/* Queues a copy of the memory on a side stream, which the pointer then follows. */
static void read_begin(acre_device *device, const acre_data_ptr *ptr, size_t bytes, int value,
                       acre_stream side)
{
    void *native;

    memset(copy, ~value, bytes);
    expect_ok(acre_stream_native(side, &native));
    expect_ok(acre_allocator_record_stream(allocator, ptr, side));
    expect_ok(acre_copy_async(device, copy, ptr->data, bytes, ACRE_COPY_DEVICE_TO_HOST,
                              native));
}

/* Waits for the copy, when the memory may be somebody else's already. */
static void read_end(acre_device *device, size_t bytes, int value, acre_stream side)
{
    void *native;

    expect_ok(acre_stream_native(side, &native));
    expect_ok(acre_stream_native_synchronize(device, native));
    for (size_t i = 0; i < bytes; i++)
        if (copy[i] != (char)value) {
            atomic_fetch_add(&damaged, 1);
            return;
        }
}

static void step(uint64_t r)
{
    size_t bytes = (r >> 8) % BYTES_MAX + 1;
    int index = (int)(r >> 30) & 1, value = (int)(r >> 40) & 0x7f;
    acre_stream stream = streams[index][(r >> 32) % STREAMS];
    acre_stream side = streams[index][(r >> 48) % STREAMS];
    acre_data_ptr ptr = ACRE_DATA_PTR_EMPTY;
    acre_device *device;
    void *native;

    expect_ok(acre_device_set(TYPE, index));
    expect_ok(acre_device_get(TYPE, -1, &device));
    expect_ok(acre_stream_set_current(stream));
    if (acre_allocator_allocate(allocator, bytes, &ptr) != ACRE_OK) {
        atomic_fetch_add(&refused, 1);
        return;
    }
    if (ptr.device.index != index)
        atomic_fetch_add(&damaged, 1);
    expect_ok(acre_stream_native(stream, &native));
    expect_ok(acre_fill_async(device, ptr.data, value, bytes, native));
    if (r & 1) {
        expect_ok(acre_stream_native_synchronize(device, native));
        read_begin(device, &ptr, bytes, value, side);
    }
    if (r & 2)
        acre_data_ptr_clear(&ptr);
    else
        exchange(&slots[(r >> 52) % SLOTS], &ptr);
    if (r & 1)
        read_end(device, bytes, value, side);
}

static void *work(void *arg)
{
    uint64_t state = t_seed() + (uint64_t)(uintptr_t)arg;

    /* Idle memory is not returned meanwhile: a device need not wait for work that is
     * queued on memory it takes back. */
    for (uint64_t left = t_count(1500, 60000); left; left--)
        step(t_random(&state));
    return NULL;
}

static void run(const char *conf)
{
    pthread_t threads[THREADS];
    acre_data_ptr none = ACRE_DATA_PTR_EMPTY;

    acre_backend *backend = sim_pair("shared", TYPE, ACRE_STREAM_CODEC_REFERENCE);
    setenv("ACRE_CONF", conf, 1);
    REQUIRE_OK(acre_device_allocator(TYPE, &allocator));
    unsetenv("ACRE_CONF");
    damaged = refused = 0;
    for (int i = 0; i < 2 * STREAMS; i++)
        REQUIRE_OK(acre_stream_from_pool(TYPE, i / STREAMS, 0, &streams[i / STREAMS][i % STREAMS]));
    for (int i = 0; i < SLOTS; i++) {
        pthread_mutex_init(&slots[i].lock, NULL);
        acre_data_ptr_init(&slots[i].ptr);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(i + 1));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < SLOTS; i++) {
        exchange(&slots[i], &none);
        pthread_mutex_destroy(&slots[i].lock);
    }
    for (int i = 0; i < 2; i++) {
        acre_device *device;
        REQUIRE_OK(acre_device_get(TYPE, i, &device));
        REQUIRE_OK(acre_device_synchronize(device));
    }
    EXPECT_EQ(damaged, 0);
    EXPECT_EQ(refused, 0);
    REQUIRE_OK(acre_allocator_empty_cache(allocator));
    for (int i = 0; i < 2; i++) {
        acre_allocator_stats stats = {.struct_size = sizeof stats};
        REQUIRE_OK(acre_allocator_stats_get(allocator, i, &stats));
        EXPECT_EQ(stats.allocated_bytes.current, 0);
        EXPECT_GT(stats.allocated_bytes.freed, 0);
        EXPECT_EQ(stats.reserved_bytes.current, 0);
        EXPECT_EQ(acre_cache_check(acre_cache_of_allocator(allocator, i)), ACRE_OK);
    }
    acre_allocator_destroy(allocator);
    acre_backend_unregister(backend);
}

TEST(threads_share_it_under_policy_acre)
{
    run("policy:acre");
}

TEST(threads_share_it_under_policy_torch)
{
    run("policy:torch");
}

T_MAIN()
