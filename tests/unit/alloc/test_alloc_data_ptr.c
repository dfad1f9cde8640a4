/* SPDX-License-Identifier: MIT */
/* Every sentence about data pointers, as a test. */
#include <acre/allocator.h>

#include "base/heap.h"
#include "tests/support/t.h"

static int deleted;
static void *deleted_context;

static void count(void *context)
{
    deleted++;
    deleted_context = context;
}

static void other(void *context)
{
    (void)context;
    deleted += 100;
}

static const acre_device_id cuda1 = {ACRE_DEVICE_CUDA, 1};
static int a, b;

static acre_data_ptr make(void *data, void *context)
{
    acre_data_ptr ptr;

    deleted = 0;
    deleted_context = NULL;
    acre_data_ptr_make(&ptr, data, context, count, cuda1);
    return ptr;
}

TEST(the_empty_value_owns_nothing)
{
    acre_data_ptr first = ACRE_DATA_PTR_EMPTY, second;

    acre_data_ptr_init(&second);
    EXPECT(!first.data && !first.context && !second.data && !second.context);
    EXPECT(first.deleter == acre_delete_nothing && second.deleter == acre_delete_nothing);
    EXPECT_EQ(second.device.type, ACRE_DEVICE_CPU);
    EXPECT_EQ(second.device.index, -1);
    EXPECT(!acre_data_ptr_is_set(&second));
    acre_data_ptr_clear(&second);
    acre_data_ptr_clear(NULL);
}

TEST(null_data_may_carry_any_device)
{
    acre_data_ptr ptr = make(NULL, NULL);

    EXPECT_EQ(ptr.device.type, ACRE_DEVICE_CUDA);
    EXPECT_EQ(ptr.device.index, 1);
    EXPECT(!acre_data_ptr_is_set(&ptr));
}

TEST(the_deleter_runs_if_and_only_if_there_is_a_context)
{
    acre_data_ptr ptr = make(&a, NULL);

    acre_data_ptr_clear(&ptr);
    EXPECT_EQ(deleted, 0);
    ptr = make(NULL, &b);
    acre_data_ptr_clear(&ptr);
    EXPECT_EQ(deleted, 1);
    EXPECT_PTR_EQ(deleted_context, &b);
}

TEST(clearing_sets_both_pointers_to_null_and_runs_once)
{
    acre_data_ptr ptr = make(&a, &b);

    acre_data_ptr_clear(&ptr);
    EXPECT(!ptr.data && !ptr.context);
    EXPECT_EQ(ptr.device.index, 1);
    acre_data_ptr_clear(&ptr);
    EXPECT_EQ(deleted, 1);
}

TEST(a_null_deleter_becomes_the_one_that_does_nothing)
{
    acre_data_ptr ptr;

    acre_data_ptr_make(&ptr, &a, &a, NULL, cuda1);
    EXPECT(ptr.deleter == acre_delete_nothing);
    acre_data_ptr_clear(&ptr);
    EXPECT(!ptr.data);
}

TEST(truth_is_data_or_context)
{
    acre_data_ptr ptr = make(&a, NULL);

    EXPECT(acre_data_ptr_is_set(&ptr));
    ptr = make(NULL, &a);
    EXPECT(acre_data_ptr_is_set(&ptr));
    ptr = make(NULL, NULL);
    EXPECT(!acre_data_ptr_is_set(&ptr));
}

TEST(moving_hands_over_and_deletes_what_was_there)
{
    acre_data_ptr from = make(&a, &a), to = make(&b, &b);

    acre_data_ptr_move(&to, &from);
    EXPECT_EQ(deleted, 1);
    EXPECT_PTR_EQ(deleted_context, &b);
    EXPECT_PTR_EQ(to.data, &a);
    EXPECT_PTR_EQ(to.context, &a);
    EXPECT_EQ(to.device.index, 1);
    EXPECT(!acre_data_ptr_is_set(&from));
    EXPECT_EQ(from.device.type, ACRE_DEVICE_CPU);
    acre_data_ptr_move(&to, &to);
    EXPECT_PTR_EQ(to.data, &a);
    EXPECT_EQ(deleted, 1);
    acre_data_ptr_clear(&from);
    EXPECT_EQ(deleted, 1);
    acre_data_ptr_clear(&to);
    EXPECT_EQ(deleted, 2);
}

TEST(releasing_the_context_disowns_it)
{
    acre_data_ptr ptr = make(&a, &b);

    EXPECT_PTR_EQ(acre_data_ptr_release_context(&ptr), &b);
    EXPECT_PTR_EQ(ptr.data, &a);
    acre_data_ptr_clear(&ptr);
    EXPECT_EQ(deleted, 0);
    EXPECT(!acre_data_ptr_release_context(&ptr));
}

TEST(moving_the_context_takes_the_deleter_along)
{
    acre_data_ptr ptr = make(&a, &b);
    acre_deleter deleter = NULL;

    EXPECT_PTR_EQ(acre_data_ptr_move_context(&ptr, &deleter), &b);
    EXPECT(deleter == count);
    EXPECT_PTR_EQ(ptr.data, &a);
    acre_data_ptr_clear(&ptr);
    EXPECT_EQ(deleted, 0);
    ptr = make(&a, &b);
    EXPECT_PTR_EQ(acre_data_ptr_move_context(&ptr, NULL), &b);
}

TEST(casting_asks_for_the_deleter)
{
    acre_data_ptr ptr = make(&a, &b);

    EXPECT_PTR_EQ(acre_data_ptr_cast_context(&ptr, count), &b);
    EXPECT(!acre_data_ptr_cast_context(&ptr, other));
    EXPECT_PTR_EQ(ptr.context, &b);
}

TEST(the_deleter_is_exchanged_only_when_expected)
{
    acre_data_ptr ptr = make(&a, &b);

    EXPECT(!acre_data_ptr_compare_exchange_deleter(&ptr, other, acre_delete_nothing));
    EXPECT(ptr.deleter == count);
    EXPECT(acre_data_ptr_compare_exchange_deleter(&ptr, count, other));
    acre_data_ptr_clear(&ptr);
    EXPECT_EQ(deleted, 100);
    EXPECT(acre_data_ptr_compare_exchange_deleter(&ptr, other, NULL));
    EXPECT(ptr.deleter == acre_delete_nothing);
}

TEST(resetting_works_only_while_nothing_is_to_be_deleted)
{
    acre_data_ptr ptr = make(&a, &a), plain = ACRE_DATA_PTR_EMPTY;

    EXPECT(!acre_data_ptr_unsafe_reset(&ptr, &b));
    EXPECT_PTR_EQ(ptr.data, &a);
    EXPECT(acre_data_ptr_unsafe_reset(&plain, &b));
    EXPECT_PTR_EQ(plain.data, &b);
    EXPECT_PTR_EQ(plain.context, &b);
    EXPECT(acre_data_ptr_is_simple(&plain));
    EXPECT_EQ(deleted, 0);
}

TEST(the_device_is_overwritten_alone)
{
    acre_data_ptr ptr = make(&a, &b);

    acre_data_ptr_unsafe_set_device(&ptr, (acre_device_id){ACRE_DEVICE_HIP, 3});
    EXPECT_EQ(ptr.device.type, ACRE_DEVICE_HIP);
    EXPECT_EQ(ptr.device.index, 3);
    EXPECT(ptr.data == &a && ptr.context == &b && ptr.deleter == count);
    EXPECT(!acre_data_ptr_is_simple(&ptr));
}

static void *closure_arg, *closure_data;

static void closure(void *arg, void *data)
{
    closure_arg = arg;
    closure_data = data;
}

TEST(a_closure_is_called_with_its_argument_and_data)
{
    uint64_t live = heap_live_count();
    acre_data_ptr ptr;

    REQUIRE_OK(acre_data_ptr_closure(&a, closure, &b, cuda1, &ptr));
    EXPECT_PTR_EQ(ptr.data, &a);
    EXPECT_EQ(heap_live_count(), live + 1);
    EXPECT_PTR_EQ(acre_data_ptr_cast_context(&ptr, acre_delete_closure), ptr.context);
    EXPECT_EQ(ptr.device.index, 1);
    acre_data_ptr_clear(&ptr);
    EXPECT_PTR_EQ(closure_arg, &b);
    EXPECT_PTR_EQ(closure_data, &a);
    EXPECT_EQ(heap_live_count(), live);
}

TEST(a_closure_that_could_not_be_made_is_not_called)
{
    acre_data_ptr ptr = ACRE_DATA_PTR_EMPTY;

    closure_data = NULL;
    heap_fail_nth(1);
    EXPECT_EQ(acre_data_ptr_closure(&a, closure, &b, cuda1, &ptr), ACRE_ERR_HOST_MEMORY);
    heap_fail_disarm();
    EXPECT(!acre_data_ptr_is_set(&ptr));
    EXPECT(!closure_data);
    EXPECT_EQ(acre_data_ptr_closure(&a, NULL, &b, cuda1, &ptr), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_data_ptr_closure(&a, closure, &b, cuda1, NULL), ACRE_ERR_INVALID);
}

static void clear_again(void *context)
{
    acre_data_ptr *self = context;

    EXPECT(!self->context);
    acre_data_ptr_clear(self);
    deleted++;
}

TEST(a_deleter_may_clear_its_own_pointer)
{
    acre_data_ptr ptr;

    deleted = 0;
    acre_data_ptr_make(&ptr, &a, &ptr, clear_again, cuda1);
    acre_data_ptr_clear(&ptr);
    EXPECT_EQ(deleted, 1);
}

T_MAIN()
