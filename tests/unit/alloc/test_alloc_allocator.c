/* SPDX-License-Identifier: MIT */
/* Allocators as tables: what is refused, and the calls that every one has. The
 * allocator under test hands out host memory and can be made to fail. */
#include <acre/allocator.h>

#include "base/heap.h"
#include "base/status.h"
#include "tests/support/t.h"

struct toy {
    int live, is_wrapped, copy_fails, destroyed;
};

static struct toy *toy_now; /* for the raw deleter, which has no self */

static void toy_delete(void *context)
{
    toy_now->live--;
    heap_free(context);
}

static void toy_delete_wrapped(void *arg, void *data)
{
    ((struct toy *)arg)->live--;
    heap_free(data);
}

static acre_status toy_allocate(void *self, size_t bytes, acre_data_ptr *out)
{
    struct toy *toy = self;
    acre_device_id device = {ACRE_DEVICE_PRIVATE, 3};
    void *memory = bytes ? heap_zalloc(bytes) : NULL;

    if (bytes && !memory)
        return ACRE_ERR_HOST_MEMORY;
    if (toy->is_wrapped) {
        acre_status status = acre_data_ptr_closure(memory, toy_delete_wrapped, toy, device, out);
        if (status != ACRE_OK) {
            heap_free(memory);
            return status;
        }
    } else {
        acre_data_ptr_make(out, memory, memory, toy_delete, device);
    }
    toy->live += bytes != 0;
    return ACRE_OK;
}

static acre_status toy_copy(void *self, void *dst, const void *src, size_t bytes)
{
    if (((struct toy *)self)->copy_fails)
        return status_fail(ACRE_ERR_DEVICE, "the copy failed on demand");
    return acre_copy_memory(self, dst, src, bytes);
}

static acre_deleter toy_raw_deleter(void *self)
{
    return ((struct toy *)self)->is_wrapped ? NULL : toy_delete;
}

static bool toy_ready(void *self)
{
    return ((struct toy *)self)->live >= 0;
}

static acre_status toy_nothing(void *self)
{
    (void)self;
    return ACRE_OK;
}

static acre_status toy_record(void *self, const acre_data_ptr *ptr, acre_stream stream)
{
    (void)self;
    return stream.id == 7 && ptr->data ? ACRE_OK : ACRE_ERR_INVALID;
}

static acre_status toy_stats(void *self, int device, acre_allocator_stats *stats)
{
    stats->allocated_bytes.current = ((struct toy *)self)->live;
    stats->num_device_alloc = device;
    return ACRE_OK;
}

static acre_status toy_reset(void *self, int device)
{
    (void)self;
    return device == 5 ? ACRE_OK : ACRE_ERR_RANGE;
}

static void toy_destroy(void *self)
{
    ((struct toy *)self)->destroyed++;
}

static acre_allocator_ops toy_ops(void)
{
    return (acre_allocator_ops){.struct_size = sizeof(acre_allocator_ops),
                                .version = ACRE_ALLOCATOR_VERSION,
                                .allocate = toy_allocate,
                                .copy_data = toy_copy,
                                .raw_deleter = toy_raw_deleter};
}

static void add_group(acre_allocator_ops *ops)
{
    ops->is_initialized = toy_ready;
    ops->empty_cache = toy_nothing;
    ops->record_stream = toy_record;
    ops->stats_get = toy_stats;
    ops->stats_reset_accumulated = toy_reset;
    ops->stats_reset_peak = toy_reset;
}

static acre_status create(struct toy *toy, const acre_allocator_ops *ops, acre_allocator **out)
{
    acre_allocator_desc desc = {.struct_size = sizeof desc, .name = "toy", .ops = ops,
                                .self = toy, .destroy = toy_destroy};

    toy_now = toy;
    return acre_allocator_create(&desc, out);
}

TEST(a_table_is_checked)
{
    struct toy toy = {0};
    acre_allocator *allocator = NULL;
    acre_allocator_ops ops = toy_ops();
    acre_allocator_desc desc = {.struct_size = sizeof desc, .name = "toy", .ops = &ops};

    ops.allocate = NULL;
    EXPECT_EQ(create(&toy, &ops, &allocator), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "lacks allocate");
    ops = toy_ops();
    ops.copy_data = NULL;
    EXPECT_EQ(create(&toy, &ops, &allocator), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "lacks copy_data");
    ops = toy_ops();
    ops.stats_get = toy_stats;
    EXPECT_EQ(create(&toy, &ops, &allocator), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "1 of the 6");
    ops = toy_ops();
    ops.version = ACRE_ALLOCATOR_VERSION + 1;
    EXPECT_EQ(create(&toy, &ops, &allocator), ACRE_ERR_UNSUPPORTED);
    EXPECT_EQ(acre_allocator_create(NULL, &allocator), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_allocator_create(&desc, NULL), ACRE_ERR_INVALID);
    desc.name = NULL;
    EXPECT_EQ(acre_allocator_create(&desc, &allocator), ACRE_ERR_INVALID);
    desc.struct_size = 4;
    EXPECT_EQ(acre_allocator_create(&desc, &allocator), ACRE_ERR_INVALID);
    EXPECT(!allocator);
    EXPECT_EQ(toy.destroyed, 0);
}

TEST(a_shorter_table_lacks_the_rest)
{
    struct toy toy = {0};
    acre_allocator *allocator;
    acre_allocator_ops ops = toy_ops();

    add_group(&ops);
    ops.struct_size = offsetof(acre_allocator_ops, raw_deleter);
    REQUIRE_OK(create(&toy, &ops, &allocator));
    EXPECT(!acre_allocator_raw_deleter(allocator));
    EXPECT(!acre_allocator_is_device(allocator));
    EXPECT_STR_EQ(acre_allocator_name(allocator), "toy");
    acre_allocator_destroy(allocator);
    acre_allocator_destroy(NULL);
    EXPECT_EQ(toy.destroyed, 1);
}

TEST(allocate_gives_an_owning_pointer)
{
    struct toy toy = {0};
    acre_allocator *allocator;
    acre_allocator_ops ops = toy_ops();
    acre_data_ptr ptr;

    REQUIRE_OK(create(&toy, &ops, &allocator));
    REQUIRE_OK(acre_allocator_allocate(allocator, 100, &ptr));
    EXPECT(acre_data_ptr_is_simple(&ptr) && ptr.data);
    EXPECT_EQ(ptr.device.index, 3);
    EXPECT_EQ(toy.live, 1);
    acre_data_ptr_clear(&ptr);
    EXPECT_EQ(toy.live, 0);
    EXPECT_EQ(acre_allocator_allocate(NULL, 1, &ptr), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_allocator_allocate(allocator, 1, NULL), ACRE_ERR_INVALID);
    acre_allocator_destroy(allocator);
}

TEST(raw_calls_work_with_bare_pointers)
{
    struct toy toy = {0};
    acre_allocator *allocator;
    acre_allocator_ops ops = toy_ops();
    void *pointer = NULL;

    REQUIRE_OK(create(&toy, &ops, &allocator));
    EXPECT(acre_allocator_raw_deleter(allocator) == toy_delete);
    REQUIRE_OK(acre_allocator_raw_allocate(allocator, 64, &pointer));
    EXPECT(pointer != NULL);
    EXPECT_EQ(toy.live, 1);
    REQUIRE_OK(acre_allocator_raw_deallocate(allocator, pointer));
    EXPECT_EQ(toy.live, 0);
    REQUIRE_OK(acre_allocator_raw_deallocate(allocator, NULL));
    REQUIRE_OK(acre_allocator_raw_allocate(allocator, 0, &pointer));
    EXPECT(!pointer);
    EXPECT_EQ(acre_allocator_raw_allocate(allocator, 8, NULL), ACRE_ERR_INVALID);
    acre_allocator_destroy(allocator);
}

TEST(raw_calls_are_refused_where_pointers_are_not_simple)
{
    struct toy toy = {.is_wrapped = 1};
    acre_allocator *allocator;
    acre_allocator_ops ops = toy_ops();
    uint64_t live;
    void *pointer = &toy;

    REQUIRE_OK(create(&toy, &ops, &allocator));
    live = heap_live_count();
    EXPECT(!acre_allocator_raw_deleter(allocator));
    EXPECT_EQ(acre_allocator_raw_allocate(allocator, 64, &pointer), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "\"toy\"");
    EXPECT_PTR_EQ(pointer, &toy);
    EXPECT_EQ(toy.live, 0);
    EXPECT_EQ(heap_live_count(), live);
    EXPECT_EQ(acre_allocator_raw_deallocate(allocator, pointer), ACRE_ERR_UNSUPPORTED);
    acre_allocator_destroy(allocator);
}

TEST(clone_allocates_and_copies)
{
    struct toy toy = {0};
    acre_allocator *allocator;
    acre_allocator_ops ops = toy_ops();
    acre_data_ptr ptr = ACRE_DATA_PTR_EMPTY;

    REQUIRE_OK(create(&toy, &ops, &allocator));
    REQUIRE_OK(acre_allocator_clone(allocator, "contents", 9, &ptr));
    EXPECT_STR_EQ(ptr.data, "contents");
    acre_data_ptr_clear(&ptr);
    acre_data_ptr_init(&ptr);
    toy.copy_fails = 1;
    EXPECT_EQ(acre_allocator_clone(allocator, "contents", 9, &ptr), ACRE_ERR_DEVICE);
    EXPECT_HAS(acre_last_error(), "on demand");
    EXPECT(!acre_data_ptr_is_set(&ptr));
    EXPECT_EQ(toy.live, 0);
    EXPECT_EQ(acre_allocator_copy_data(allocator, &toy, "x", 1), ACRE_ERR_DEVICE);
    EXPECT_EQ(acre_allocator_copy_data(NULL, &toy, "x", 1), ACRE_ERR_INVALID);
    acre_allocator_destroy(allocator);
}

TEST(the_copy_helper_is_a_plain_copy)
{
    char text[] = "abcdef";

    REQUIRE_OK(acre_copy_memory(NULL, text + 1, text, 3));
    EXPECT_STR_EQ(text, "aabcef");
    REQUIRE_OK(acre_copy_memory(NULL, NULL, NULL, 0));
    EXPECT_EQ(acre_copy_memory(NULL, NULL, text, 1), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_copy_memory(NULL, text, NULL, 1), ACRE_ERR_INVALID);
}

TEST(the_device_group_is_passed_on)
{
    struct toy toy = {0};
    acre_allocator *allocator;
    acre_allocator_ops ops = toy_ops();
    acre_allocator_stats stats = {.struct_size = sizeof stats};
    acre_data_ptr ptr;
    acre_stream stream = {.id = 7};

    add_group(&ops);
    REQUIRE_OK(create(&toy, &ops, &allocator));
    EXPECT(acre_allocator_is_device(allocator));
    EXPECT(acre_allocator_is_initialized(allocator));
    REQUIRE_OK(acre_allocator_empty_cache(allocator));
    REQUIRE_OK(acre_allocator_allocate(allocator, 1, &ptr));
    REQUIRE_OK(acre_allocator_record_stream(allocator, &ptr, stream));
    REQUIRE_OK(acre_allocator_stats_get(allocator, 4, &stats));
    EXPECT_EQ(stats.allocated_bytes.current, 1);
    EXPECT_EQ(stats.num_device_alloc, 4);
    REQUIRE_OK(acre_allocator_stats_reset_peak(allocator, 5));
    REQUIRE_OK(acre_allocator_stats_reset_accumulated(allocator, 5));
    EXPECT_EQ(acre_allocator_stats_reset_peak(allocator, 6), ACRE_ERR_RANGE);
    acre_data_ptr_clear(&ptr);
    stream.id = 8;
    REQUIRE_OK(acre_allocator_record_stream(allocator, &ptr, stream));
    REQUIRE_OK(acre_allocator_record_stream(allocator, NULL, stream));
    stats.struct_size = 0;
    EXPECT_EQ(acre_allocator_stats_get(allocator, 4, &stats), ACRE_ERR_INVALID);
    acre_allocator_destroy(allocator);
}

TEST(without_the_group_its_calls_are_unsupported)
{
    struct toy toy = {0};
    acre_allocator *allocator;
    acre_allocator_ops ops = toy_ops();
    acre_allocator_stats stats = {.struct_size = sizeof stats};

    REQUIRE_OK(create(&toy, &ops, &allocator));
    EXPECT(!acre_allocator_is_initialized(allocator));
    EXPECT_EQ(acre_allocator_empty_cache(allocator), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "\"toy\" is not a device allocator");
    EXPECT_EQ(acre_allocator_record_stream(allocator, NULL, (acre_stream){0}),
              ACRE_ERR_UNSUPPORTED);
    EXPECT_EQ(acre_allocator_stats_get(allocator, 0, &stats), ACRE_ERR_UNSUPPORTED);
    EXPECT_EQ(acre_allocator_stats_reset_peak(allocator, 0), ACRE_ERR_UNSUPPORTED);
    EXPECT_EQ(acre_allocator_stats_reset_accumulated(NULL, 0), ACRE_ERR_UNSUPPORTED);
    acre_allocator_destroy(allocator);
}

TEST(D89_an_allocator_can_be_shown_under_another_type)
{
    struct toy toy = {0};
    acre_allocator *inner, *shown;
    acre_allocator_ops ops = toy_ops();
    acre_allocator_stats stats = {.struct_size = sizeof stats};
    acre_data_ptr ptr;

    add_group(&ops);
    REQUIRE_OK(create(&toy, &ops, &inner));
    REQUIRE_OK(acre_relabel_allocator_create(inner, ACRE_DEVICE_PRIVATE, ACRE_DEVICE_CUDA,
                                             &shown));
    REQUIRE_OK(acre_allocator_allocate(shown, 10, &ptr));
    EXPECT_EQ(ptr.device.type, ACRE_DEVICE_CUDA);
    EXPECT_EQ(ptr.device.index, 3);
    EXPECT(ptr.deleter == toy_delete && acre_data_ptr_is_simple(&ptr));
    EXPECT(acre_allocator_raw_deleter(shown) == toy_delete);
    REQUIRE_OK(acre_allocator_stats_get(shown, 4, &stats));
    EXPECT_EQ(stats.allocated_bytes.current, 1);
    REQUIRE_OK(acre_allocator_record_stream(shown, &ptr, (acre_stream){.id = 7}));
    REQUIRE_OK(acre_allocator_empty_cache(shown));
    REQUIRE_OK(acre_allocator_copy_data(shown, ptr.data, "123456789", 10));
    EXPECT_STR_EQ(ptr.data, "123456789");
    EXPECT_EQ(acre_allocator_stats_reset_peak(shown, 5), ACRE_OK);
    EXPECT_EQ(acre_allocator_stats_reset_accumulated(shown, 5), ACRE_OK);
    EXPECT(acre_allocator_is_initialized(shown));
    acre_data_ptr_clear(&ptr);
    EXPECT_EQ(toy.live, 0);
    acre_allocator_destroy(shown);
    EXPECT_EQ(toy.destroyed, 0);
    acre_allocator_destroy(inner);
    EXPECT_EQ(acre_relabel_allocator_create(NULL, 0, 1, &shown), ACRE_ERR_INVALID);
}

TEST(every_host_allocation_may_fail)
{
    struct toy toy = {0};
    acre_allocator *inner, *shown = NULL;
    acre_allocator_ops ops = toy_ops();

    for (unsigned nth = 1;; nth++) {
        uint64_t live = heap_live_count();
        heap_fail_nth(nth);
        acre_status status = create(&toy, &ops, &inner);
        if (status == ACRE_OK) {
            status = acre_relabel_allocator_create(inner, 0, 1, &shown);
            acre_allocator_destroy(status == ACRE_OK ? shown : NULL);
            acre_allocator_destroy(inner);
        }
        int failed = heap_fail_disarm();
        EXPECT_EQ(heap_live_count(), live);
        EXPECT_EQ(status, failed ? ACRE_ERR_HOST_MEMORY : ACRE_OK);
        if (!failed)
            break;
    }
}

T_MAIN()
