/* SPDX-License-Identifier: MIT */
#include "symm/store/message.h"

#include "base/heap.h"
#include "symm/store/store.h"
#include "symm/store/table.h"

#include "tests/support/t.h"

static struct bytes items[] = {{"key", 3}, {"value", 5}};
static const struct message sample = {.verb = VERB_SET, .number = -3, .wait_ms = 9, .count = 2,
                                      .items = items};

TEST(a_message_is_the_same_after_a_journey)
{
    struct message back;
    acre_blob bytes;

    REQUIRE_OK(message_encode(&sample, &bytes));
    REQUIRE_OK(message_decode(bytes.data, bytes.bytes, &back));
    EXPECT_EQ(back.verb, VERB_SET);
    EXPECT_EQ(back.number, -3);
    EXPECT_EQ(back.wait_ms, 9);
    EXPECT_EQ(back.count, 2);
    EXPECT(memcmp(back.items[1].data, "value", 5) == 0);
    message_fini(&back);
    acre_blob_free(&bytes);
}

TEST(what_is_cut_short_or_too_long_is_refused)
{
    struct message back;
    struct reply reply;
    acre_blob bytes;

    REQUIRE_OK(message_encode(&sample, &bytes));
    for (size_t size = 0; size < bytes.bytes; size++) {
        EXPECT_EQ(message_decode(bytes.data, size, &back), ACRE_ERR_FORMAT);
        EXPECT_EQ(reply_decode(bytes.data, size, &reply), ACRE_ERR_FORMAT);
    }
    acre_blob_free(&bytes);
    EXPECT_EQ(heap_live_count(), 0);
}

TEST(items_that_do_not_fit_the_verb_are_refused)
{
    struct message back;
    acre_blob bytes;

    for (int verb = 0; verb <= VERB_LAST + 1; verb++) {
        struct message message = {.verb = (enum verb)verb, .count = 4,
                                  .items = (struct bytes[]){{"", 0}, {"a", 1}, {"b", 1}, {"c", 1}}};
        REQUIRE_OK(message_encode(&message, &bytes));
        EXPECT_EQ(message_decode(bytes.data, bytes.bytes, &back), ACRE_ERR_FORMAT);
        acre_blob_free(&bytes);
    }
    struct bytes zero = {"a\0b", 3};
    REQUIRE_OK(message_encode(&(struct message){.verb = VERB_GET, .count = 1, .items = &zero},
                              &bytes));
    EXPECT_EQ(message_decode(bytes.data, bytes.bytes, &back), ACRE_ERR_FORMAT);
    acre_blob_free(&bytes);
}

TEST(a_table_waits_for_keys_and_says_which)
{
    struct table table;
    struct reply reply = {0};
    struct message get = {.verb = VERB_GET, .count = 1, .items = items};

    table_init(&table);
    EXPECT_EQ(table_apply(&table, &get, &reply), ACRE_ERR_NOT_READY);
    EXPECT_EQ(table_missing(&table, &get)->size, 3);
    REQUIRE_OK(table_apply(&table, &sample, &reply));
    REQUIRE_OK(table_apply(&table, &get, &reply));
    EXPECT_STR_EQ(reply.items[0].data, "value");
    reply_fini(&reply);
    table_fini(&table);
    EXPECT_EQ(heap_live_count(), 0);
}

T_MAIN()
