/* SPDX-License-Identifier: MIT */
/* Remedies stand in order of use, with their effect. */
#include "explain/remedies.h"
#include "tests/support/t.h"

#include <string.h>

#define GIB ((uint64_t)1 << 30)

static struct notes notes;

static bool has_remedy(const acre_why *why, const char *part, uint64_t bytes, uint32_t is_enough)
{
    for (uint64_t i = 0; i < why->remedy_count; i++)
        if (strstr(why->remedies[i].text, part))
            return why->remedies[i].bytes == bytes && why->remedies[i].is_enough == is_enough;
    return false;
}

TEST(a_shortage_gets_effects)
{
    struct device_state state = {0};
    struct savings savings = {0};
    acre_why why = {.verdict = ACRE_VERDICT_SHORTAGE, .has_oom = 1, .oom_requested_bytes = GIB,
                    .missing_bytes = GIB, .outside_bytes = -1};

    state.categories[CATEGORY_ACTIVATIONS] = 6 * GIB;
    savings.batch_bytes = 3 * GIB;
    savings.optimizer_bytes = GIB / 4 * 3;
    REQUIRE_OK(remedies_find(&state, &savings, &notes, &why));
    EXPECT_EQ(why.remedy_count, 3);
    EXPECT(has_remedy(&why, "torch.utils.checkpoint", 4 * GIB, 1));
    EXPECT(has_remedy(&why, "Halve the batch", 3 * GIB, 1));
    EXPECT(has_remedy(&why, "8 bits", GIB / 4 * 3, 0));
    EXPECT_EQ(why.remedies[0].bytes, 4 * GIB);
    EXPECT_EQ(why.remedies[2].is_enough, 0);
    notes_fini(&notes);
}

TEST(fragmentation_names_the_setting_only_where_it_is_off)
{
    struct device_state state = {0};
    struct savings savings = {0};
    acre_why why = {.verdict = ACRE_VERDICT_FRAGMENTATION, .has_oom = 1,
                    .oom_requested_bytes = GIB, .free_split_bytes = 2 * GIB, .outside_bytes = -1};

    REQUIRE_OK(remedies_find(&state, &savings, &notes, &why));
    EXPECT(has_remedy(&why, "expandable_segments:True: up to", 2 * GIB, 1));
    why.is_expandable = 1;
    REQUIRE_OK(remedies_find(&state, &savings, &notes, &why));
    EXPECT(!has_remedy(&why, "expandable_segments:True: up to", 2 * GIB, 1));
    EXPECT(has_remedy(&why, "is on already", 2 * GIB, 1));
    notes_fini(&notes);
}

TEST(what_was_computed_stands_in_the_sentences)
{
    struct device_state state = {0};
    struct savings savings = {.checkpoint_bytes = 2 * GIB, .layer_count = 24,
                              .old_gradient_bytes = GIB, .temporary_bytes = GIB / 2,
                              .large_bytes = 4 * GIB, .large_text = "loss (b/model.py:7)"};
    acre_why why = {.verdict = ACRE_VERDICT_SHORTAGE, .has_oom = 1, .oom_requested_bytes = GIB,
                    .missing_bytes = GIB, .outside_bytes = -1};

    state.categories[CATEGORY_ACTIVATIONS] = 6 * GIB;
    REQUIRE_OK(remedies_find(&state, &savings, &notes, &why));
    EXPECT_EQ(why.remedy_count, 4);
    EXPECT(has_remedy(&why, "each of the 24 layers", 2 * GIB, 1));
    EXPECT(has_remedy(&why, "what this line holds: loss (b/model.py:7).", 3 * GIB, 1));
    EXPECT(has_remedy(&why, "left over from an earlier backward pass", GIB, 1));
    EXPECT(has_remedy(&why, "foreach=False", GIB / 2, 0));
    notes_fini(&notes);
}

/* Whatever else frees more, a leak fills it again. */
TEST(growth_stands_first)
{
    struct device_state state = {0};
    struct savings savings = {.checkpoint_bytes = 2 * GIB, .layer_count = 24, .batch_bytes = GIB};
    const acre_growth growth = {.bytes_from = GIB / 4, .bytes_to = GIB / 2, .text = "log (a.py:1)"};
    const acre_growth small = {.bytes_from = GIB, .bytes_to = GIB + GIB / 64, .text = ""};
    acre_why why = {.verdict = ACRE_VERDICT_SHORTAGE, .has_oom = 1, .oom_requested_bytes = GIB,
                    .missing_bytes = GIB, .outside_bytes = -1, .waiting_bytes = GIB,
                    .growth = &growth, .growth_count = 1};

    REQUIRE_OK(remedies_find(&state, &savings, &notes, &why));
    EXPECT_EQ(why.remedy_count, 4);
    EXPECT_HAS(why.remedies[0].text, "Find what keeps tensors alive: 256.00 MiB more");
    EXPECT_EQ(why.remedies[0].is_enough, 0);
    EXPECT_HAS(why.remedies[1].text, "Synchronise the streams");
    EXPECT_HAS(why.remedies[2].text, "torch.utils.checkpoint");
    why.growth = &small;
    REQUIRE_OK(remedies_find(&state, &savings, &notes, &why));
    EXPECT_HAS(why.remedies[0].text, "Find what keeps tensors alive: 16.00 MiB more");
    why.growth_count = 0;
    REQUIRE_OK(remedies_find(&state, &savings, &notes, &why));
    EXPECT(!strstr(why.remedies[0].text, "alive"));
    notes_fini(&notes);
}

TEST(without_a_failure_there_is_nothing_to_cure)
{
    struct device_state state = {0};
    struct savings savings = {0};
    acre_why why = {.verdict = ACRE_VERDICT_NONE};

    REQUIRE_OK(remedies_find(&state, &savings, &notes, &why));
    EXPECT_EQ(why.remedy_count, 0);
    why = (acre_why){.verdict = ACRE_VERDICT_LIMIT, .has_oom = 1, .oom_requested_bytes = GIB};
    state.categories[CATEGORY_ACTIVATIONS] = 6 * GIB;
    REQUIRE_OK(remedies_find(&state, &savings, &notes, &why));
    EXPECT_EQ(why.remedy_count, 0);
    notes_fini(&notes);
}

T_MAIN()
