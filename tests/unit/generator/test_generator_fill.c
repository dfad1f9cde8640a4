/* SPDX-License-Identifier: MIT */
/* Fills through a device that a test can hold in its hand: a table with the
 * entries that fills use, whose stream is a list of kernels run by run_queue().
 */
#include "tests/support/t.h"

#include "backend/backend.h"
#include "generator/capture.h"
#include "generator/numbers.h"

#include <math.h>

enum { QUEUE = 16, MEMORY = 4096 };

static struct fake {
    acre_kernel_fn fn[QUEUE];
    uint8_t args[QUEUE][4096];
    int count;
    int fail_launch;              /* launches still to refuse                  */
    uint64_t capture_id;          /* 0: not in capture                         */
    uint8_t memory[MEMORY];       /* what the device calls its memory          */
    uint8_t view[MEMORY];         /* where kernels find it                     */
} fake;

static void *fake_pointer(acre_kernel_context *context, const void *pointer, size_t bytes)
{
    size_t at = (size_t)((const uint8_t *)pointer - fake.memory);

    EXPECT_EQ(context->device, 3);
    return at <= MEMORY && bytes <= MEMORY - at ? fake.view + at : NULL;
}

static acre_status fake_launch(void *self, int device, void *stream, acre_kernel_fn fn,
                               const void *args, size_t bytes)
{
    EXPECT_PTR_EQ(self, &fake);
    EXPECT_EQ(device, 3);
    EXPECT_PTR_EQ(stream, &fake.count);
    REQUIRE(bytes <= sizeof fake.args[0] && fake.count < QUEUE);
    if (fake.fail_launch && fake.fail_launch--)
        return ACRE_ERR_DEVICE;
    fake.fn[fake.count] = fn;
    memcpy(fake.args[fake.count++], args, bytes);
    return ACRE_OK;
}

static acre_status fake_info(void *self, const void *pointer, acre_pointer_info *out)
{
    size_t at = (size_t)((const uint8_t *)pointer - fake.memory);

    (void)self;
    *out = (acre_pointer_info){sizeof *out, ACRE_MEMORY_UNMANAGED, -1, (void *)pointer, 0};
    if (at < MEMORY) /* two mappings side by side */
        *out = (acre_pointer_info){sizeof *out, ACRE_MEMORY_DEVICE, 3,
                                   fake.memory + (at < MEMORY / 2 ? 0 : MEMORY / 2),
                                   MEMORY / 2};
    return ACRE_OK;
}

static acre_status fake_capture(void *self, int device, void *stream, acre_capture_info *out)
{
    (void)self, (void)device, (void)stream;
    out->status = fake.capture_id ? ACRE_CAPTURE_ACTIVE : ACRE_CAPTURE_NONE;
    out->id = fake.capture_id;
    return ACRE_OK;
}

static const acre_backend_ops fake_ops = {
    .launch_kernel = fake_launch, .pointer_info = fake_info, .capture_info = fake_capture};

static acre_device fake_device = {
    .ops = &fake_ops,
    .self = &fake,
    .index = 3,
    .type = ACRE_DEVICE_PRIVATE,
    .info = {.name = "fake",
             .capabilities = ACRE_CAP_KERNELS | ACRE_CAP_POINTERS | ACRE_CAP_CAPTURE}};

static void run_queue(void)
{
    acre_kernel_context context = {3, fake_pointer};

    for (int i = 0; i < fake.count; i++)
        fake.fn[i](&context, fake.args[i]);
}

static acre_generator *begin(acre_generator_kind kind, uint64_t seed)
{
    acre_generator *generator = NULL;

    memset(&fake, 0, sizeof fake);
    REQUIRE_OK(acre_generator_create(kind, (acre_device_id){ACRE_DEVICE_PRIVATE, 3},
                                     &generator));
    REQUIRE_OK(acre_generator_set_seed(generator, seed));
    return generator;
}

static acre_fill on_device(size_t count, acre_real_type type)
{
    return (acre_fill){&fake_device, &fake.count, fake.memory, count, type};
}

static uint64_t offset_of(acre_generator *generator)
{
    uint64_t offset = 1;

    REQUIRE_OK(acre_generator_get_offset(generator, &offset));
    return offset;
}

TEST(uniform_floats_are_the_words_from_the_offset_on)
{
    acre_generator *generator = begin(ACRE_GENERATOR_PHILOX, 42);
    acre_fill fill = on_device(7, ACRE_REAL_F32);
    float values[7];
    acre_philox engine;

    REQUIRE_OK(acre_generator_set_offset(generator, 8));
    REQUIRE_OK(acre_generator_uniform(generator, &fill, 0, 1));
    EXPECT_EQ(offset_of(generator), 16);
    EXPECT_EQ(fake.view[0], 0); /* queued, not run */
    run_queue();
    memcpy(values, fake.view, sizeof values);
    acre_philox_init(&engine, 42, 0, 2);
    for (int i = 0; i < 7; i++)
        EXPECT(values[i] == acre_philox_uniform(acre_philox_next(&engine)));
    for (size_t i = sizeof values; i < MEMORY; i++)
        REQUIRE_EQ(fake.view[i], 0);
    acre_generator_destroy(generator);
}

/* Device and host give the same bytes, and a longer fill begins with a shorter. */
static void same_everywhere(acre_generator_kind kind, acre_real_type type, int is_normal)
{
    static uint8_t host[MEMORY], shorter[MEMORY];
    size_t element = numbers_element_bytes(type);
    acre_status (*draw)(acre_generator *, const acre_fill *, double, double) =
        is_normal ? acre_generator_normal : acre_generator_uniform;
    acre_generator *generator = begin(kind, 7);
    acre_fill fill = on_device(101, type);
    acre_fill on_host = {.dst = host, .count = 101, .type = type};

    REQUIRE_OK(draw(generator, &fill, -2, 5));
    run_queue();
    REQUIRE_OK(acre_generator_set_seed(generator, 7));
    REQUIRE_OK(draw(generator, &on_host, -2, 5));
    EXPECT_EQ(memcmp(host, fake.view, 101 * element), 0);
    REQUIRE_OK(acre_generator_set_seed(generator, 7));
    on_host.dst = shorter;
    on_host.count = 51;
    REQUIRE_OK(draw(generator, &on_host, -2, 5));
    EXPECT_EQ(memcmp(host, shorter, 51 * element), 0);
    EXPECT_NE(memcmp(host, host + element, 50 * element), 0);
    acre_generator_destroy(generator);
}

TEST(fills_are_the_same_on_every_device)
{
    for (int kind = ACRE_GENERATOR_PHILOX; kind <= ACRE_GENERATOR_MT19937; kind++)
        for (int type = ACRE_REAL_F32; type <= ACRE_REAL_F64; type++)
            for (int is_normal = 0; is_normal < 2; is_normal++)
                same_everywhere((acre_generator_kind)kind, (acre_real_type)type, is_normal);
}

/* What an mt19937 fill gave away on the device is not drawn again. */
TEST(an_mt19937_fill_moves_the_generator)
{
    acre_generator *a = begin(ACRE_GENERATOR_MT19937, 5), *b = begin(ACRE_GENERATOR_MT19937, 5);
    acre_fill fill = on_device(33, ACRE_REAL_F64);
    double host[34];
    acre_fill all = {.dst = host, .count = 34, .type = ACRE_REAL_F64};
    acre_fill one = {.dst = host, .count = 1, .type = ACRE_REAL_F64};
    double expected;

    REQUIRE_OK(acre_generator_normal(b, &all, 0, 1));
    expected = host[33];
    REQUIRE_OK(acre_generator_normal(a, &fill, 0, 1));
    REQUIRE_OK(acre_generator_normal(a, &one, 0, 1));
    EXPECT(host[0] == expected);
    acre_generator_destroy(a);
    acre_generator_destroy(b);
}

static void moments(acre_generator_kind kind, acre_real_type type, int is_normal)
{
    enum { N = 40000 };
    static double values[N];
    static float narrow[N];
    acre_generator *generator = begin(kind, 2024);
    acre_fill fill = {.dst = values, .count = N, .type = type};
    double sum = 0, squares = 0, lowest = 1e9, highest = -1e9;

    if (type == ACRE_REAL_F32)
        fill.dst = narrow;
    if (is_normal)
        REQUIRE_OK(acre_generator_normal(generator, &fill, 3, 2));
    else
        REQUIRE_OK(acre_generator_uniform(generator, &fill, -1, 3));
    for (int i = 0; i < N; i++) {
        double value = type == ACRE_REAL_F32 ? (double)narrow[i] : values[i];

        sum += value;
        squares += value * value;
        lowest = value < lowest ? value : lowest;
        highest = value > highest ? value : highest;
    }
    sum /= N;
    squares = sqrt(squares / N - sum * sum);
    EXPECT(fabs(sum - (is_normal ? 3 : 1)) < 0.05);
    EXPECT(fabs(squares - (is_normal ? 2 : 4 / sqrt(12))) < 0.05);
    EXPECT(is_normal ? lowest < -3 && highest > 9 : lowest >= -1 && highest < 3);
    EXPECT(is_normal || (lowest < -0.99 && highest > 2.99));
    acre_generator_destroy(generator);
}

/* The seed is fixed, so that this holds always or never. */
TEST(mean_deviation_and_bounds)
{
    for (int kind = ACRE_GENERATOR_PHILOX; kind <= ACRE_GENERATOR_MT19937; kind++)
        for (int type = ACRE_REAL_F32; type <= ACRE_REAL_F64; type++)
            for (int is_normal = 0; is_normal < 2; is_normal++)
                moments((acre_generator_kind)kind, (acre_real_type)type, is_normal);
}

/* Between 1 and the next float nothing lies, so that rounding finds the bound. */
TEST(the_upper_bound_is_never_reached)
{
    acre_generator *generator = begin(ACRE_GENERATOR_PHILOX, 1);
    float values[256];
    acre_fill fill = {.dst = values, .count = 256, .type = ACRE_REAL_F32};

    REQUIRE_OK(acre_generator_uniform(generator, &fill, 1, (double)nextafterf(1, 2)));
    for (int i = 0; i < 256; i++)
        EXPECT(values[i] == 1.0f);
    REQUIRE_OK(acre_generator_uniform(generator, &fill, 4, 4));
    EXPECT(values[200] == 4.0f);
    acre_generator_destroy(generator);
}

TEST(a_refused_launch_draws_nothing)
{
    acre_generator *philox = begin(ACRE_GENERATOR_PHILOX, 1);
    acre_generator *a = begin(ACRE_GENERATOR_MT19937, 1), *b = begin(ACRE_GENERATOR_MT19937, 1);
    acre_fill fill = on_device(9, ACRE_REAL_F32);
    uint32_t from_a, from_b;

    fake.fail_launch = 2;
    EXPECT_EQ(acre_generator_uniform(philox, &fill, 0, 1), ACRE_ERR_DEVICE);
    EXPECT_EQ(offset_of(philox), 0);
    EXPECT_EQ(acre_generator_normal(a, &fill, 0, 1), ACRE_ERR_DEVICE);
    REQUIRE_OK(acre_generator_random32(a, &from_a, 1));
    REQUIRE_OK(acre_generator_random32(b, &from_b, 1));
    EXPECT_EQ(from_a, from_b);
    acre_generator_destroy(philox);
    acre_generator_destroy(a);
    acre_generator_destroy(b);
}

TEST(bad_fills_are_refused_and_draw_nothing)
{
    acre_generator *generator = begin(ACRE_GENERATOR_PHILOX, 1);
    acre_fill good = on_device(MEMORY / 4, ACRE_REAL_F32), fill = good;

    fill.count++;
    EXPECT_EQ(acre_generator_uniform(generator, &fill, 0, 1), ACRE_ERR_INVALID);
    fill.count = SIZE_MAX;
    EXPECT_EQ(acre_generator_uniform(generator, &fill, 0, 1), ACRE_ERR_INVALID);
    fill.count = SIZE_MAX / 4;
    EXPECT_EQ(acre_generator_uniform(generator, &fill, 0, 1), ACRE_ERR_INVALID);
    fill = good, fill.dst = NULL;
    EXPECT_EQ(acre_generator_uniform(generator, &fill, 0, 1), ACRE_ERR_INVALID);
    fill = good, fill.dst = fake.memory + 1;
    EXPECT_EQ(acre_generator_uniform(generator, &fill, 0, 1), ACRE_ERR_INVALID);
    fill = good, fill.dst = fake.view;
    EXPECT_EQ(acre_generator_uniform(generator, &fill, 0, 1), ACRE_ERR_INVALID);
    fill = good, fill.type = (acre_real_type)3;
    EXPECT_EQ(acre_generator_uniform(generator, &fill, 0, 1), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_generator_uniform(generator, &good, 1, 0), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_generator_uniform(generator, &good, 0, 1e39), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_generator_uniform(generator, &good, NAN, 1), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_generator_normal(generator, &good, 0, -1), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_generator_normal(generator, &good, INFINITY, 1), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_generator_uniform(NULL, &good, 0, 1), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_generator_uniform(generator, NULL, 0, 1), ACRE_ERR_INVALID);
    EXPECT_EQ(fake.count, 0);
    EXPECT_EQ(offset_of(generator), 0);
    good.count = 0;
    REQUIRE_OK(acre_generator_uniform(generator, &good, 0, 1));
    EXPECT_EQ(fake.count, 0);
    good.count = MEMORY / 4;
    REQUIRE_OK(acre_generator_uniform(generator, &good, 0, 1));
    acre_generator_destroy(generator);
}

TEST(devices_without_kernels)
{
    acre_generator *generator = begin(ACRE_GENERATOR_PHILOX, 42);
    acre_device plain = {.ops = &fake_ops, .type = ACRE_DEVICE_CUDA, .info = {.name = "plain"}};
    float values[4] = {0};
    acre_fill fill = {&plain, NULL, values, 4, ACRE_REAL_F32};

    EXPECT_EQ(acre_generator_uniform(generator, &fill, 0, 1), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "plain");
    plain.type = ACRE_DEVICE_CPU;
    REQUIRE_OK(acre_generator_uniform(generator, &fill, 0, 1));
    EXPECT(values[0] == acre_philox_uniform(0x9ceaf053u));
    acre_generator_destroy(generator);
}

/* Three replays of one captured fill draw what three plain fills would. */
TEST(a_captured_fill_draws_anew_at_each_replay)
{
    acre_generator *generator = begin(ACRE_GENERATOR_PHILOX, 9);
    acre_fill fill = on_device(10, ACRE_REAL_F32);
    acre_generator_capture *capture = NULL;
    float host[12], expected[36];
    acre_fill on_host = {.dst = expected, .count = 36, .type = ACRE_REAL_F32};
    uint64_t words = 0;

    EXPECT_EQ(acre_generator_capture_begin(generator, &fake_device, &fake.count, &capture),
              ACRE_ERR_STATE);
    fake.capture_id = 77;
    EXPECT_EQ(acre_generator_uniform(generator, &fill, 0, 1), ACRE_ERR_STATE);
    REQUIRE_OK(acre_generator_capture_begin(generator, &fake_device, &fake.count, &capture));
    REQUIRE_OK(acre_generator_uniform(generator, &fill, 0, 1));
    EXPECT_EQ(acre_generator_capture_replay(capture, &fake_device, &fake.count),
              ACRE_ERR_STATE);
    REQUIRE_OK(acre_generator_capture_end(capture, &words));
    EXPECT_EQ(words, 12);
    EXPECT_EQ(acre_generator_capture_end(capture, &words), ACRE_ERR_STATE);
    fake.capture_id = 0;
    EXPECT_EQ(offset_of(generator), 0);

    REQUIRE_OK(acre_generator_uniform(generator, &on_host, 0, 1));
    REQUIRE_OK(acre_generator_set_offset(generator, 0));
    fake.fn[1] = fake.fn[0], memcpy(fake.args[1], fake.args[0], sizeof fake.args[0]);
    for (int replay = 0; replay < 3; replay++) {
        fake.count = 0; /* the settling kernel goes first, the graph is entry 1 */
        REQUIRE_OK(acre_generator_capture_replay(capture, &fake_device, &fake.count));
        EXPECT_EQ(offset_of(generator), 12 * (replay + 1));
        fake.count = 2;
        run_queue();
        memcpy(host, fake.view, sizeof host);
        EXPECT_EQ(memcmp(host, expected + 12 * replay, 10 * sizeof *host), 0);
    }
    acre_generator_capture_destroy(capture);
    acre_generator_destroy(generator);
}

TEST(what_a_capture_forbids)
{
    acre_generator *generator = begin(ACRE_GENERATOR_PHILOX, 9), *other = NULL;
    acre_generator *mt = begin(ACRE_GENERATOR_MT19937, 9);
    acre_generator_capture *capture = NULL, *second = NULL;
    acre_fill fill = on_device(4, ACRE_REAL_F32);
    uint64_t state[2];

    fake.capture_id = 5;
    EXPECT_EQ(acre_generator_uniform(mt, &fill, 0, 1), ACRE_ERR_UNSUPPORTED);
    EXPECT_EQ(acre_generator_capture_begin(mt, &fake_device, &fake.count, &second),
              ACRE_ERR_UNSUPPORTED);
    REQUIRE_OK(acre_generator_capture_begin(generator, &fake_device, &fake.count, &capture));
    EXPECT_EQ(acre_generator_capture_begin(generator, &fake_device, &fake.count, &second),
              ACRE_ERR_STATE);
    EXPECT_EQ(acre_generator_seed_random(generator, NULL), ACRE_ERR_STATE);
    EXPECT_EQ(acre_generator_get_offset(generator, state), ACRE_ERR_STATE);
    EXPECT_EQ(acre_generator_set_offset(generator, 4), ACRE_ERR_STATE);
    EXPECT_EQ(acre_generator_get_state(generator, state, 16), ACRE_ERR_STATE);
    EXPECT_EQ(acre_generator_set_state(generator, state, 8), ACRE_ERR_STATE);
    EXPECT_EQ(acre_generator_clone(generator, &other), ACRE_ERR_STATE);
    EXPECT_EQ(acre_generator_set_seed(generator, 10), ACRE_ERR_STATE);
    REQUIRE_OK(acre_generator_set_seed(generator, 9));
    fake.capture_id = 6; /* a stream of another capture */
    EXPECT_EQ(acre_generator_uniform(generator, &fill, 0, 1), ACRE_ERR_STATE);
    acre_generator_capture_destroy(capture); /* ends it too */
    EXPECT_EQ(offset_of(generator), 0);
    acre_generator_destroy(generator);
    acre_generator_destroy(mt);
}

T_MAIN()
