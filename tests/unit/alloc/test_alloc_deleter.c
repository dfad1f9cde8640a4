/* SPDX-License-Identifier: MIT */
/* Deleters that know whose they are. */
#include "alloc/deleter.h"

#include "base/list.h"
#include "tests/support/t.h"

struct counted {
    struct deleter_owner owner;
    int calls;
    void *last;
};

static void count(struct deleter_owner *owner, void *pointer)
{
    struct counted *counted = CONTAINER_OF(owner, struct counted, owner);

    counted->calls++;
    counted->last = pointer;
}

TEST(each_calls_its_own_owner)
{
    struct counted a = {.owner.free = count}, b = {.owner.free = count};

    REQUIRE_OK(deleter_bind(&a.owner));
    REQUIRE_OK(deleter_bind(&b.owner));
    acre_deleter of_a = deleter_of_self(&a), of_b = deleter_of_self(&b);
    EXPECT(of_a != of_b);
    EXPECT(deleter_owner_of(of_a) == &a.owner);
    EXPECT(deleter_owner_of(of_b) == &b.owner);
    of_a(&a);
    of_b(&b);
    of_b(&a);
    EXPECT_EQ(a.calls, 1);
    EXPECT_PTR_EQ(a.last, &a);
    EXPECT_EQ(b.calls, 2);
    EXPECT_PTR_EQ(b.last, &a);
    deleter_unbind(of_a);
    deleter_unbind(of_b);
}

TEST(nothing_is_deleted_for_nobody)
{
    struct counted a = {.owner.free = count};

    REQUIRE_OK(deleter_bind(&a.owner));
    acre_deleter of_a = a.owner.deleter;
    of_a(NULL);
    EXPECT_EQ(a.calls, 0);
    deleter_unbind(of_a);
    EXPECT(!deleter_owner_of(of_a));
    of_a(&a);
    of_a(NULL);
    EXPECT_EQ(a.calls, 0);
    EXPECT(!deleter_owner_of(acre_delete_nothing));
    EXPECT(!deleter_owner_of(NULL));
    deleter_unbind(acre_delete_nothing);
}

TEST(they_run_out_and_are_used_in_turn)
{
    static struct counted all[DELETER_COUNT + 1];
    struct counted *extra = &all[DELETER_COUNT];

    for (int i = 0; i <= DELETER_COUNT; i++)
        all[i].owner.free = count;
    for (int i = 0; i < DELETER_COUNT; i++)
        REQUIRE_OK(deleter_bind(&all[i].owner));
    EXPECT_EQ(deleter_bind(&extra->owner), ACRE_ERR_LIMIT);
    EXPECT_HAS(acre_last_error(), "256");
    EXPECT(!extra->owner.deleter);
    for (int i = 0; i < DELETER_COUNT; i++)
        all[i].owner.deleter(&all[i]);
    for (int i = 0; i < DELETER_COUNT; i++)
        EXPECT(all[i].calls == 1 && all[i].last == &all[i]);
    deleter_unbind(all[100].owner.deleter);
    REQUIRE_OK(deleter_bind(&extra->owner));
    EXPECT(extra->owner.deleter == all[100].owner.deleter);
    for (int i = 0; i < DELETER_COUNT; i++)
        deleter_unbind(all[i].owner.deleter);
    /* The one freed last is not the one taken next. */
    REQUIRE_OK(deleter_bind(&all[0].owner));
    acre_deleter before = all[0].owner.deleter;
    deleter_unbind(before);
    REQUIRE_OK(deleter_bind(&all[0].owner));
    EXPECT(all[0].owner.deleter != before);
    deleter_unbind(all[0].owner.deleter);
}

T_MAIN()
