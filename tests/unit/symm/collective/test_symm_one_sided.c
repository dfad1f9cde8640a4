/* SPDX-License-Identifier: MIT */
/* One-sided operations and words: S57, S58, S77. */
#include "symm/symm.h"

#include "tests/support/ranks.h"

#include <acre/collective.h>

static void one_sided(struct rank *me)
{
    uint64_t *base, data[64], rounds = t_count(5000, 1000000) / t_slowness() + 10;
    acre_symm *symm = ranks_symm(me, 1024, (void **)&base);
    int other = 1 - me->rank;

    for (int i = 0; i < 64; i++)
        data[i] = (uint64_t)(me->rank * 1000 + i);
    if (me->rank == 0)
        REQUIRE_OK(acre_symm_put(symm, 1, 0, data, 512, NULL));
    ranks_meet(me, 0);
    if (me->rank == 1) {
        for (int i = 0; i < 64; i++)
            EXPECT_EQ(base[i], i);
    } else {
        REQUIRE_OK(acre_symm_get(symm, 1, 0, data + 32, 8, NULL));
        EXPECT_EQ(data[32], 0);
    }
    EXPECT_EQ(acre_symm_put(symm, 2, 0, data, 8, NULL), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_symm_put(symm, -1, 0, data, 8, NULL), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_symm_put(symm, other, 1020, data, 8, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_symm_put_with_signal(symm, other, 0, data, 8, 9216 / 8, 1, NULL),
              ACRE_ERR_RANGE);
    for (uint64_t i = 1; i <= rounds; i++) { /* data is there before the value */
        data[0] = i * 3;
        REQUIRE_OK(acre_symm_put_with_signal(symm, other, 512 + i % 2 * 8, data, 8, 40, i,
                                             NULL));
        REQUIRE_OK(acre_symm_wait_for_signal(symm, other, 40, i, ACRE_WAIT_GEQ, NULL));
        if (base[64 + i % 2] != i * 3) {
            EXPECT_EQ(base[64 + i % 2], i * 3);
            break;
        }
    }
    acre_collective_options options = {.struct_size = sizeof options, .timeout_ms = 50};
    EXPECT_EQ(acre_symm_wait_for_signal(symm, other, 41, 5, ACRE_WAIT_EQ, &options),
              ACRE_ERR_TIMEOUT);
    ranks_meet(me, 2);
    REQUIRE_OK(acre_symm_put_with_signal(symm, other, 0, NULL, 0, 41, 5, NULL));
    REQUIRE_OK(acre_symm_wait_for_signal(symm, other, 41, 5, ACRE_WAIT_EQ, NULL));
    EXPECT_EQ(acre_symm_wait_for_signal(symm, other, 41, 4, ACRE_WAIT_EQ, &options),
              ACRE_ERR_TIMEOUT);
    ranks_meet(me, 1);
    acre_symm_release(symm);
    acre_symm_free(base);
}

TEST(S77_put_get_and_values)
{
    ranks_run(2, one_sided);
}

TEST(S57_S58_words)
{
    acre_group *group;
    acre_group_config config = {.struct_size = sizeof config, .world_size = 1, .name = "one"};
    uint32_t *words;
    acre_symm *symm;

    REQUIRE_OK(acre_group_create(&config, &group));
    REQUIRE_OK(acre_symm_alloc(NULL, 256, (void **)&words));
    REQUIRE_OK(acre_symm_rendezvous(words, "one", &symm));
    REQUIRE_OK(acre_symm_memset32(symm, words, 64, 32, 1, 16, NULL));
    for (int i = 0; i < 64; i++)
        EXPECT_EQ(words[i], i >= 32 && i < 48);
    REQUIRE_OK(acre_symm_write_value32(symm, words, 64, 63, 0xffffffff, NULL));
    EXPECT_EQ(words[63], 0xffffffff);
    EXPECT_EQ(acre_symm_write_value32(symm, words, 64, 64, 1, NULL), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "outside 64");
    EXPECT_EQ(acre_symm_write_value32(symm, words, 64, -1, 1, NULL), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "negative");
    EXPECT_EQ(acre_symm_write_value32(symm, words, 64, 0, -1, NULL), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "32 bits");
    EXPECT_EQ(acre_symm_write_value32(symm, words, 64, 0, 4294967296, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_symm_write_value32(symm, (char *)words + 1, 64, 0, 1, NULL),
              ACRE_ERR_INVALID);
    EXPECT_EQ(acre_symm_memset32(symm, words, 64, 0, 1, 0, NULL), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "positive");
    EXPECT_EQ(acre_symm_memset32(symm, words, 64, 60, 1, 5, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_symm_memset32(symm, words, 64, 60, 1, INT64_MAX - 10, NULL),
              ACRE_ERR_INVALID);
    EXPECT_EQ(acre_symm_write_value32(symm, words, 1, 1, 1, NULL), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "index 1 is outside 1 word");
    EXPECT(!strstr(acre_last_error(), "1 words"));
    acre_symm_release(symm);
    acre_symm_free(words);
    acre_group_destroy(group);
}

T_MAIN()
