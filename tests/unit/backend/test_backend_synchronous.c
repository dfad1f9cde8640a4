/* SPDX-License-Identifier: MIT */
/* What Acre adds to the table of a synchronous device; the rules for all devices are in
 * tests/conform/test_conform_synchronous.c. */
#include "tests/support/t.h"

#include "backend/synchronous.h"

#define EXAMPLE_LIBRARY
#include "examples/synchronous.c"

/* Registers the table with some entries changed. */
static acre_status changed_register(const acre_backend_ops *ops, acre_backend **out)
{
    acre_backend_desc desc = {.struct_size = sizeof desc};

    acre_backend_describe(&desc);
    desc.ops = ops;
    return acre_backend_register(&desc, out);
}

static acre_status no_synchronize(void *self, int device)
{
    (void)self;
    (void)device;
    return ACRE_OK;
}

TEST(streams_of_its_own_contradict_the_flag)
{
    acre_backend_desc desc = {.struct_size = sizeof desc};
    acre_backend *backend = NULL;
    acre_backend_ops ops;

    acre_backend_describe(&desc);
    ops = *desc.ops;
    ops.device_synchronize = no_synchronize;
    EXPECT_EQ(changed_register(&ops, &backend), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "\"device_synchronize\"");
    EXPECT_PTR_EQ(backend, NULL);
}

TEST(queued_copies_without_a_copy_are_refused)
{
    acre_backend_desc desc = {.struct_size = sizeof desc};
    acre_backend *backend = NULL;
    acre_backend_ops ops;

    acre_backend_describe(&desc);
    ops = *desc.ops;
    ops.copy = NULL;
    EXPECT_EQ(changed_register(&ops, &backend), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "copies");
    ops.fill_async = NULL;
    REQUIRE_OK(changed_register(&ops, &backend));
    acre_backend_unregister(backend);
}

/* The default fill goes through copies, in pieces. */
TEST(fills_go_through_copies_when_there_is_no_fill)
{
    acre_backend_desc desc = {.struct_size = sizeof desc};
    size_t bytes = 100000;
    unsigned char *host = calloc(1, bytes);
    acre_backend *backend;
    acre_device *device;
    acre_backend_ops ops;
    void *base, *stream;

    acre_backend_describe(&desc);
    ops = *desc.ops;
    ops.fill_async = NULL;
    REQUIRE_OK(changed_register(&ops, &backend));
    REQUIRE_OK(acre_backend_device(backend, 0, &device));
    REQUIRE_OK(acre_stream_native_create(device, 0, 0, &stream));
    REQUIRE_OK(acre_device_alloc(device, bytes, &base));
    REQUIRE_OK(acre_fill_async(device, base, 7, bytes, stream));
    EXPECT_EQ(acre_fill_async(device, base, 9, bytes + 4096, stream), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_copy(device, host, base, bytes, ACRE_COPY_DEVICE_TO_HOST));
    for (size_t i = 0; i < bytes; i++)
        REQUIRE_EQ(host[i], 7);
    free(host);
    REQUIRE_OK(acre_device_free(device, base));
    /* The stream is left: unregistering takes it along, and it is no stream any more. */
    acre_backend_unregister(backend);
}

/* The wrapper is no registered backend yet: made and ended without a trace. */
TEST(a_wrapper_is_made_and_ended)
{
    acre_backend_desc desc = {.struct_size = sizeof desc};
    struct synchronous *wrapper = NULL;
    acre_backend_ops ops;
    void *stream;

    acre_backend_describe(&desc);
    REQUIRE_OK(synchronous_create(&desc, &ops, &wrapper));
    REQUIRE_OK(ops.stream_create(wrapper, 0, 0, 0, &stream));
    REQUIRE_OK(ops.stream_query(wrapper, 0, stream));
    EXPECT_EQ(ops.stream_query(wrapper, 1, stream), ACRE_ERR_INVALID);
    EXPECT_EQ(ops.event_query(wrapper, 0, stream), ACRE_ERR_INVALID);
    EXPECT_EQ(ops.stream_query(wrapper, 0, NULL), ACRE_ERR_INVALID);
    synchronous_destroy(wrapper);
    synchronous_destroy(NULL);
}

T_MAIN()
