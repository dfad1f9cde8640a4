/* SPDX-License-Identifier: MIT */
/* Recorded jobs replayed as allocations of page-locked host memory: what policy acre
 * holds beyond what was asked for is at most a third of what powers of two take. */
#include "tests/support/t.h"

#include <acre/trace.h>

static acre_replay_pass replay(const char *path, acre_policy policy)
{
    acre_replay_config config = {.struct_size = sizeof config, .policy = policy,
                                 .flags = ACRE_REPLAY_HOST};
    acre_replay_result result = {.struct_size = sizeof result};

    REQUIRE_OK(acre_replay(path, &config, &result));
    EXPECT_EQ(result.first.ooms, 0);
    return result.first;
}

static void compare(const char *name)
{
    char file[128];

    if (getenv("ACRE_TEST_SHORT"))
        T_SKIP("figures are those of the plain build; sanitizers look at the model");
    snprintf(file, sizeof file, "traces/public/%s.trace.gz", name);
    const char *path = t_shared(file);
    if (!path)
        T_SKIP("the traces are not at hand");
    acre_replay_pass torch = replay(path, ACRE_POLICY_TORCH);
    acre_replay_pass acre = replay(path, ACRE_POLICY_ACRE);
    if (getenv("ACRE_FIGURES"))
        printf("%-20s torch %+.1f %%, acre %+.1f %%\n", name, (double)torch.waste_ppm / 1e4,
               (double)acre.waste_ppm / 1e4);
    EXPECT_LE(3 * acre.waste_ppm, torch.waste_ppm);
    EXPECT_LE(acre.device_allocs, torch.device_allocs);
}

TEST(waste_of_training_with_variable_lengths)
{
    compare("gpt12_varlen_ckpt");
    compare("lstm_lm_tbptt");
}

TEST(waste_of_training_that_repeats)
{
    compare("resnet50_sgd");
    compare("unet_ddpm");
    compare("gpt12_varlen_adam");
}

TEST(waste_of_detection_and_serving)
{
    compare("fasterrcnn_varsize");
    compare("kvcache_serving");
}

TEST(a_plan_or_a_capacity_makes_no_sense_for_host_memory)
{
    acre_replay_config config = {.struct_size = sizeof config,
                                 .flags = ACRE_REPLAY_HOST | ACRE_REPLAY_PLAN};
    acre_replay_result result = {.struct_size = sizeof result};

    EXPECT_EQ(acre_replay("nowhere", &config, &result), ACRE_ERR_INVALID);
    config.flags = ACRE_REPLAY_HOST | ACRE_REPLAY_MIN_CAPACITY;
    EXPECT_EQ(acre_replay("nowhere", &config, &result), ACRE_ERR_INVALID);
}

T_MAIN()
