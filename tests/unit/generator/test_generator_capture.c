/* SPDX-License-Identifier: MIT */
/* Fills and captured draws on the reference device: real streams, real graphs. */
#include "tests/unit/device_behaviour.h"

#include "generator/capture.h"

enum { COUNT = 1001 };

static acre_generator *philox(uint64_t seed)
{
    acre_generator *generator = NULL;

    REQUIRE_OK(acre_generator_create(ACRE_GENERATOR_PHILOX,
                                     (acre_device_id){ACRE_DEVICE_PRIVATE, 0}, &generator));
    REQUIRE_OK(acre_generator_set_seed(generator, seed));
    return generator;
}

static void *stream_on(acre_device *device)
{
    void *stream = NULL;

    REQUIRE_OK(acre_stream_native_create(device, 0, 0, &stream));
    return stream;
}

static uint64_t offset_of(acre_generator *generator)
{
    uint64_t offset = 1;

    REQUIRE_OK(acre_generator_get_offset(generator, &offset));
    return offset;
}

static void read_back(acre_device *device, void *stream, float *out, const void *block)
{
    REQUIRE_OK(acre_copy_async(device, out, block, COUNT * sizeof *out,
                               ACRE_COPY_DEVICE_TO_HOST, stream));
    REQUIRE_OK(acre_stream_native_synchronize(device, stream));
}

DEVICE_TEST(both_devices_and_the_host_give_the_same_numbers)
{
    acre_generator *generator = philox(11);
    float numbers[3][COUNT];

    for (int i = 0; i < 3; i++) {
        acre_device *device = i < 2 ? d[i] : NULL;
        void *stream = device ? stream_on(device) : NULL;
        void *block = device ? new_block(device, sizeof numbers[0], 0) : NULL;
        acre_fill fill = {device, stream, block ? block : numbers[i], COUNT, ACRE_REAL_F32};

        REQUIRE_OK(acre_generator_set_offset(generator, 40));
        REQUIRE_OK(acre_generator_normal(generator, &fill, 1, 2));
        EXPECT_EQ(offset_of(generator), 40 + COUNT + 3);
        if (!device)
            continue;
        read_back(device, stream, numbers[i], block);
        EXPECT(read_faults(block)); /* the host never saw the block */
        REQUIRE_OK(acre_device_free(device, block));
        REQUIRE_OK(acre_stream_native_destroy(device, stream));
    }
    EXPECT_EQ(memcmp(numbers[0], numbers[1], sizeof numbers[0]), 0);
    EXPECT_EQ(memcmp(numbers[0], numbers[2], sizeof numbers[0]), 0);
    acre_generator_destroy(generator);
}

DEVICE_TEST(fills_keep_to_memory_of_the_device)
{
    acre_generator *generator = philox(1);
    void *stream = stream_on(d[0]), *block = new_block(d[0], 4096, 7);
    acre_fill fill = {d[0], stream, block, 4096 / sizeof(float) + 1, ACRE_REAL_F32};
    float host[4];

    REFUSED(acre_generator_uniform(generator, &fill, 0, 1));
    fill.count = 4;
    fill.dst = host;
    REFUSED(acre_generator_uniform(generator, &fill, 0, 1));
    fill.dst = block;
    fill.stream = &fill; /* no stream */
    REFUSED(acre_generator_uniform(generator, &fill, 0, 1));
    EXPECT_EQ(offset_of(generator), 0);
    REQUIRE_OK(acre_stream_native_synchronize(d[0], stream));
    EXPECT(block_is(d[0], block, 4096, 7));
    REQUIRE_OK(acre_device_free(d[0], block));
    REQUIRE_OK(acre_stream_native_destroy(d[0], stream));
    acre_generator_destroy(generator);
}

/* One fill over memory that was mapped in pieces. */
DEVICE_TEST(a_fill_spans_mappings)
{
    enum { PAGES = 3 };
    acre_generator *generator = philox(5);
    void *stream = stream_on(d[0]), *handles[PAGES], *base = NULL;
    acre_device_info info = {.struct_size = sizeof info};
    size_t page, count;
    double *there, *here;
    acre_fill fill, host;

    REQUIRE_OK(acre_device_info_get(d[0], &info));
    page = info.page_bytes;
    count = PAGES * page / sizeof *here;
    here = malloc(PAGES * page);
    there = malloc(PAGES * page);
    REQUIRE(here && there);
    REQUIRE_OK(acre_virtual_reserve(d[0], PAGES * page, &base));
    for (int i = PAGES - 1; i >= 0; i--) {
        REQUIRE_OK(acre_virtual_create(d[0], page, ACRE_HANDLE_NONE, &handles[i]));
        REQUIRE_OK(acre_virtual_map(d[0], (char *)base + i * page, page, 0, handles[i]));
    }
    REQUIRE_OK(acre_virtual_set_access(d[0], base, PAGES * page, 0, ACRE_ACCESS_READ_WRITE));
    fill = (acre_fill){d[0], stream, base, count, ACRE_REAL_F64};
    host = (acre_fill){NULL, NULL, here, count, ACRE_REAL_F64};
    REQUIRE_OK(acre_generator_uniform(generator, &fill, -1, 1));
    REQUIRE_OK(acre_generator_set_offset(generator, 0));
    REQUIRE_OK(acre_generator_uniform(generator, &host, -1, 1));
    REQUIRE_OK(acre_copy_async(d[0], there, base, PAGES * page, ACRE_COPY_DEVICE_TO_HOST,
                               stream));
    REQUIRE_OK(acre_stream_native_synchronize(d[0], stream));
    EXPECT_EQ(memcmp(here, there, PAGES * page), 0);
    REQUIRE_OK(acre_virtual_unmap(d[0], base, PAGES * page));
    REQUIRE_OK(acre_virtual_unreserve(d[0], base, PAGES * page));
    for (int i = 0; i < PAGES; i++)
        REQUIRE_OK(acre_virtual_release(d[0], handles[i]));
    free(here);
    free(there);
    REQUIRE_OK(acre_stream_native_destroy(d[0], stream));
    acre_generator_destroy(generator);
}

/* A graph with two fills, launched three times, draws what six plain fills would. */
DEVICE_TEST(each_launch_of_a_graph_draws_anew)
{
    static float expected[6][COUNT], drawn[COUNT];
    acre_generator *generator = philox(77), *model = philox(77);
    void *stream = stream_on(d[0]), *graph = NULL;
    void *blocks[2] = {new_block(d[0], sizeof drawn, 0), new_block(d[0], sizeof drawn, 0)};
    acre_generator_capture *capture = NULL;
    uint64_t words = 0;

    REQUIRE_OK(acre_capture_begin(d[0], stream));
    REQUIRE_OK(acre_generator_capture_begin(generator, d[0], stream, &capture));
    for (int i = 0; i < 2; i++) {
        acre_fill fill = {d[0], stream, blocks[i], COUNT, ACRE_REAL_F32};

        REQUIRE_OK(acre_generator_normal(generator, &fill, 0, 1));
    }
    REQUIRE_OK(acre_capture_end(d[0], stream, &graph));
    REQUIRE_OK(acre_generator_capture_end(capture, &words));
    EXPECT_EQ(words, 2 * (COUNT + 3));
    EXPECT_EQ(offset_of(generator), 0);
    for (int i = 0; i < 6; i++) {
        acre_fill fill = {NULL, NULL, expected[i], COUNT, ACRE_REAL_F32};

        REQUIRE_OK(acre_generator_normal(model, &fill, 0, 1));
    }
    for (int launch = 0; launch < 3; launch++) {
        REQUIRE_OK(acre_generator_capture_replay(capture, d[0], stream));
        REQUIRE_OK(acre_graph_launch(d[0], graph, stream));
        for (int i = 0; i < 2; i++) {
            read_back(d[0], stream, drawn, blocks[i]);
            EXPECT_EQ(memcmp(drawn, expected[2 * launch + i], sizeof drawn), 0);
        }
    }
    EXPECT_EQ(offset_of(generator), offset_of(model));
    REQUIRE_OK(acre_graph_destroy(d[0], graph));
    acre_generator_destroy(generator);
    acre_generator_capture_destroy(capture); /* holds the state by itself */
    acre_generator_destroy(model);
    for (int i = 0; i < 2; i++)
        REQUIRE_OK(acre_device_free(d[0], blocks[i]));
    REQUIRE_OK(acre_stream_native_destroy(d[0], stream));
}

/* A fill that a capture cannot take leaves the capture whole. */
DEVICE_TEST(a_stranger_may_not_draw_in_a_capture)
{
    acre_generator *member = philox(1), *stranger = philox(2), *mt = NULL;
    void *stream = stream_on(d[0]), *block = new_block(d[0], 64, 3), *graph = NULL;
    acre_generator_capture *capture = NULL;
    acre_fill fill = {d[0], stream, block, 16, ACRE_REAL_F32};
    acre_capture_info info = {.struct_size = sizeof info};

    REQUIRE_OK(acre_generator_create(ACRE_GENERATOR_MT19937,
                                     (acre_device_id){ACRE_DEVICE_PRIVATE, 0}, &mt));
    EXPECT_EQ(acre_generator_capture_begin(member, d[0], stream, &capture), ACRE_ERR_STATE);
    REQUIRE_OK(acre_capture_begin(d[0], stream));
    REQUIRE_OK(acre_generator_capture_begin(member, d[0], stream, &capture));
    EXPECT_EQ(acre_generator_uniform(stranger, &fill, 0, 1), ACRE_ERR_STATE);
    EXPECT_EQ(acre_generator_uniform(mt, &fill, 0, 1), ACRE_ERR_UNSUPPORTED);
    REQUIRE_OK(acre_generator_uniform(member, &fill, 0, 1));
    REQUIRE_OK(acre_capture_info_get(d[0], stream, &info));
    EXPECT_EQ(info.status, ACRE_CAPTURE_ACTIVE);
    REQUIRE_OK(acre_generator_capture_end(capture, NULL));
    REQUIRE_OK(acre_capture_end(d[0], stream, &graph));
    EXPECT(block_is(d[0], block, 64, 3)); /* recorded, not run */
    REQUIRE_OK(acre_graph_destroy(d[0], graph));
    acre_generator_capture_destroy(capture);
    acre_generator_destroy(member);
    acre_generator_destroy(stranger);
    acre_generator_destroy(mt);
    REQUIRE_OK(acre_device_free(d[0], block));
    REQUIRE_OK(acre_stream_native_destroy(d[0], stream));
}

/* A refused launch, and every host allocation that may fail, draw nothing. */
DEVICE_TEST(failures_draw_nothing)
{
    acre_sim_fault fault = {.struct_size = sizeof fault, .call = ACRE_SIM_LAUNCH, .nth = 1};
    acre_generator *generator = philox(1);
    void *stream = stream_on(d[0]), *block = new_block(d[0], 64, 3);
    acre_fill fill = {d[0], stream, block, 16, ACRE_REAL_F32};
    uint64_t nth = 0;
    int failed;

    REQUIRE_OK(acre_sim_fault_arm(backend, &fault));
    EXPECT_EQ(acre_generator_uniform(generator, &fill, 0, 1), ACRE_ERR_DEVICE);
    EXPECT_EQ(acre_sim_fault_disarm(backend), 1);
    EXPECT_EQ(offset_of(generator), 0);
    do {
        acre_status status;

        heap_fail_nth(++nth);
        status = acre_generator_uniform(generator, &fill, 0, 1);
        failed = heap_fail_disarm();
        EXPECT_EQ(status, failed ? ACRE_ERR_HOST_MEMORY : ACRE_OK);
        EXPECT_EQ(offset_of(generator), failed ? 0 : 16);
    } while (failed && nth < 100);
    REQUIRE_OK(acre_stream_native_synchronize(d[0], stream));
    REQUIRE_OK(acre_device_free(d[0], block));
    REQUIRE_OK(acre_stream_native_destroy(d[0], stream));
    acre_generator_destroy(generator);
}

DEVICE_TEST(the_default_generator_of_the_reference_device)
{
    acre_generator *first = NULL, *second = NULL, *current = NULL;

    REQUIRE_OK(acre_generator_default(ACRE_DEVICE_PRIVATE, 0, &first));
    REQUIRE_OK(acre_generator_default(ACRE_DEVICE_PRIVATE, 1, &second));
    REQUIRE_OK(acre_device_set(ACRE_DEVICE_PRIVATE, 1));
    REQUIRE_OK(acre_generator_default(ACRE_DEVICE_PRIVATE, -1, &current));
    REQUIRE_OK(acre_device_set(ACRE_DEVICE_PRIVATE, 0));
    EXPECT(first != second);
    EXPECT_PTR_EQ(second, current);
    EXPECT_EQ(generator_kind_of(first), ACRE_GENERATOR_MT19937);
    EXPECT_EQ(acre_generator_device(second).index, 1);
    EXPECT_EQ(acre_generator_default(ACRE_DEVICE_PRIVATE, 2, &first), ACRE_ERR_RANGE);
    acre_generator_default_clear();
}

T_MAIN()
