/* SPDX-License-Identifier: MIT */
/* Handles of the reference device: whatever is passed, nothing is followed. */
#include "sim/sim_handle.h"

#include "tests/support/sim_rig.h"

static void count_up(void *arg)
{
    atomic_fetch_add((_Atomic uint64_t *)arg, 1);
}

/* Every call that takes a stream. */
static void expect_refused(int device, void *stream, acre_status expected)
{
    void *event = rig_event(0, 0), *graph = NULL;
    acre_capture_info info = {.struct_size = sizeof info};
    char byte = 0;
    int priority;
    uint32_t *value = rig_alloc(0, 4096);

    EXPECT_EQ(OP(stream_query, device, stream), expected);
    EXPECT_EQ(OP(stream_synchronize, device, stream), expected);
    EXPECT_EQ(OP(stream_priority, device, stream, &priority), expected);
    EXPECT_EQ(OP(stream_wait_event, device, stream, event), expected);
    EXPECT_EQ(OP(event_record, 0, event, stream), expected);
    EXPECT_EQ(OP(copy_async, device, &byte, &byte, 1, ACRE_COPY_HOST_TO_HOST, stream), expected);
    EXPECT_EQ(OP(fill_async, device, value, 0, 1, stream), expected);
    EXPECT_EQ(OP(launch_host, device, stream, count_up, &byte), expected);
    EXPECT_EQ(OP(write_value32, device, stream, value, 1), expected);
    EXPECT_EQ(OP(wait_value32, device, stream, value, 1, ACRE_WAIT_EQ), expected);
    EXPECT_EQ(OP(capture_begin, device, stream), expected);
    EXPECT_EQ(OP(capture_info, device, stream, &info), expected);
    EXPECT_EQ(OP(capture_end, device, stream, &graph), expected);
    EXPECT_EQ(OP(stream_destroy, device, stream), expected);
    EXPECT(!graph);
    REQUIRE_OK(OP(event_destroy, 0, event));
    REQUIRE_OK(OP(free, 0, value));
}

TEST(streams_that_are_none_are_refused)
{
    acre_backend *backend;
    acre_device *device;
    void *foreign;
    int on_stack;

    rig_open(NULL);
    void *dead = rig_stream(0), *event = rig_event(0, 0);
    REQUIRE_OK(OP(stream_destroy, 0, dead));
    void *young = rig_stream(0); /* may use the same slot */
    REQUIRE_OK(acre_sim_create(NULL, &backend));
    REQUIRE_OK(acre_backend_device(backend, 0, &device));
    REQUIRE_OK(device->ops->stream_create(device->self, 0, 0, 0, &foreign));
    expect_refused(0, dead, ACRE_ERR_INVALID);
    expect_refused(0, foreign, ACRE_ERR_INVALID);
    expect_refused(0, event, ACRE_ERR_INVALID);
    expect_refused(0, &on_stack, ACRE_ERR_INVALID);
    expect_refused(0, (void *)16, ACRE_ERR_INVALID);
    expect_refused(0, (void *)-1, ACRE_ERR_INVALID);
    EXPECT_NE((uintptr_t)young, (uintptr_t)dead);
    EXPECT_OK(OP(stream_query, 0, young));
    acre_backend_unregister(backend);
    rig_close();
}

TEST(handles_are_even_and_never_repeat)
{
    void *last = NULL;

    rig_open(NULL);
    for (int i = 0; i < 300; i++) {
        void *stream = rig_stream(0);

        EXPECT((uintptr_t)stream % 16 == 0);
        EXPECT(stream != last);
        last = stream;
        REQUIRE_OK(OP(stream_destroy, 0, stream));
    }
    rig_close();
}

struct thing {
    struct slot slot;
    int inits;
};

static void thing_init(struct slot *slot)
{
    ((struct thing *)slot)->inits++;
}

TEST(tables_grow_and_slots_stay_where_they_are)
{
    enum { COUNT = 1000 };
    static struct slot *taken[COUNT];
    static void *handles[COUNT];
    struct slots slots = {0};

    REQUIRE_OK(slots_init(&slots, "thing", sizeof(struct thing), RANK_STREAM, thing_init));
    for (int i = 0; i < COUNT; i++) {
        REQUIRE_OK(slots_take(&slots, &taken[i]));
        handles[i] = slot_open(taken[i]);
    }
    EXPECT_EQ(atomic_load(&slots.live), COUNT);
    for (int i = 0; i < COUNT; i++) {
        EXPECT_PTR_EQ(slots_find(&slots, handles[i]), taken[i]);
        EXPECT_PTR_EQ(slots_at(&slots, taken[i]->index), taken[i]);
        EXPECT_EQ(((struct thing *)taken[i])->inits, 1);
        EXPECT(!slots_find(&slots, (char *)handles[i] + 16));
        EXPECT(!slots_find(&slots, (char *)handles[i] + 1));
    }
    for (int i = 0; i < COUNT; i++) {
        struct slot *slot = slots_lock(&slots, handles[i]);

        REQUIRE(slot == taken[i]);
        slot_close_locked(slot);
        lock_drop(&slot->lock);
        slots_give(&slots, slot);
        EXPECT(!slots_lock(&slots, handles[i]));
    }
    EXPECT_EQ(atomic_load(&slots.live), 0);
    slots_fini(&slots);
}

T_MAIN()
