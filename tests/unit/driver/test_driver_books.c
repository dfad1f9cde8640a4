/* SPDX-License-Identifier: MIT */
#include "driver/books.h"

#include "base/heap.h"
#include "tests/support/t.h"

static struct book_range range_of(uintptr_t base, size_t bytes, int device,
                                  enum range_origin origin)
{
    return (struct book_range){.base = base, .bytes = bytes, .native = (void *)base,
                               .device = device, .origin = origin};
}

TEST(ranges_are_found_by_any_address_inside)
{
    struct book_range range = range_of(0x10000, 0x1000, 1, RANGE_ALLOC), found;
    struct books books;

    books_init(&books);
    REQUIRE_OK(books_put(&books, &range));
    EXPECT(books_find(&books, (void *)0x10000, &found));
    EXPECT(books_find(&books, (void *)0x10fff, &found));
    EXPECT_EQ(found.base, 0x10000);
    EXPECT_EQ(found.device, 1);
    EXPECT(!books_find(&books, (void *)0xffff, &found));
    EXPECT(!books_find(&books, (void *)0x11000, &found));
    books_fini(&books);
    EXPECT_EQ(heap_live_count(), 0);
}

TEST(ranges_do_not_overlap)
{
    struct book_range range = range_of(0x10000, 0x1000, 0, RANGE_ALLOC);
    struct books books;
    uint64_t ranges, objects;

    books_init(&books);
    REQUIRE_OK(books_put(&books, &range));
    for (uintptr_t base = 0xf001; base < 0x11000; base += 0x3ff) {
        range = range_of(base, 0x1000, 0, RANGE_HOST);
        EXPECT_EQ(books_put(&books, &range), ACRE_ERR_EXISTS);
    }
    EXPECT_HAS(acre_last_error(), "overlap a device allocation of 4096 bytes");
    range = range_of(0xf000, 0x1000, 0, RANGE_HOST);
    REQUIRE_OK(books_put(&books, &range));
    range = range_of(0x11000, 1, 0, RANGE_HOST);
    REQUIRE_OK(books_put(&books, &range));
    books_count(&books, &ranges, &objects);
    EXPECT_EQ(ranges, 3);
    EXPECT_EQ(objects, 0);
    books_fini(&books);
}

TEST(only_an_exact_base_of_its_family_and_device_is_taken)
{
    struct book_range range = range_of(0x10000, 0x1000, 1, RANGE_ALLOC), out;
    struct books books;

    books_init(&books);
    REQUIRE_OK(books_put(&books, &range));
    EXPECT_EQ(books_take(&books, RANGE_ALLOC, 1, (void *)0x10001, &out), ACRE_ERR_INVALID);
    EXPECT_EQ(books_take(&books, RANGE_HOST, 1, (void *)0x10000, &out), ACRE_ERR_INVALID);
    EXPECT_EQ(books_take(&books, RANGE_ALLOC, 0, (void *)0x10000, &out), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "not the base of a device allocation of device 0");
    REQUIRE_OK(books_take(&books, RANGE_ALLOC, 1, (void *)0x10000, &out));
    EXPECT_EQ(out.bytes, 0x1000);
    EXPECT_EQ(books_range_settle(&books, &out, ACRE_OK), ACRE_OK);
    EXPECT_EQ(books_take(&books, RANGE_ALLOC, 1, (void *)0x10000, &out), ACRE_ERR_INVALID);
    range = range_of(0x20000, 16, -1, RANGE_HOST);
    REQUIRE_OK(books_put(&books, &range));
    EXPECT(books_any(&books, &out));
    REQUIRE_OK(books_take(&books, RANGE_HOST, 5, (void *)0x20000, &out));
    EXPECT_EQ(books_range_settle(&books, &out, ACRE_OK), ACRE_OK);
    EXPECT(!books_any(&books, &out));
    books_fini(&books);
}

TEST(opened_memory_counts_how_often_it_is_open)
{
    struct book_range range = range_of(0x30000, 0x2000, 0, RANGE_OPENED), out;
    struct books books;

    books_init(&books);
    REQUIRE_OK(books_put(&books, &range));
    REQUIRE_OK(books_put(&books, &range));
    REQUIRE_OK(books_take(&books, RANGE_OPENED, 0, (void *)0x30000, &out));
    EXPECT_EQ(out.open_count, 1);
    EXPECT_EQ(books_range_settle(&books, &out, ACRE_ERR_DEVICE), ACRE_ERR_DEVICE);
    REQUIRE_OK(books_take(&books, RANGE_OPENED, 0, (void *)0x30000, &out));
    EXPECT_EQ(out.open_count, 1);
    EXPECT_EQ(books_range_settle(&books, &out, ACRE_OK), ACRE_OK);
    EXPECT(books_find(&books, (void *)0x31000, &range));
    REQUIRE_OK(books_take(&books, RANGE_OPENED, 0, (void *)0x30000, &out));
    EXPECT(!books_find(&books, (void *)0x31000, &range));
    EXPECT_EQ(books_range_settle(&books, &out, ACRE_OK), ACRE_OK);
    books_fini(&books);
    EXPECT_EQ(heap_live_count(), 0);
}

static int fini_count;

static void count_fini(struct object *object)
{
    (void)object;
    fini_count++;
}

TEST(objects_are_known_by_kind_until_taken)
{
    struct object *graph = heap_zalloc(sizeof *graph), *left = heap_zalloc(sizeof *left);
    struct books books;
    int foreign;

    graph->kind = OBJECT_GRAPH;
    *left = (struct object){OBJECT_MULTICAST, count_fini};
    books_init(&books);
    REQUIRE_OK(books_object_put(&books, graph));
    REQUIRE_OK(books_object_put(&books, left));
    REQUIRE_OK(books_object_check(&books, OBJECT_GRAPH, graph));
    EXPECT_EQ(books_object_check(&books, OBJECT_MEMORY, graph), ACRE_ERR_INVALID);
    EXPECT_EQ(books_object_check(&books, OBJECT_GRAPH, &foreign), ACRE_ERR_INVALID);
    REQUIRE_OK(books_object_take(&books, OBJECT_GRAPH, graph));
    EXPECT_EQ(books_object_take(&books, OBJECT_GRAPH, graph), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "is not a graph: unknown, or given back already");
    EXPECT_EQ(books_object_settle(&books, graph, ACRE_OK), ACRE_OK);
    books_fini(&books);
    EXPECT_EQ(fini_count, 1);
    EXPECT_EQ(heap_live_count(), 0);
}

TEST(books_without_memory_say_so_and_stay_as_they_were)
{
    struct book_range range = range_of(0x10000, 16, 0, RANGE_ALLOC), out;
    struct object object = {OBJECT_GRAPH, NULL};
    struct books books;

    books_init(&books);
    heap_fail_nth(1);
    EXPECT_EQ(books_put(&books, &range), ACRE_ERR_HOST_MEMORY);
    heap_fail_nth(1);
    EXPECT_EQ(books_object_put(&books, &object), ACRE_ERR_HOST_MEMORY);
    heap_fail_disarm();
    EXPECT(!books_any(&books, &out));
    EXPECT_EQ(books_object_check(&books, OBJECT_GRAPH, &object), ACRE_ERR_INVALID);
    books_fini(&books);
    EXPECT_EQ(heap_live_count(), 0);
}

/* Others fill the map meanwhile, so that one object more would make it grow. */
TEST(what_a_driver_refuses_is_put_back_without_memory)
{
    struct book_range range = range_of(0x10000, 16, 0, RANGE_ALLOC), out;
    struct object objects[12], *taken = heap_zalloc(sizeof *taken);
    struct books books;

    taken->kind = OBJECT_GRAPH;
    books_init(&books);
    REQUIRE_OK(books_put(&books, &range));
    REQUIRE_OK(books_object_put(&books, taken));
    REQUIRE_OK(books_take(&books, RANGE_ALLOC, 0, (void *)0x10000, &out));
    REQUIRE_OK(books_object_take(&books, OBJECT_GRAPH, taken));
    for (int i = 0; i < 12; i++) {
        objects[i] = (struct object){OBJECT_MEMORY, NULL};
        REQUIRE_OK(books_object_put(&books, &objects[i]));
    }
    heap_fail_nth(1);
    EXPECT_EQ(books_range_settle(&books, &out, ACRE_ERR_DEVICE), ACRE_ERR_DEVICE);
    EXPECT_EQ(books_object_settle(&books, taken, ACRE_ERR_DEVICE), ACRE_ERR_DEVICE);
    heap_fail_disarm();
    EXPECT(books_find(&books, (void *)0x1000f, &out));
    EXPECT_EQ(books_object_check(&books, OBJECT_GRAPH, taken), ACRE_OK);
    for (int i = 0; i < 12; i++)
        REQUIRE_OK(books_object_take(&books, OBJECT_MEMORY, &objects[i]));
    books_fini(&books);
    EXPECT_EQ(heap_live_count(), 0);
}

T_MAIN()
