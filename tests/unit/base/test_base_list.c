/* SPDX-License-Identifier: MIT */
#include "base/list.h"

#include "tests/support/t.h"

#include <acre/base.h>

struct item {
    int number;
    struct list link;
};

static void expect_order(struct list *head, const char *digits)
{
    size_t i = 0;

    LIST_FOR_EACH(it, head) {
        EXPECT_EQ(CONTAINER_OF(it, struct item, link)->number, digits[i] - '0');
        EXPECT_PTR_EQ(it->next->prev, it);
        i++;
    }
    EXPECT_EQ(i, strlen(digits));
}

TEST(pushes_inserts_and_removes)
{
    struct list head = LIST_INITIALIZER(head);
    struct item items[4] = {{.number = 0}, {.number = 1}, {.number = 2}, {.number = 3}};

    EXPECT(list_empty(&head));
    list_push_back(&head, &items[1].link);
    list_push_back(&head, &items[2].link);
    list_push_front(&head, &items[0].link);
    list_insert(&items[2].link, &items[3].link);
    expect_order(&head, "0132");
    EXPECT(!list_empty(&head));
    list_remove(&items[3].link);
    expect_order(&head, "012");
    list_remove(&items[3].link);
    expect_order(&head, "012");
    EXPECT(list_empty(&items[3].link));
}

TEST(the_current_element_may_be_removed)
{
    struct list head;
    struct item items[5];

    list_init(&head);
    for (int i = 0; i < 5; i++) {
        items[i].number = i;
        list_push_back(&head, &items[i].link);
    }
    LIST_FOR_EACH_SAFE(it, after, &head)
        if (CONTAINER_OF(it, struct item, link)->number % 2 == 0)
            list_remove(it);
    expect_order(&head, "13");
}

T_MAIN()
