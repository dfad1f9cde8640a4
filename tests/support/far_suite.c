/* SPDX-License-Identifier: MIT */
#include "tests/support/far_suite.h"

#include <math.h>

#define WAIT_MS 30000
#define LONG_COUNT 150000u /* floats: more than one chunk of each rank */

struct site {
    acre_symm *symm;
    char *base;
    int rank, count;
};

static struct site site_make(size_t bytes)
{
    struct site site = {0};
    acre_symm_info info = {.struct_size = sizeof info};

    REQUIRE_OK(acre_symm_alloc(NULL, bytes, (void **)&site.base));
    REQUIRE_OK(acre_symm_rendezvous(site.base, "world", &site.symm));
    REQUIRE(site.symm != NULL);
    REQUIRE_OK(acre_symm_info_get(site.symm, &info));
    site.rank = info.rank;
    site.count = info.world_size;
    return site;
}

static void site_end(struct site *site)
{
    acre_symm_release(site->symm);
    acre_symm_free(site->base);
}

static void meet(struct site *site)
{
    REQUIRE_OK(acre_symm_barrier(site->symm, 9, WAIT_MS));
}

/* What element i of a rank holds: sums of it are exact. */
static float value(int rank, size_t i)
{
    return (float)((rank + 1) * (int)(i % 100 + 1));
}

static void fill(float *data, int rank, size_t count)
{
    for (size_t i = 0; i < count; i++)
        data[i] = value(rank, i);
}

/* The sum of all ranks' elements from first on. */
static void expect_sum(const float *data, int ranks, size_t first, size_t count)
{
    size_t wrong = 0;

    for (size_t i = 0; i < count; i++)
        wrong += data[i] != value(0, first + i) * (float)(ranks * (ranks + 1) / 2);
    EXPECT_EQ(wrong, 0);
}

static float *floats(size_t count)
{
    float *data = calloc(count, sizeof *data);

    REQUIRE(data != NULL);
    return data;
}

void far_suite_views(const bool *is_near)
{
    struct site site = site_make(4096);
    acre_symm_info info = {.struct_size = sizeof info};
    void *at;

    REQUIRE_OK(acre_symm_info_get(site.symm, &info));
    EXPECT(!info.is_direct);
    for (int i = 0; i < site.count; i++) {
        EXPECT_EQ(acre_symm_buffer(site.symm, i, 0, 16, &at),
                  is_near[i] ? ACRE_OK : ACRE_ERR_UNSUPPORTED);
        EXPECT_EQ(acre_symm_pad(site.symm, i, 4, 0, 0, &at, NULL),
                  is_near[i] ? ACRE_OK : ACRE_ERR_UNSUPPORTED);
    }
    /* A second time is local, at an inner place as well. */
    acre_symm *again;
    REQUIRE_OK(acre_symm_rendezvous(site.base + 64, "world", &again));
    acre_symm_release(again);
    meet(&site);
    site_end(&site);
}

void far_suite_one_sided(void)
{
    struct site site = site_make(3 << 20);
    size_t bytes = (1 << 20) + 12;
    int next = (site.rank + 1) % site.count, before = (site.rank + site.count - 1) % site.count;
    float *data = floats(bytes / 4), *back = floats(bytes / 4);

    fill(data, site.rank, bytes / 4);
    REQUIRE_OK(acre_symm_put_with_signal(site.symm, next, 64, data, bytes, 3, 7, NULL));
    REQUIRE_OK(acre_symm_wait_for_signal(site.symm, before, 3, 7, ACRE_WAIT_EQ, NULL));
    fill(back, before, bytes / 4);
    EXPECT(memcmp(site.base + 64, back, bytes) == 0);
    EXPECT_EQ(site.base[63] | site.base[64 + bytes], 0);
    REQUIRE_OK(acre_symm_get(site.symm, next, 64, back, bytes, NULL));
    EXPECT(memcmp(data, back, bytes) == 0);
    meet(&site);
    REQUIRE_OK(acre_symm_put(site.symm, next, 0, "hello", 6, NULL));
    meet(&site);
    EXPECT_STR_EQ(site.base, "hello");
    EXPECT_EQ(acre_symm_put(site.symm, site.count, 0, data, 4, NULL), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_symm_get(site.symm, next, (3 << 20) - 4, data, 8, NULL), ACRE_ERR_INVALID);
    meet(&site);
    free(data);
    free(back);
    site_end(&site);
}

void far_suite_signals(void)
{
    struct site site = site_make(4096);
    int next = (site.rank + 1) % site.count, before = (site.rank + site.count - 1) % site.count;
    uint32_t *seen = (uint32_t *)(void *)site.base, rounds = (uint32_t)t_count(3, 300);

    /* Data before a signal is there after it. */
    for (uint32_t i = 1; i <= rounds; i++) {
        REQUIRE_OK(acre_symm_put(site.symm, next, 0, &i, 4, NULL));
        REQUIRE_OK(acre_symm_put_signal(site.symm, next, 1, WAIT_MS));
        REQUIRE_OK(acre_symm_wait_signal(site.symm, before, 1, WAIT_MS));
        EXPECT_EQ(*seen, i);
        meet(&site);
    }
    /* One signal at a time; who waits in vain is told whom for. */
    REQUIRE_OK(acre_symm_put_signal(site.symm, next, 2, WAIT_MS));
    EXPECT_EQ(acre_symm_put_signal(site.symm, next, 2, 30), ACRE_ERR_TIMEOUT);
    EXPECT_EQ(acre_symm_wait_signal(site.symm, before, 3, 30), ACRE_ERR_TIMEOUT);
    meet(&site);
    REQUIRE_OK(acre_symm_wait_signal(site.symm, before, 2, WAIT_MS));
    meet(&site);
    /* Nobody passes a barrier before the last has come: everybody sees all counts. */
    for (uint32_t i = 1; i <= rounds; i++) {
        for (int r = 0; r < site.count; r++)
            REQUIRE_OK(acre_symm_put(site.symm, r, 64 + 4 * (size_t)site.rank, &i, 4, NULL));
        REQUIRE_OK(acre_symm_barrier(site.symm, 0, WAIT_MS));
        for (int r = 0; r < site.count; r++)
            EXPECT_EQ(seen[16 + r], i);
        REQUIRE_OK(acre_symm_barrier(site.symm, 1, WAIT_MS));
    }
    site_end(&site);
}

static void all_reduce(struct site *site, float *out, size_t count, acre_algorithm algorithm)
{
    acre_collective_options options = {.struct_size = sizeof options, .algorithm = algorithm,
                                       .timeout_ms = WAIT_MS};
    float *mine = (float *)(void *)(site->base + 64);

    fill(mine, site->rank, count);
    mine[count] = 5;
    REQUIRE_OK(acre_symm_all_reduce(site->symm, 64, count, ACRE_DTYPE_F32, out, &options));
    expect_sum(out ? out : mine, site->count, 0, count);
    EXPECT(mine[count] == 5);
    meet(site);
}

void far_suite_reduce(void)
{
    struct site site = site_make(1 << 20);
    acre_collective_options staged = {.struct_size = sizeof staged,
                                      .algorithm = ACRE_ALGORITHM_STAGED};
    float *out = floats(LONG_COUNT);
    uint16_t *halves = (uint16_t *)(void *)site.base, sum[64];

    for (size_t count = 1; count <= LONG_COUNT; count = count == 1 ? 1000 : count * 150) {
        all_reduce(&site, NULL, count, ACRE_ALGORITHM_AUTO);
        all_reduce(&site, out, count, ACRE_ALGORITHM_AUTO);
    }
    if (site.count == 2 || site.count == 4)
        all_reduce(&site, out, 9999, ACRE_ALGORITHM_TWO_SHOT);
    all_reduce(&site, NULL, 9999, ACRE_ALGORITHM_MULTICAST);
    EXPECT_EQ(acre_symm_all_reduce(site.symm, 0, 16, ACRE_DTYPE_F32, NULL, &staged),
              ACRE_ERR_UNSUPPORTED);
    fill(out, site.rank, 1000);
    REQUIRE_OK(acre_symm_all_reduce_copy(site.symm, 0, out, 1000, 1000, ACRE_DTYPE_F32, out,
                                         NULL));
    expect_sum(out, site.count, 0, 1000);
    /* Of 16-bit floats every rank gets the same bits: 256 + 1 + 1 ... rounds each time. */
    for (int i = 0; i < 64; i++)
        halves[i] = site.rank ? 0x3f80 : 0x4380;
    REQUIRE_OK(acre_symm_all_reduce(site.symm, 0, 64, ACRE_DTYPE_BF16, sum, NULL));
    for (int i = 0; i < 64; i++)
        EXPECT_EQ(sum[i], 0x4380);
    meet(&site);
    fill((float *)(void *)site.base, site.rank, 1000);
    memset(out, 0, 4000);
    REQUIRE_OK(acre_symm_reduce(site.symm, 0, 1000, ACRE_DTYPE_F32, 1, out, NULL));
    expect_sum(out, site.rank == 1 ? site.count : 0, 0, 1000);
    free(out);
    site_end(&site);
}

void far_suite_scatter(void)
{
    struct site site = site_make(1 << 20);
    size_t ranks = (size_t)site.count, columns = 8 * ranks, rows = 100;
    float *mine = (float *)(void *)site.base, *out = floats(LONG_COUNT), *in = floats(LONG_COUNT);

    /* Flat, long. */
    size_t count = 30000 * ranks;
    fill(mine, site.rank, count);
    REQUIRE_OK(acre_symm_reduce_scatter(site.symm, 0, NULL, 1, count, ACRE_DTYPE_F32, out, NULL));
    expect_sum(out, site.count, (size_t)site.rank * 30000, 30000);
    /* The last dimension of many rows, from the buffer and from ordinary memory. */
    fill(mine, site.rank, rows * columns);
    fill(in, site.rank, rows * columns);
    for (int pass = 0; pass < 2; pass++) {
        REQUIRE_OK(acre_symm_reduce_scatter(site.symm, 0, pass ? in : NULL, rows, columns,
                                            ACRE_DTYPE_F32, out, NULL));
        for (size_t row = 0; row < rows; row++)
            expect_sum(out + 8 * row, site.count, row * columns + 8 * (size_t)site.rank, 8);
    }
    /* A tile for one root. */
    acre_tile tile = {.offset = 4, .rows = 10, .columns = 7, .stride = 33};
    fill(mine, site.rank, 400);
    memset(out, 0, 4 * 400);
    REQUIRE_OK(acre_symm_tile_reduce(site.symm, &tile, ACRE_DTYPE_F32, 0, out, NULL));
    for (size_t row = 0; row < 10; row++) {
        expect_sum(out + 33 * row, site.rank == 0 ? site.count : 0, 1 + 33 * row, 7);
        EXPECT(out[33 * row + 7] == 0);
    }
    free(out);
    free(in);
    site_end(&site);
}

void far_suite_move(void)
{
    struct site site = site_make(1 << 20);
    size_t ranks = (size_t)site.count, bytes = 40000;
    char *in = malloc(bytes), *out = malloc(ranks * bytes);

    REQUIRE(in && out);
    memset(in, 'a' + site.rank, bytes);
    REQUIRE_OK(acre_symm_all_gather(site.symm, 0, in, bytes, NULL));
    for (size_t i = 0; i < ranks * bytes; i++)
        if (site.base[i] != (char)('a' + i / bytes)) {
            EXPECT_EQ(site.base[i], 'a' + i / bytes);
            break;
        }
    meet(&site);
    REQUIRE_OK(acre_symm_gather_out(site.symm, 0, in, bytes, out, NULL));
    for (size_t r = 0; r < ranks; r++)
        EXPECT(out[r * bytes] == (char)('a' + r) && out[(r + 1) * bytes - 1] == (char)('a' + r));
    meet(&site);
    memset(site.base, 'A' + site.rank, bytes);
    REQUIRE_OK(acre_symm_broadcast(site.symm, 0, bytes, 1, NULL));
    EXPECT(site.base[0] == 'B' && site.base[bytes - 1] == 'B');
    meet(&site);
    for (size_t r = 0; r < ranks; r++)
        memset(site.base + r * bytes, 'a' + 8 * site.rank + (int)r, bytes);
    REQUIRE_OK(acre_symm_all_to_all(site.symm, 0, bytes, out, NULL));
    for (size_t r = 0; r < ranks; r++)
        EXPECT_EQ(out[r * bytes + 17], 'a' + 8 * (int)r + site.rank);
    free(in);
    free(out);
    site_end(&site);
}

/* Two experts a rank: rows go there and come back. */
void far_suite_splits(void)
{
    struct site site = site_make(1 << 16);
    size_t ranks = (size_t)site.count, cells = 2 * ranks, rows = 0;
    int64_t splits[64], out_splits[64], out_offsets[64], back_splits[64], back_offsets[64];
    int64_t *in = (int64_t *)(void *)site.base, there[512], home[512];

    for (size_t i = 0; i < cells; i++) {
        splits[i] = (int64_t)((i + (size_t)site.rank) % 4);
        rows += (size_t)splits[i];
    }
    for (size_t i = 0; i < rows; i++)
        in[i] = 1000 * site.rank + (int64_t)i;
    acre_splits forth = {.struct_size = sizeof forth, .row_bytes = 8, .in_rows = rows,
                         .out_rows = 512, .experts = 2, .align = 4, .in_splits = splits,
                         .out_splits = out_splits, .out_offsets = out_offsets};
    REQUIRE_OK(acre_symm_all_to_all_v(site.symm, 0, &forth, there, NULL));
    memcpy(in, there, sizeof there);
    acre_splits back = {.struct_size = sizeof back, .row_bytes = 8, .in_rows = 512,
                        .out_rows = 512, .experts = 2, .in_splits = out_splits,
                        .in_offsets = out_offsets, .out_splits = back_splits,
                        .out_offsets = back_offsets};
    REQUIRE_OK(acre_symm_all_to_all_v(site.symm, 0, &back, home, NULL));
    EXPECT(memcmp(splits, back_splits, cells * sizeof *splits) == 0);
    for (size_t i = 0; i < rows; i++)
        EXPECT_EQ(home[i], 1000 * site.rank + (int64_t)i);
    site_end(&site);
}

void far_suite(const bool *is_near)
{
    far_suite_views(is_near);
    far_suite_one_sided();
    far_suite_signals();
    far_suite_reduce();
    far_suite_scatter();
    far_suite_move();
    far_suite_splits();
}
