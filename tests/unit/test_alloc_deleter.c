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
    acre_deleter of_a, of_b;

    REQUIRE_OK(deleter_bind(&a.owner, &of_a));
    REQUIRE_OK(deleter_bind(&b.owner, &of_b));
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
    acre_deleter of_a;

    REQUIRE_OK(deleter_bind(&a.owner, &of_a));
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
    acre_deleter deleters[DELETER_COUNT], extra = NULL, again;

    for (int i = 0; i < DELETER_COUNT; i++) {
        all[i].owner.free = count;
        REQUIRE_OK(deleter_bind(&all[i].owner, &deleters[i]));
    }
    EXPECT_EQ(deleter_bind(&all[DELETER_COUNT].owner, &extra), ACRE_ERR_LIMIT);
    EXPECT_HAS(acre_last_error(), "256");
    EXPECT(!extra);
    for (int i = 0; i < DELETER_COUNT; i++)
        deleters[i](&all[i]);
    for (int i = 0; i < DELETER_COUNT; i++)
        EXPECT(all[i].calls == 1 && all[i].last == &all[i]);
    deleter_unbind(deleters[100]);
    REQUIRE_OK(deleter_bind(&all[DELETER_COUNT].owner, &extra));
    EXPECT(extra == deleters[100]);
    for (int i = 0; i < DELETER_COUNT; i++)
        deleter_unbind(deleters[i]);
    /* The one freed last is not the one taken next. */
    REQUIRE_OK(deleter_bind(&all[0].owner, &extra));
    deleter_unbind(extra);
    REQUIRE_OK(deleter_bind(&all[0].owner, &again));
    EXPECT(extra != again);
    deleter_unbind(again);
}

T_MAIN()
