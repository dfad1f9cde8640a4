/* SPDX-License-Identifier: MIT */
#include "base/heap.h"
#include "cache/observe/stacks.h"
#include "tests/support/t.h"

TEST(equal_stacks_have_one_number_and_others_another)
{
    struct stacks stacks = {0};
    const uint64_t a[] = {1, 2, 3}, b[] = {1, 2, 4}, c[] = {1, 2};
    size_t count;

    EXPECT_EQ(stacks_count(&stacks), 1);
    uint32_t one = stacks_intern(&stacks, a, 3);
    EXPECT_NE(one, 0);
    EXPECT_EQ(stacks_intern(&stacks, a, 3), one);
    EXPECT_NE(stacks_intern(&stacks, b, 3), one);
    EXPECT_NE(stacks_intern(&stacks, c, 2), one);
    EXPECT_EQ(stacks_count(&stacks), 4);
    const uint64_t *frames = stacks_frames(&stacks, one, &count);
    REQUIRE_EQ(count, 3);
    EXPECT_EQ(frames[2], 3);
    stacks_fini(&stacks);
}

TEST(no_frames_and_unknown_numbers_are_the_empty_stack)
{
    struct stacks stacks = {0};
    size_t count = 7;

    EXPECT_EQ(stacks_intern(&stacks, NULL, 0), 0);
    EXPECT_PTR_EQ(stacks_frames(&stacks, 0, &count), NULL);
    EXPECT_EQ(count, 0);
    EXPECT_PTR_EQ(stacks_frames(&stacks, 99, &count), NULL);
    stacks_fini(&stacks);
}

TEST(many_stacks_are_all_found_again)
{
    struct stacks stacks = {0};
    uint64_t frames[5], seed = t_seed();
    enum { COUNT = 5000 };
    static uint32_t numbers[COUNT];

    for (int round = 0; round < 2; round++) {
        uint64_t state = seed;
        for (int i = 0; i < COUNT; i++) {
            for (int k = 0; k < 5; k++)
                frames[k] = k ? t_random(&state) % 3 : (uint64_t)i;
            uint32_t number = stacks_intern(&stacks, frames, 5);
            if (round == 0)
                numbers[i] = number;
            REQUIRE_EQ(number, numbers[i]);
            REQUIRE(number != 0);
        }
    }
    EXPECT_EQ(stacks_count(&stacks), COUNT + 1);
    stacks_fini(&stacks);
}

TEST(without_memory_a_stack_is_not_known_and_nothing_else_changes)
{
    uint64_t before = heap_live_count();

    for (uint64_t nth = 1; nth < 20; nth++) {
        struct stacks stacks = {0};
        uint64_t frame = 0;
        size_t count;
        heap_fail_nth(nth);
        for (frame = 1; frame < 200; frame++)
            stacks_intern(&stacks, &frame, 1);
        heap_fail_disarm();
        for (frame = 1; frame < 200; frame++) {
            uint32_t number = stacks_intern(&stacks, &frame, 1);
            const uint64_t *frames = stacks_frames(&stacks, number, &count);
            REQUIRE(count == 1 && frames[0] == frame);
        }
        stacks_fini(&stacks);
    }
    EXPECT_EQ(heap_live_count(), before);
}

static void count_up(void *arg, void *object)
{
    (void)arg;
    ++*(int *)object;
}

static void count_down(void *arg, void *object)
{
    (void)arg;
    --*(int *)object;
}

static const acre_context_objects counted = {.retain = count_up, .release = count_down};

TEST(an_object_lives_as_long_as_its_uses)
{
    struct stacks stacks = {.objects = counted};
    const uint64_t frame = 5;
    int a = 0, b = 0;
    size_t count;

    uint32_t frames = stacks_intern(&stacks, &frame, 1);
    uint32_t one = stacks_object_add(&stacks, &a);
    EXPECT_EQ(a, 1);
    EXPECT_PTR_EQ(stacks_object(&stacks, one), &a);
    EXPECT_PTR_EQ(stacks_object(&stacks, frames), NULL);
    EXPECT_PTR_EQ(stacks_frames(&stacks, one, &count), stacks.words);
    EXPECT_EQ(count, 0);
    stacks_use(&stacks, one);
    stacks_drop(&stacks, one);
    EXPECT_EQ(a, 1);
    stacks_drop(&stacks, one);
    EXPECT_EQ(a, 0);
    EXPECT_EQ(stacks_object_add(&stacks, &b), one); /* the number is used again */
    EXPECT_EQ(b, 1);
    stacks_use(&stacks, frames);
    stacks_drop(&stacks, frames); /* frames do not count */
    stacks_drop(&stacks, frames);
    stacks_drop(&stacks, 0);
    EXPECT_EQ(stacks_intern(&stacks, &frame, 1), frames);
    stacks_fini(&stacks);
    EXPECT_EQ(b, 0);
}

TEST(objects_of_another_kind_replace_those_before)
{
    struct stacks stacks = {.objects = counted};
    int a = 0, b = 0;

    uint32_t one = stacks_object_add(&stacks, &a);
    stacks_objects_change(&stacks, &counted);
    EXPECT_EQ(a, 0);
    EXPECT_PTR_EQ(stacks_object(&stacks, one), NULL);
    EXPECT_NE(stacks_object_add(&stacks, &b), one); /* its number is still in use */
    stacks_drop(&stacks, one);
    EXPECT_EQ(a, 0);
    stacks_fini(&stacks);
    EXPECT_EQ(b, 0);
}

TEST(many_objects_and_frames_beside_each_other)
{
    struct stacks stacks = {.objects = counted};
    uint64_t state = t_seed();
    enum { COUNT = 300 };
    static int objects[COUNT];
    uint32_t numbers[COUNT] = {0};

    for (int i = 0; i < 20000; i++) {
        uint64_t frame = t_random(&state) % 500;
        size_t k = t_random(&state) % COUNT, count;
        if (numbers[k])
            stacks_drop(&stacks, numbers[k]);
        numbers[k] = numbers[k] ? 0 : stacks_object_add(&stacks, &objects[k]);
        REQUIRE_EQ(objects[k], numbers[k] != 0);
        const uint64_t *found =
            stacks_frames(&stacks, stacks_intern(&stacks, &frame, 1), &count);
        REQUIRE(count == 1 && *found == frame);
    }
    EXPECT_LE(stacks_count(&stacks), COUNT + 500 + 1);
    stacks_fini(&stacks);
    for (int k = 0; k < COUNT; k++)
        EXPECT_EQ(objects[k], 0);
}

T_MAIN()
