/* SPDX-License-Identifier: MIT */
/* Reductions between real processes: S59 to S69. */
#include "symm/collective/reduce.h"
#include "symm/collective/stage.h"
#include "symm/collective/sync.h"

#include "tests/support/ranks.h"

#include <acre/sim.h>

#include <pthread.h>
#include <unistd.h>

static float value(int rank, size_t i)
{
    return (float)((int)(i * 31 + (size_t)rank * 17) % 257 - 128) * 0.37f;
}

static uint16_t value16(int rank, size_t i)
{
    return float_to_bfloat(value(rank, i));
}

/* The sum in rank order, rounded after each addition. */
static uint16_t sum16(int count, size_t i)
{
    float sum = bfloat_to_float(value16(0, i));

    for (int r = 1; r < count; r++)
        sum = bfloat_to_float(float_to_bfloat(sum + bfloat_to_float(value16(r, i))));
    return float_to_bfloat(sum);
}

static float sum32(int count, size_t i)
{
    float sum = value(0, i);

    for (int r = 1; r < count; r++)
        sum += value(r, i);
    return sum;
}

static void fill(float *data, int rank, size_t count)
{
    for (size_t i = 0; i < count; i++)
        data[i] = value(rank, i);
}

static void expect_sum(const float *data, int count, size_t elements)
{
    for (size_t i = 0; i < elements; i++) {
        float sum = sum32(count, i);
        if (memcmp(&sum, &data[i], 4) != 0) {
            t_fail(__FILE__, __LINE__, "element %zu is %g instead of %g", i, (double)data[i],
                   (double)sum);
            return;
        }
    }
}

static const acre_collective_options *with(acre_algorithm algorithm)
{
    static acre_collective_options options;

    options = (acre_collective_options){.struct_size = sizeof options, .algorithm = algorithm};
    return &options;
}

static const size_t sizes[] = {1, 2048, 2049, 30000};

/* Every size, offset and algorithm with out; the input stays. */
static void one_shot(struct rank *me)
{
    float *base, *out = malloc(30000 * 4);
    acre_symm *symm = ranks_symm(me, 30100 * 4, (void **)&base);

    for (int s = 0; s < 4; s++)
        for (size_t offset = 0; offset <= 64; offset += 64)
            for (int a = 0; a < 2; a++) {
                fill(base + offset / 4, me->rank, sizes[s]);
                REQUIRE_OK(acre_symm_all_reduce(symm, offset, sizes[s], ACRE_DTYPE_F32, out,
                                                with(a ? ACRE_ALGORITHM_ONE_SHOT
                                                       : ACRE_ALGORITHM_AUTO)));
                expect_sum(out, me->count, sizes[s]);
                for (size_t i = 0; i < sizes[s]; i++)
                    EXPECT(base[offset / 4 + i] == value(me->rank, i));
            }
    free(out);
    acre_symm_release(symm);
    acre_symm_free(base);
}

TEST(S59_one_shot_is_the_sum_in_rank_order)
{
    ranks_run(2, one_shot);
    ranks_run(3, one_shot);
}

static void bfloats(struct rank *me)
{
    uint16_t *base, out[4100];
    acre_symm *symm = ranks_symm(me, 8200, (void **)&base);
    static const size_t counts[] = {2, 4096, 4098};

    for (int s = 0; s < 3; s++) {
        for (size_t i = 0; i < counts[s]; i++)
            base[i] = value16(me->rank, i);
        REQUIRE_OK(acre_symm_all_reduce(symm, 0, counts[s], ACRE_DTYPE_BF16, out,
                                        with(ACRE_ALGORITHM_ONE_SHOT)));
        for (size_t i = 0; i < counts[s]; i++)
            EXPECT_EQ(out[i], sum16(me->count, i));
        REQUIRE_OK(acre_symm_all_reduce(symm, 0, counts[s], ACRE_DTYPE_BF16, NULL,
                                        with(ACRE_ALGORITHM_TWO_SHOT)));
        EXPECT(memcmp(base, out, counts[s] * 2) == 0);
        ranks_meet(me, s);
    }
    EXPECT_EQ(acre_symm_all_reduce(symm, 0, 3, ACRE_DTYPE_BF16, out, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_symm_all_reduce(symm, 2, 4, ACRE_DTYPE_BF16, out, NULL), ACRE_ERR_INVALID);
    acre_symm_release(symm);
    acre_symm_free(base);
}

TEST(S60_bfloat_sums_round_after_each_addition)
{
    ranks_run(3, bfloats);
}

static void copy_form(struct rank *me)
{
    float *base, in[1000], out[1000];
    acre_symm *symm = ranks_symm(me, 4000, (void **)&base);

    fill(in, me->rank, 1000);
    EXPECT_EQ(acre_symm_all_reduce_copy(symm, 0, in, 999, 1000, ACRE_DTYPE_F32, out, NULL),
              ACRE_ERR_INVALID);
    REQUIRE_OK(acre_symm_all_reduce_copy(symm, 0, in, 1000, 1000, ACRE_DTYPE_F32, out, NULL));
    expect_sum(out, me->count, 1000);
    EXPECT(memcmp(base, in, 4000) == 0);
    acre_symm_release(symm);
    acre_symm_free(base);
}

TEST(S61_the_copy_form_leaves_its_input_in_the_buffer)
{
    ranks_run(2, copy_form);
}

static void two_shot(struct rank *me)
{
    float *base, *out = malloc(30000 * 4);
    acre_symm *symm = ranks_symm(me, 30100 * 4, (void **)&base);
    bool may_out = me->count == 2 || me->count == 4;

    for (int s = 0; s < 4; s++)
        for (int a = 0; a < 3; a++) {
            static const acre_algorithm algorithms[] = {
                ACRE_ALGORITHM_AUTO, ACRE_ALGORITHM_TWO_SHOT, ACRE_ALGORITHM_MULTICAST};
            for (size_t i = 0; i < 30100; i++)
                base[i] = -1;
            fill(base + 20, me->rank, sizes[s]);
            REQUIRE_OK(acre_symm_all_reduce(symm, 80, sizes[s], ACRE_DTYPE_F32, NULL,
                                            with(algorithms[a])));
            expect_sum(base + 20, me->count, sizes[s]);
            for (size_t i = 0; i < 30100; i++)
                if (i < 20 || i >= 20 + sizes[s])
                    EXPECT(base[i] == -1);
            ranks_meet(me, 8 * s + a);
            fill(base + 20, me->rank, sizes[s]);
            acre_status status = acre_symm_all_reduce(symm, 80, sizes[s], ACRE_DTYPE_F32, out,
                                                      with(ACRE_ALGORITHM_TWO_SHOT));
            EXPECT_EQ(status, may_out ? ACRE_OK : ACRE_ERR_INVALID);
            if (status == ACRE_OK)
                expect_sum(out, me->count, sizes[s]);
            ranks_meet(me, 8 * s + 4 + a);
        }
    free(out);
    acre_symm_release(symm);
    acre_symm_free(base);
}

TEST(S62_S63_two_shot_in_place_and_out)
{
    ranks_run(2, two_shot);
    ranks_run(3, two_shot);
    ranks_run(4, two_shot);
}

static void scatter(struct rank *me)
{
    enum { ROWS = 6, COLUMNS = 48 };
    float *base, in[ROWS * COLUMNS], out[ROWS * COLUMNS], first[ROWS * COLUMNS];
    acre_symm *symm = ranks_symm(me, sizeof in, (void **)&base);
    size_t width = COLUMNS / (size_t)me->count;
    uint16_t halves[48];

    fill(base, me->rank, ROWS * COLUMNS);
    fill(in, me->rank, ROWS * COLUMNS);
    REQUIRE_OK(acre_symm_reduce_scatter(symm, 0, NULL, 1, ROWS * COLUMNS, ACRE_DTYPE_F32, out,
                                        NULL));
    for (size_t i = 0; i < ROWS * width; i++)
        EXPECT(out[i] == sum32(me->count, (size_t)me->rank * ROWS * width + i));
    REQUIRE_OK(acre_symm_reduce_scatter(symm, 0, NULL, ROWS, COLUMNS, ACRE_DTYPE_F32, first,
                                        NULL));
    for (size_t i = 0; i < ROWS * width; i++)
        EXPECT(first[i] ==
               sum32(me->count, i / width * COLUMNS + (size_t)me->rank * width + i % width));
    /* S70: from ordinary memory, and averages. */
    REQUIRE_OK(acre_symm_reduce_scatter(symm, 0, in, ROWS, COLUMNS, ACRE_DTYPE_F32, out, NULL));
    EXPECT(memcmp(first, out, ROWS * width * 4) == 0);
    acre_collective_options options = {.struct_size = sizeof options,
                                       .reduce = ACRE_REDUCE_AVG};
    REQUIRE_OK(acre_symm_reduce_scatter(symm, 0, in, ROWS, COLUMNS, ACRE_DTYPE_F32, out,
                                        &options));
    for (size_t i = 0; i < ROWS * width; i++)
        EXPECT(out[i] == first[i] * (1.0f / (float)me->count));
    options.reduce = ACRE_REDUCE_MAX;
    EXPECT_EQ(acre_symm_reduce_scatter(symm, 0, in, ROWS, COLUMNS, ACRE_DTYPE_F32, out,
                                       &options), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_symm_reduce_scatter(symm, 0, in, 1, 49, ACRE_DTYPE_F32, out, NULL),
              ACRE_ERR_INVALID);
    /* 12 elements each of 2 bytes for 4 ranks are whole words, 11 are not. */
    EXPECT_EQ(acre_symm_reduce_scatter(symm, 0, NULL, 1, 44, ACRE_DTYPE_BF16, halves, NULL),
              me->count == 4 ? ACRE_ERR_INVALID : ACRE_OK);
    REQUIRE_OK(acre_symm_reduce_scatter(symm, 0, NULL, 1, 0, ACRE_DTYPE_F32, out, NULL));
    ranks_meet(me, 0);
    acre_symm_release(symm);
    acre_symm_free(base);
}

TEST(S64_S70_reduce_scatter)
{
    ranks_run(2, scatter);
    ranks_run(4, scatter);
}

static void refusals(struct rank *me)
{
    float *base, out[64];
    acre_symm *symm = ranks_symm(me, 256, (void **)&base);
    acre_collective_options options = {.struct_size = sizeof options,
                                       .reduce = ACRE_REDUCE_MAX};

    EXPECT_EQ(acre_symm_all_reduce(symm, 0, 64, ACRE_DTYPE_F32, out, &options),
              ACRE_ERR_INVALID);
    EXPECT_EQ(acre_symm_all_reduce(symm, 0, 8, (acre_dtype)9, out, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_symm_all_reduce(symm, 0, 65, ACRE_DTYPE_F32, out, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_symm_all_reduce(symm, (size_t)-4, 2, ACRE_DTYPE_F32, out, NULL),
              ACRE_ERR_INVALID);
    EXPECT_EQ(acre_symm_all_reduce(symm, 0, 3, ACRE_DTYPE_BF16, out, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_symm_all_reduce(symm, 0, 64, ACRE_DTYPE_F32, (char *)out + 1, NULL),
              ACRE_ERR_INVALID);
    EXPECT_EQ(acre_symm_all_reduce(NULL, 0, 64, ACRE_DTYPE_F32, out, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_symm_all_reduce(symm, 0, 64, ACRE_DTYPE_F32, NULL,
                                   with(ACRE_ALGORITHM_ONE_SHOT)), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_symm_all_reduce(symm, 0, 0, ACRE_DTYPE_F32, out, NULL));
    EXPECT_EQ(symm->team->sequence, 0); /* nobody was told anything */
    /* S66: rank 0 has no symmetric input; the others wait for it no longer than told. */
    options = (acre_collective_options){.struct_size = sizeof options, .timeout_ms = 100};
    if (me->rank != 0) {
        EXPECT_EQ(acre_symm_all_reduce(symm, 0, 64, ACRE_DTYPE_F32, out, &options),
                  ACRE_ERR_TIMEOUT);
        EXPECT_HAS(acre_last_error(), "rank 0");
        EXPECT_EQ(acre_symm_all_reduce(symm, 0, 64, ACRE_DTYPE_F32, out, &options),
                  ACRE_ERR_STATE);
    }
    ranks_meet(me, 0);
    acre_symm_release(symm);
    acre_symm_free(base);
}

TEST(S65_S66_what_is_wrong_is_refused_before_anything_is_sent)
{
    ranks_run(2, refusals);
}

static void multicast(struct rank *me)
{
    float *base, in[100], out[400];
    acre_symm *symm = ranks_symm(me, 4 * 400, (void **)&base);

    fill(in, me->rank, 100);
    REQUIRE_OK(acre_symm_all_gather(symm, 0, in, sizeof in, NULL));
    for (int r = 0; r < me->count; r++)
        for (size_t i = 0; i < 100; i++)
            EXPECT(base[(size_t)r * 100 + i] == value(r, i));
    EXPECT_EQ(acre_symm_all_gather(symm, 404, in, sizeof in, NULL), ACRE_ERR_INVALID);
    ranks_meet(me, 0);
    fill(base, me->rank, 400);
    for (int i = 0; i < 400; i++)
        out[i] = -1;
    REQUIRE_OK(acre_symm_reduce(symm, 0, 400, ACRE_DTYPE_F32, 1, out, NULL));
    if (me->rank == 1)
        expect_sum(out, me->count, 400);
    else
        for (int i = 0; i < 400; i++)
            EXPECT(out[i] == -1);
    EXPECT_EQ(acre_symm_reduce(symm, 0, 400, ACRE_DTYPE_F32, me->count, out, NULL),
              ACRE_ERR_RANGE);
    /* S69: the pads were not touched. */
    ranks_meet(me, 1);
    uint32_t *pad;
    REQUIRE_OK(acre_symm_pad(symm, me->rank, 4, 0, 0, (void **)&pad, NULL));
    for (int i = 0; i < 9216 / 4; i++)
        EXPECT_EQ(pad[i], 0);
    acre_symm_release(symm);
    acre_symm_free(base);
}

static void no_multicast(struct rank *me)
{
    acre_group *group;
    acre_group_config config = {.struct_size = sizeof config, .rank = me->rank,
                                .world_size = me->count, .name = "plain", .store = me->store,
                                .flags = me->rank ? 0 : ACRE_GROUP_NO_MULTICAST};
    void *base;
    acre_symm *symm;
    acre_symm_info info = {.struct_size = sizeof info};
    float out[16];

    REQUIRE_OK(acre_group_create(&config, &group));
    REQUIRE_OK(acre_symm_alloc(NULL, 64, &base));
    REQUIRE_OK(acre_symm_rendezvous(base, "plain", &symm));
    REQUIRE_OK(acre_symm_info_get(symm, &info));
    EXPECT(!info.has_multicast);
    EXPECT_EQ(acre_symm_reduce(symm, 0, 16, ACRE_DTYPE_F32, 0, out, NULL),
              ACRE_ERR_UNSUPPORTED);
    EXPECT_EQ(acre_symm_all_gather(symm, 0, out, 4, NULL), ACRE_ERR_UNSUPPORTED);
    EXPECT_EQ(acre_symm_all_reduce(symm, 0, 16, ACRE_DTYPE_F32, NULL,
                                   with(ACRE_ALGORITHM_MULTICAST)), ACRE_ERR_UNSUPPORTED);
    acre_symm_release(symm);
    acre_symm_free(base);
    acre_group_destroy(group);
}

TEST(S67_S68_S69_multicast)
{
    ranks_run(3, multicast);
    ranks_run(2, no_multicast);
}

/* Long mixed sequences: stages and meetings must never be confused. */
static void mixed(struct rank *me)
{
    float *base, out[4096];
    acre_symm *symm = ranks_symm(me, sizeof out, (void **)&base);
    uint64_t state = t_seed(); /* the same on all ranks */

    for (uint64_t i = 0; i < t_count(400, 20000); i++) {
        size_t count = t_random(&state) % 4000 + 1;
        bool in_place = t_random(&state) & 1;
        fill(base, me->rank, count);
        REQUIRE_OK(acre_symm_all_reduce(symm, 0, count, ACRE_DTYPE_F32, in_place ? NULL : out,
                                        NULL));
        expect_sum(in_place ? base : out, me->count, count);
    }
    acre_symm_release(symm);
    acre_symm_free(base);
}

/* As if 3,000 million small reductions had been run, in which nobody meets. */
static void after_many_small(struct rank *me)
{
    float *base, out[2];
    acre_symm *symm = ranks_symm(me, 8192, (void **)&base);
    uint32_t most = (uint32_t)3 << 30;

    for (uint32_t begin = 0; begin < most; begin += 1u << 20) {
        symm->team->sequence = begin + (1u << 20) - 2;
        for (int i = 0; i < 2; i++) {
            base[0] = (float)(me->rank + 1);
            REQUIRE_OK(acre_symm_all_reduce(symm, 0, 1, ACRE_DTYPE_F32, out, NULL));
            EXPECT_EQ(out[0], 3);
        }
    }
    base[0] = -1;
    if (me->rank == 1)
        usleep(100000);
    base[0] = (float)(me->rank + 1);
    REQUIRE_OK(acre_symm_all_reduce(symm, 0, 1, ACRE_DTYPE_F32, out,
                                    with(ACRE_ALGORITHM_ONE_SHOT)));
    EXPECT_EQ(out[0], 3);
    ranks_meet(me, 0);
    acre_symm_release(symm);
    acre_symm_free(base);
}

TEST(a_meeting_after_thousands_of_millions_of_small_reductions)
{
    ranks_run(2, after_many_small);
}

TEST(many_reductions_in_a_row)
{
    ranks_run(2, mixed);
    ranks_run(3, mixed);
}

/* A user's barriers on the lowest channels, from a second thread, while reductions run: neither
 * takes a signal of the other. */
static void *barriers_main(void *arg)
{
    acre_symm *symm = arg;

    for (int i = 0; i < 200; i++)
        REQUIRE_OK(acre_symm_barrier(symm, i % 2, 0));
    return NULL;
}

static void beside_barriers(struct rank *me)
{
    float *base, out[1000];
    pthread_t thread;
    acre_symm *symm = ranks_symm(me, sizeof out, (void **)&base);

    REQUIRE(pthread_create(&thread, NULL, barriers_main, symm) == 0);
    for (int i = 0; i < 100; i++) {
        fill(base, me->rank, 1000);
        REQUIRE_OK(acre_symm_all_reduce(symm, 0, 1000, ACRE_DTYPE_F32, i % 2 ? NULL : out, NULL));
        expect_sum(i % 2 ? base : out, me->count, 1000);
    }
    pthread_join(thread, NULL);
    ranks_meet(me, 0);
    acre_symm_release(symm);
    acre_symm_free(base);
}

TEST(S53_channels_of_users_do_not_meet_collectives)
{
    ranks_run(3, beside_barriers);
}

static void dies(struct rank *me)
{
    float *base, out[64];
    acre_symm *symm = ranks_symm(me, 256, (void **)&base);

    REQUIRE_OK(acre_symm_all_reduce(symm, 0, 64, ACRE_DTYPE_F32, out, NULL));
    if (me->rank == 1)
        _exit(9);
    EXPECT_EQ(acre_symm_all_reduce(symm, 0, 64, ACRE_DTYPE_F32, out, NULL), ACRE_ERR_PEER);
    EXPECT_HAS(acre_last_error(), "rank 1");
    ranks_meet_some(me, 9, me->count - 1);
}

TEST(S56_a_dead_rank_is_named_by_collectives)
{
    ranks_run_with(3, dies, 60000, 2);
}

/* ---- Device memory ---------------------------------------------------------------- */

static void on_device(struct rank *me)
{
    acre_backend *backend;
    acre_device *device;
    acre_symm_config config = {.struct_size = sizeof config};
    float host[20000], sums[20000];
    void *base, *out;
    acre_symm *symm;
    acre_collective_options options = {.struct_size = sizeof options, .is_async = 1};

    REQUIRE_OK(acre_sim_create(NULL, &backend));
    REQUIRE_OK(acre_backend_device(backend, 0, &device));
    config.device = device;
    REQUIRE_OK(acre_symm_alloc(&config, sizeof host, &base));
    REQUIRE_OK(acre_symm_rendezvous(base, "world", &symm));
    REQUIRE_OK(acre_device_alloc(device, sizeof host, &out));
    fill(host, me->rank, 20000);
    REQUIRE_OK(acre_copy(device, base, host, sizeof host, ACRE_COPY_HOST_TO_DEVICE));
    REQUIRE_OK(acre_symm_barrier(symm, 0, 0));
    REQUIRE_OK(acre_symm_all_reduce(symm, 0, 20000, ACRE_DTYPE_F32, out, NULL));
    REQUIRE_OK(acre_copy(device, sums, out, sizeof host, ACRE_COPY_DEVICE_TO_HOST));
    expect_sum(sums, me->count, 20000);
    REQUIRE_OK(acre_stream_native_create(device, 0, 0, &options.stream));
    REQUIRE_OK(acre_symm_all_reduce(symm, 0, 20000, ACRE_DTYPE_F32, NULL, &options));
    REQUIRE_OK(acre_symm_all_reduce(symm, 0, 1000, ACRE_DTYPE_F32, out, &options));
    REQUIRE_OK(acre_stream_native_synchronize(device, options.stream));
    REQUIRE_OK(acre_symm_status(symm));
    REQUIRE_OK(acre_copy(device, sums, base, sizeof host, ACRE_COPY_DEVICE_TO_HOST));
    expect_sum(sums, me->count, 20000);
    ranks_meet(me, 0);
    /* Nobody else comes: the failure stays with the handle. */
    options.timeout_ms = 50;
    if (me->rank == 0) {
        REQUIRE_OK(acre_symm_all_reduce(symm, 0, 1000, ACRE_DTYPE_F32, out, &options));
        REQUIRE_OK(acre_stream_native_synchronize(device, options.stream));
        EXPECT_EQ(acre_symm_status(symm), ACRE_ERR_TIMEOUT);
        EXPECT_HAS(acre_last_error(), "rank 1");
        REQUIRE_OK(acre_symm_status(symm));
    }
    ranks_meet(me, 1);
    REQUIRE_OK(acre_stream_native_destroy(device, options.stream));
    REQUIRE_OK(acre_device_free(device, out));
    acre_symm_release(symm);
    acre_symm_free(base);
    acre_backend_unregister(backend);
}

TEST(collectives_on_the_reference_device)
{
    ranks_run(2, on_device);
}

T_MAIN()
