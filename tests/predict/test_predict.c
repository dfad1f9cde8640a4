/* SPDX-License-Identifier: MIT */
/* What "acre predict" needs of C: the guard and the hooks as PyTorch calls them, through
 * their tables, and tensors whose deleter frees their block. */
#include "predict/guard.h"
#include "predict/tensor.h"
#include "predict/thread.h"
#include "tests/support/t.h"

#include <pthread.h>
#include <string.h>

struct device_value {
    int8_t type, index;
};

struct stream_value {
    struct device_value device;
    int64_t id;
};

typedef void (*slot)(void);

struct object {
    const slot *table;
};

/* Slots of c10's guard, in the order of its header. */
enum {
    SLOT_TYPE,
    SLOT_EXCHANGE,
    SLOT_GET,
    SLOT_SET,
    SLOT_STREAM = 5,
    SLOT_DEFAULT,
    SLOT_POOL,
    SLOT_EXCHANGE_STREAM = 9,
    SLOT_COUNT = 15,
    SLOT_CAPTURING = 19,
    SLOT_RECORD = 22
};

static void resolve(void *arg, uint64_t frame, acre_frame *out)
{
    (void)arg;
    snprintf(out->name, sizeof out->name, "frame %llu", (unsigned long long)frame);
}

/* Opens the devices once for all tests. */
static acre_cache *opened(int device)
{
    static bool is_open;

    if (!is_open && acre_predict_open(2, NULL, resolve) == ACRE_OK)
        is_open = true;
    return acre_predict_cache(device);
}

static uint64_t live_bytes(int device)
{
    acre_cache_stats stats = {.struct_size = sizeof stats};

    if (acre_cache_stats_get(opened(device), &stats) != ACRE_OK)
        return UINT64_MAX;
    return (uint64_t)stats.requested_bytes.all.current;
}

static void *thread_asks(void *arg)
{
    int64_t *out = arg;

    out[0] = acre_predict_device();
    out[1] = acre_predict_stream(1);
    return NULL;
}

TEST(guard_keeps_device_and_stream_of_each_thread)
{
    const struct object *guard = acre_predict_guard(2);
    struct device_value second = {1, 1};
    int64_t seen[2] = {-1, -1};
    pthread_t thread;

    EXPECT_EQ(((int8_t(*)(const void *))guard->table[SLOT_TYPE])(guard), 1);
    EXPECT_EQ(((int8_t(*)(const void *))guard->table[SLOT_COUNT])(guard), 2);
    struct device_value before =
        ((struct device_value(*)(const void *, struct device_value))guard->table[SLOT_EXCHANGE])(
            guard, second);
    EXPECT_EQ(before.index, 0);
    EXPECT_EQ(acre_predict_device(), 1);
    struct stream_value stream = {second, 7};
    stream = ((struct stream_value(*)(
        const void *, struct stream_value))guard->table[SLOT_EXCHANGE_STREAM])(guard, stream);
    EXPECT_EQ(stream.id, 0);
    stream = ((struct stream_value(*)(const void *, struct device_value))guard->table[SLOT_STREAM])(
        guard, second);
    EXPECT_EQ(stream.id, 7);
    EXPECT_EQ(stream.device.index, 1);
    EXPECT_EQ(thread_self()->streams[1], 7);
    EXPECT_EQ(pthread_create(&thread, NULL, thread_asks, seen), 0);
    pthread_join(thread, NULL);
    EXPECT_EQ(seen[0], 0);
    EXPECT_EQ(seen[1], 0);
    acre_predict_stream_set(1, 0);
    acre_predict_device_set(0);
}

TEST(guard_gives_streams_of_a_pool_in_turn)
{
    const struct object *guard = acre_predict_guard(2);
    struct device_value first = {1, 0};
    struct stream_value (*take)(const void *, struct device_value) =
        (struct stream_value(*)(const void *, struct device_value))guard->table[SLOT_POOL];
    int64_t one = take(guard, first).id;

    EXPECT(one >= 1 && one <= 32);
    for (int i = 1; i < 32; i++)
        EXPECT(take(guard, first).id != one);
    EXPECT_EQ(take(guard, first).id, one);
}

TEST(guard_tells_of_captures)
{
    const struct object *guard = acre_predict_guard(2);
    struct stream_value side = {{1, 0}, 3};
    bool (*captures)(const void *, const struct stream_value *) =
        (bool (*)(const void *, const struct stream_value *))guard->table[SLOT_CAPTURING];

    EXPECT(!captures(guard, &side));
    acre_predict_capturing_set(1);
    EXPECT(captures(guard, &side));
    acre_predict_capturing_set(0);
    EXPECT(!captures(guard, &side));
}

TEST(hooks_of_another_size_stay_as_they_are)
{
    slot table[50] = {0};
    struct object hooks = {table + 2};

    EXPECT_EQ(acre_predict_hooks(&hooks, sizeof table - 8, 91400, NULL), -1);
    EXPECT(hooks.table == table + 2);
    EXPECT_EQ(acre_predict_hooks(NULL, sizeof table, 91400, NULL), -1);
    EXPECT_EQ(acre_predict_hooks(&hooks, sizeof table, 91400, &hooks), 0);
    EXPECT(hooks.table != table + 2);
    EXPECT(((bool (*)(const void *))hooks.table[16])(&hooks));           /* hasCUDA */
    EXPECT_EQ(((long (*)(const void *))hooks.table[34])(&hooks), 91400); /* versionCuDNN */
    EXPECT(((void *(*)(const void *))hooks.table[12])(&hooks) == &hooks);
}

TEST(deleter_of_a_tensor_frees_its_block)
{
    int64_t dims[] = {10, 20, 20, 1};
    uint64_t frames[] = {3, 4};

    EXPECT(opened(0) != NULL);
    uint64_t before = live_bytes(0);
    acre_predict_frames_set(frames, 2);
    acre_dl_managed *tensor = acre_predict_tensor(0, 800, 2, 32, 2, dims);
    EXPECT(tensor != NULL);
    EXPECT_EQ(live_bytes(0), before + 800);
    EXPECT_EQ(tensor->tensor.shape[1], 20);
    EXPECT_EQ(tensor->tensor.strides[0], 20);
    EXPECT_EQ(acre_predict_bytes(tensor->tensor.data), 800);
    uint64_t seen[4];
    EXPECT_EQ(acre_cache_stack_of(opened(0), acre_predict_block(tensor->tensor.data), seen, 4), 2);
    EXPECT_EQ(seen[1], 4);
    tensor->deleter(tensor);
    EXPECT_EQ(live_bytes(0), before);
}

TEST(resizing_frees_and_allocates)
{
    int64_t dims[] = {1000, 1};
    uint64_t before = live_bytes(1);
    acre_dl_managed *tensor = acre_predict_tensor(1, 4000, 2, 32, 1, dims);

    EXPECT(tensor != NULL);
    void *data = tensor->tensor.data;
    EXPECT_EQ(acre_predict_resize(data, 0), 0);
    EXPECT_EQ(live_bytes(1), before);
    EXPECT(acre_predict_block(data) == NULL);
    EXPECT_EQ(acre_predict_resize(data, 9000), 0);
    EXPECT_EQ(live_bytes(1), before + 9000);
    tensor->deleter(tensor);
    EXPECT_EQ(live_bytes(1), before);
}

/* Events of a kind that a cache has recorded. */
static uint64_t action_count(int device, acre_action action)
{
    acre_history *history;
    uint64_t count = 0;

    if (acre_cache_history_create(opened(device), &history) != ACRE_OK)
        return UINT64_MAX;
    for (uint64_t i = 0; i < history->entry_count; i++)
        count += history->entries[i].action == action;
    acre_history_destroy(history);
    return count;
}

TEST(what_another_stream_uses_is_freed_after_it)
{
    const struct object *guard = acre_predict_guard(2);
    void (*record)(const void *, void *const *, const struct stream_value *) = (void (*)(
        const void *, void *const *, const struct stream_value *))guard->table[SLOT_RECORD];
    int64_t dims[] = {1000, 1};
    struct stream_value side = {{1, 0}, 3};
    acre_dl_managed *tensor = acre_predict_tensor(0, 4000, 2, 32, 1, dims);
    uint64_t requested = action_count(0, ACRE_ACTION_FREE_REQUESTED);
    uint64_t completed = action_count(0, ACRE_ACTION_FREE_COMPLETED);

    EXPECT(tensor != NULL);
    record(guard, &tensor->tensor.data, &side);
    tensor->deleter(tensor);
    EXPECT_EQ(action_count(0, ACRE_ACTION_FREE_REQUESTED), requested + 1);
    EXPECT_EQ(action_count(0, ACRE_ACTION_FREE_COMPLETED), completed);
    void *next = acre_predict_alloc(0, 4000); /* looks at what has ended */
    EXPECT_EQ(action_count(0, ACRE_ACTION_FREE_COMPLETED), completed + 1);
    acre_predict_free(0, next);
    void *nothing = NULL;
    record(guard, &nothing, &side);
    EXPECT_EQ(acre_predict_record(dims, 3), 0);
}

TEST(what_is_not_there_is_refused)
{
    int64_t dims[] = {0, 1};

    EXPECT(acre_predict_cache(-1) == NULL);
    EXPECT(acre_predict_cache(PREDICT_DEVICES_MAX) == NULL);
    EXPECT(acre_predict_tensor(5, 100, 2, 32, 1, dims) == NULL);
    EXPECT(acre_predict_tensor(0, 100, 2, 32, PREDICT_DIMS_MAX + 1, dims) == NULL);
    EXPECT(acre_predict_alloc(0, (uint64_t)1 << 50) == NULL);
    acre_dl_managed *empty = acre_predict_tensor(0, 0, 2, 32, 1, dims);
    EXPECT(empty != NULL && empty->tensor.data == NULL);
    empty->deleter(empty);
    EXPECT_EQ(acre_predict_bytes(NULL), 0);
}

T_MAIN()
