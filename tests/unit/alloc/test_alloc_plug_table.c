/* SPDX-License-Identifier: MIT */
/* The books about plug-ins, compared with a bit per byte. */
#include "alloc/plug_table.h"

#include "base/heap.h"
#include "tests/support/t.h"

#define SPAN 512
#define BASE ((uintptr_t)1 << 20)

static struct plug_record *owners[SPAN]; /* of each byte, or NULL */

static struct plug_record *owner_in(size_t at, size_t bytes)
{
    for (size_t i = at; i < at + (bytes ? bytes : 1); i++)
        if (owners[i])
            return owners[i];
    return NULL;
}

static void mark(struct plug_record *record, struct plug_record *value)
{
    for (size_t i = 0; i < (record->bytes ? record->bytes : 1); i++)
        owners[record->base - BASE + i] = value;
}

TEST(ranges_are_found_as_a_bit_per_byte_finds_them)
{
    struct plug_table table;
    uint64_t seed = t_seed(), count = 0, bytes = 0;

    REQUIRE_OK(plug_table_init(&table, 2));
    for (uint64_t step = 0; step < t_count(20000, 1000000); step++) {
        size_t at = t_random(&seed) % (SPAN - 20), size = t_random(&seed) % 20;
        const void *pointer = (const void *)(BASE + at);
        struct plug_record *there = plug_table_overlap(&table, BASE + at, size);
        EXPECT_PTR_EQ(there, owner_in(at, size));
        EXPECT_PTR_EQ(plug_table_around(&table, pointer), owners[at]);
        bool is_base = owners[at] && owners[at]->base == BASE + at;
        EXPECT_PTR_EQ(plug_table_find(&table, pointer), is_base ? owners[at] : NULL);
        if (!there) {
            struct plug_record *record = heap_zalloc(sizeof *record);
            REQUIRE(record);
            *record = (struct plug_record){.base = BASE + at, .bytes = size, .device = at % 2};
            plug_table_put(&table, record);
            mark(record, record);
            count++, bytes += size;
        } else if (t_random(&seed) % 2) {
            plug_table_take(&table, there);
            mark(there, NULL);
            count--, bytes -= there->bytes;
            heap_free(there);
        }
        REQUIRE_EQ(table.count, count);
        REQUIRE_EQ(table.bytes, bytes);
        REQUIRE_EQ(table.accounts[0].stats.allocated_bytes.current +
                   table.accounts[1].stats.allocated_bytes.current, bytes);
    }
    for (size_t i = 0; i < SPAN; i++)
        if (owners[i]) {
            struct plug_record *record = owners[i];
            plug_table_take(&table, record);
            mark(record, NULL);
            heap_free(record);
        }
    EXPECT_EQ(table.bytes, 0);
    plug_table_fini(&table);
}

TEST(a_leaving_record_is_not_found_and_still_in_the_way)
{
    struct plug_record record = {.base = BASE, .bytes = 10, .is_leaving = true};
    struct plug_table table;

    REQUIRE_OK(plug_table_init(&table, 1));
    plug_table_put(&table, &record);
    EXPECT(!plug_table_find(&table, (void *)BASE));
    EXPECT_PTR_EQ(plug_table_overlap(&table, BASE + 9, 4), &record);
    plug_table_take(&table, &record);
    plug_table_fini(&table);
}

TEST(streams_are_kept_once)
{
    struct plug_record record = {.stream = &record};
    int a, b;

    REQUIRE_OK(plug_record_add_stream(&record, &record));
    EXPECT_EQ(record.stream_count, 0);
    REQUIRE_OK(plug_record_add_stream(&record, &a));
    REQUIRE_OK(plug_record_add_stream(&record, &b));
    REQUIRE_OK(plug_record_add_stream(&record, &a));
    EXPECT_EQ(record.stream_count, 2);
    heap_free(record.streams);
}

T_MAIN()
