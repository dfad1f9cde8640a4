/* SPDX-License-Identifier: MIT */
#include "sim/sim_memory.h"

#include "tests/support/sim_bed.h"

#include <pthread.h>
#include <unistd.h>

TEST(information_about_every_kind_of_pointer)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    acre_pointer_info info = {.struct_size = sizeof info};
    void *p, *range, *handle;

    REQUIRE_OK(bed.ops->alloc(bed.sim, 1, 5000, &p));
    REQUIRE_OK(bed.ops->pointer_info(bed.sim, (char *)p + 8191, &info));
    EXPECT_EQ(info.kind, ACRE_MEMORY_DEVICE);
    EXPECT_EQ(info.device, 1);
    EXPECT_PTR_EQ(info.base, p);
    EXPECT_EQ(info.bytes, 8192);
    REQUIRE_OK(bed.ops->free(bed.sim, 1, p));
    REQUIRE_OK(bed.ops->pointer_info(bed.sim, p, &info));
    EXPECT_EQ(info.kind, ACRE_MEMORY_UNMANAGED);
    EXPECT_EQ(info.device, -1);
    EXPECT_PTR_EQ(info.base, p);
    EXPECT_EQ(info.bytes, 0);
    EXPECT_EQ(bed.ops->pointer_info(bed.sim, NULL, &info), ACRE_ERR_INVALID);

    REQUIRE_OK(bed.ops->reserve(bed.sim, 0, 2 * BED_PAGE, &range));
    REQUIRE_OK(bed.ops->create(bed.sim, 1, BED_PAGE, ACRE_HANDLE_NONE, &handle));
    REQUIRE_OK(bed.ops->map(bed.sim, 0, range, BED_PAGE, 0, handle));
    REQUIRE_OK(bed.ops->pointer_info(bed.sim, (char *)range + 77, &info));
    EXPECT_EQ(info.kind, ACRE_MEMORY_DEVICE);
    EXPECT_EQ(info.device, 1);
    EXPECT_PTR_EQ(info.base, range);
    EXPECT_EQ(info.bytes, BED_PAGE);
    REQUIRE_OK(bed.ops->pointer_info(bed.sim, (char *)range + BED_PAGE, &info));
    EXPECT_EQ(info.kind, ACRE_MEMORY_UNMANAGED);
    bed_drop(&bed);
}

TEST(a_range_must_end_inside_its_block)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    struct sim_pin pin;
    void *p;

    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 4096, &p));
    REQUIRE_OK(sim_pin(bed.sim, (char *)p + 96, 4000, &pin));
    EXPECT_EQ(pin.kind, ACRE_MEMORY_DEVICE);
    EXPECT_EQ(pin.device, 0);
    EXPECT(!pin.is_mapped);
    sim_unpin(bed.sim, &pin);
    EXPECT_EQ(sim_pin(bed.sim, (char *)p + 97, 4000, &pin), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "4000 bytes");
    EXPECT_HAS(acre_last_error(), "3999 left");
    EXPECT_EQ(sim_pin(bed.sim, p, SIZE_MAX, &pin), ACRE_ERR_INVALID);
    EXPECT_EQ(sim_pin(bed.sim, p, 0, &pin), ACRE_ERR_INVALID);
    EXPECT_EQ(sim_pin(bed.sim, NULL, 1, &pin), ACRE_ERR_INVALID);
    EXPECT_EQ(sim_pin(bed.sim, (char *)p - 8, 9, &pin), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "run into");
    REQUIRE_OK(bed.ops->free(bed.sim, 0, p));
    bed_close(&bed);
}

TEST(foreign_and_host_memory_stand_for_themselves)
{
    struct sim_bed bed = bed_open("");
    static char own[100];
    struct sim_pin pin;
    void *host;

    REQUIRE_OK(sim_pin(bed.sim, own, 100, &pin));
    EXPECT_EQ(pin.kind, ACRE_MEMORY_UNMANAGED);
    EXPECT_PTR_EQ(pin.address, own);
    EXPECT_EQ(pin.device, -1);
    sim_unpin(bed.sim, &pin);
    REQUIRE_OK(bed.ops->host_register(bed.sim, own, 50));
    REQUIRE_OK(sim_pin(bed.sim, own, 50, &pin));
    EXPECT_EQ(pin.kind, ACRE_MEMORY_HOST);
    sim_unpin(bed.sim, &pin);
    EXPECT_EQ(sim_pin(bed.sim, own, 51, &pin), ACRE_ERR_INVALID);
    REQUIRE_OK(bed.ops->host_unregister(bed.sim, own));

    REQUIRE_OK(bed.ops->host_alloc(bed.sim, 4096, &host));
    REQUIRE_OK(sim_pin(bed.sim, host, 4096, &pin));
    EXPECT_EQ(pin.kind, ACRE_MEMORY_HOST);
    EXPECT_PTR_EQ(pin.address, host);
    /* Freed while pinned: forgotten at once, there until the pin goes. */
    REQUIRE_OK(bed.ops->host_free(bed.sim, host));
    EXPECT_EQ(bed.ops->host_free(bed.sim, host), ACRE_ERR_INVALID);
    memset(pin.address, 1, 4096);
    sim_unpin(bed.sim, &pin);
    bed_expect_gone(host);
    bed_close(&bed);
}

TEST(freed_memory_stays_for_those_who_pinned_it)
{
    struct sim_bed bed = bed_open("memory:1MiB");
    struct sim_pin pin, second;
    void *p, *q;

    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 1 << 20, &p));
    REQUIRE_OK(sim_pin(bed.sim, p, 1 << 20, &pin));
    REQUIRE_OK(sim_pin(bed.sim, p, 10, &second));
    memset(pin.address, 3, 1 << 20);
    REQUIRE_OK(bed.ops->access_open(bed.sim, p));
    REQUIRE_OK(bed.ops->free(bed.sim, 0, p));
    bed_expect_gone(p);
    EXPECT_EQ(sim_pin(bed.sim, p, 10, &(struct sim_pin){0}), ACRE_OK); /* nobody's now */
    EXPECT_EQ(bed_usage(&bed).bytes_used, 0);
    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 1 << 20, &q));
    sim_unpin(bed.sim, &second);
    EXPECT_EQ(((char *)pin.address)[(1 << 20) - 1], 3);
    sim_unpin(bed.sim, &pin);
    REQUIRE_OK(bed.ops->free(bed.sim, 0, q));
    bed_close(&bed);
}

TEST(a_pin_spans_mappings_that_follow_one_another)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    void *range, *a, *b;
    struct sim_pin pin;

    REQUIRE_OK(bed.ops->reserve(bed.sim, 0, 4 * BED_PAGE, &range));
    REQUIRE_OK(bed.ops->create(bed.sim, 0, BED_PAGE, ACRE_HANDLE_NONE, &a));
    REQUIRE_OK(bed.ops->create(bed.sim, 0, BED_PAGE, ACRE_HANDLE_NONE, &b));
    REQUIRE_OK(bed.ops->map(bed.sim, 0, range, BED_PAGE, 0, a));
    EXPECT_EQ(sim_pin(bed.sim, range, 2 * BED_PAGE, &pin), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "nothing is mapped");
    REQUIRE_OK(bed.ops->map(bed.sim, 0, (char *)range + BED_PAGE, BED_PAGE, 0, b));
    REQUIRE_OK(bed.ops->set_access(bed.sim, 0, range, BED_PAGE, 1, ACRE_ACCESS_READ_WRITE));
    REQUIRE_OK(bed.ops->set_access(bed.sim, 0, range, 2 * BED_PAGE, 0, ACRE_ACCESS_READ));
    REQUIRE_OK(sim_pin(bed.sim, (char *)range + BED_PAGE - 8, 16, &pin));
    EXPECT(pin.is_mapped);
    EXPECT_EQ(pin.readers, 1);
    EXPECT_EQ(pin.writers, 0);
    memset(pin.address, 5, 16);
    sim_unpin(bed.sim, &pin);
    REQUIRE_OK(sim_pin(bed.sim, range, BED_PAGE, &pin));
    EXPECT_EQ(pin.readers, 3);
    EXPECT_EQ(pin.writers, 2);
    EXPECT_EQ(((char *)pin.address)[BED_PAGE - 8], 5);
    sim_unpin(bed.sim, &pin);
    EXPECT_EQ(sim_pin(bed.sim, (char *)range + 3 * BED_PAGE, BED_PAGE + 1, &pin),
              ACRE_ERR_INVALID);
    bed_drop(&bed);
}

TEST(who_may_touch_what)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    struct sim_pin pin;
    void *p, *range, *handle;

    REQUIRE_OK(bed.ops->alloc(bed.sim, 0, 4096, &p));
    REQUIRE_OK(sim_pin(bed.sim, p, 1, &pin));
    EXPECT_EQ(sim_pin_kernel(bed.sim, &pin, 0, ACRE_ACCESS_READ_WRITE), ACRE_OK);
    EXPECT_EQ(sim_pin_kernel(bed.sim, &pin, 1, ACRE_ACCESS_READ), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "peer_enable");
    EXPECT_EQ(sim_pin_copy(bed.sim, &pin, 1, ACRE_ACCESS_READ), ACRE_OK);
    REQUIRE_OK(bed.ops->peer_enable(bed.sim, 1, 0));
    EXPECT_EQ(sim_pin_kernel(bed.sim, &pin, 1, ACRE_ACCESS_READ_WRITE), ACRE_OK);
    sim_unpin(bed.sim, &pin);

    REQUIRE_OK(bed.ops->reserve(bed.sim, 0, BED_PAGE, &range));
    REQUIRE_OK(bed.ops->create(bed.sim, 0, BED_PAGE, ACRE_HANDLE_NONE, &handle));
    REQUIRE_OK(bed.ops->map(bed.sim, 0, range, BED_PAGE, 0, handle));
    REQUIRE_OK(sim_pin(bed.sim, range, 1, &pin));
    EXPECT_EQ(sim_pin_kernel(bed.sim, &pin, 0, ACRE_ACCESS_READ), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "set_access");
    EXPECT_EQ(sim_pin_copy(bed.sim, &pin, -1, ACRE_ACCESS_READ), ACRE_ERR_INVALID);
    sim_unpin(bed.sim, &pin);
    REQUIRE_OK(bed.ops->set_access(bed.sim, 0, range, BED_PAGE, 1, ACRE_ACCESS_READ));
    REQUIRE_OK(sim_pin(bed.sim, range, 1, &pin));
    EXPECT_EQ(sim_pin_kernel(bed.sim, &pin, 1, ACRE_ACCESS_READ), ACRE_OK);
    EXPECT_EQ(sim_pin_kernel(bed.sim, &pin, 1, ACRE_ACCESS_READ_WRITE), ACRE_ERR_INVALID);
    EXPECT_EQ(sim_pin_copy(bed.sim, &pin, 1, ACRE_ACCESS_READ), ACRE_OK);
    EXPECT_EQ(sim_pin_copy(bed.sim, &pin, 0, ACRE_ACCESS_READ), ACRE_ERR_INVALID);
    EXPECT_EQ(sim_pin_copy(bed.sim, &pin, -1, ACRE_ACCESS_READ), ACRE_OK);
    EXPECT_EQ(sim_pin_copy(bed.sim, &pin, -1, ACRE_ACCESS_READ_WRITE), ACRE_ERR_INVALID);
    sim_unpin(bed.sim, &pin);
    bed_drop(&bed);
}

/* ---- Unmapping waits for pins ------------------------------------------------------ */

struct unmapping {
    struct sim_bed *bed;
    void *base;
    atomic_bool is_done;
};

static void *unmap_it(void *arg)
{
    struct unmapping *task = arg;

    EXPECT_EQ(task->bed->ops->unmap(task->bed->sim, 0, task->base, BED_PAGE), ACRE_OK);
    atomic_store(&task->is_done, true);
    return NULL;
}

TEST(unmap_waits_for_pins_and_lets_no_new_ones_in)
{
    struct sim_bed bed = bed_open("memory:64MiB");
    struct sim_pin pin, late;
    void *range, *handle;
    pthread_t thread;
    acre_status status;

    REQUIRE_OK(bed.ops->reserve(bed.sim, 0, BED_PAGE, &range));
    REQUIRE_OK(bed.ops->create(bed.sim, 0, BED_PAGE, ACRE_HANDLE_NONE, &handle));
    REQUIRE_OK(bed.ops->map(bed.sim, 0, range, BED_PAGE, 0, handle));
    REQUIRE_OK(sim_pin(bed.sim, range, BED_PAGE, &pin));
    struct unmapping task = {&bed, range, false};
    REQUIRE_EQ(pthread_create(&thread, NULL, unmap_it, &task), 0);
    /* Once the thread waits, the mapping cannot be found any more. */
    while ((status = sim_pin(bed.sim, range, 1, &late)) == ACRE_OK) {
        sim_unpin(bed.sim, &late);
        usleep(100);
    }
    EXPECT_EQ(status, ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->unmap(bed.sim, 0, range, BED_PAGE), ACRE_ERR_INVALID);
    EXPECT_EQ(bed.ops->unreserve(bed.sim, 0, range, BED_PAGE), ACRE_ERR_STATE);
    EXPECT(!atomic_load(&task.is_done));
    memset(pin.address, 1, BED_PAGE);
    sim_unpin(bed.sim, &pin);
    pthread_join(thread, NULL);
    EXPECT(atomic_load(&task.is_done));
    REQUIRE_OK(bed.ops->unreserve(bed.sim, 0, range, BED_PAGE));
    REQUIRE_OK(bed.ops->release(bed.sim, 0, handle));
    bed_close(&bed);
}

T_MAIN()
