/* SPDX-License-Identifier: MIT */
/* Tables of functions: what is required, whole groups, old and new sizes. */
#include "backend/table.h"

#include "backend/ops_map.h"
#include "tests/support/small_backend.h"
#include "tests/support/t.h"

#define ACRE_CAP_REQUIRED 0

/* Any entry of any group; never called. */
static acre_status stand_in(void)
{
    return ACRE_OK;
}

/* A table with every entry there. */
static acre_backend_ops whole_table(void)
{
    acre_backend_ops ops = {.struct_size = sizeof ops, .version = ACRE_BACKEND_VERSION};
    acre_status (*function)(void) = stand_in;

#define SET(group, entry, parameters, arguments)                               \
    memcpy(&ops.entry, &function, sizeof function);
    OPS_MAP(SET)
#undef SET
    return ops;
}

static uint32_t every_group(void)
{
    uint32_t groups = 0;

#define ADD(group, text) groups |= ACRE_CAP_##group;
    OPS_GROUP_MAP(ADD)
#undef ADD
    return groups;
}

TEST(a_whole_table_has_every_capability)
{
    acre_backend_ops ops = whole_table(), out;
    uint32_t groups = 0;

    REQUIRE_OK(table_complete("whole", &ops, &out, &groups));
    EXPECT_EQ(groups, every_group());
    EXPECT_EQ(memcmp(&ops, &out, sizeof ops), 0);
}

TEST(the_smallest_table_has_none_and_every_gap_answers)
{
    acre_backend_ops out;
    uint32_t groups = 77;

    REQUIRE_OK(table_complete("small", &small_ops, &out, &groups));
    EXPECT_EQ(groups, 0);
    EXPECT(out.alloc == small_ops.alloc);
    EXPECT_EQ(out.reserve(NULL, 0, 1, NULL), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "\"reserve\"");
    EXPECT_HAS(acre_last_error(), "virtual memory");
    EXPECT_EQ(out.set_current(NULL, 0), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "current device");
    EXPECT_EQ(out.capture_dependencies(NULL, 0, 0, 0, NULL, 0, NULL), ACRE_ERR_UNSUPPORTED);
#define IS_THERE(group, entry, parameters, arguments) EXPECT(out.entry != NULL);
    OPS_MAP(IS_THERE)
#undef IS_THERE
}

/* Takes each entry out of a whole table in turn. A group of one entry is then
 * simply absent; any other is refused, and the message names group and entry. */
TEST(half_a_group_is_refused)
{
    int sizes[32] = {0};

#define COUNT(group, entry, parameters, arguments)                             \
    if (ACRE_CAP_##group)                                                      \
        sizes[__builtin_ctz(ACRE_CAP_##group | 1u << 31)]++;
    OPS_MAP(COUNT)
#undef COUNT
#define TAKE_OUT(group, name, parameters, arguments)                           \
    {                                                                          \
        acre_backend_ops ops = whole_table(), out;                             \
        uint32_t groups = 0;                                                   \
        uint32_t bit = ACRE_CAP_##group;                                       \
        ops.name = NULL;                                                       \
        if (bit && sizes[__builtin_ctz(bit | 1u << 31)] == 1) {                \
            EXPECT_EQ(table_complete("t", &ops, &out, &groups), ACRE_OK);      \
            EXPECT_EQ(groups, every_group() & ~bit);                           \
        } else {                                                               \
            EXPECT_EQ(table_complete("t", &ops, &out, &groups), ACRE_ERR_INVALID); \
            EXPECT_HAS(acre_last_error(), "\"" #name "\"");                    \
            EXPECT_HAS(acre_last_error(), bit ? table_group_name(bit) : "required"); \
        }                                                                      \
    }
    OPS_MAP(TAKE_OUT)
#undef TAKE_OUT
}

TEST(a_table_of_an_older_backend_is_widened)
{
    acre_backend_ops ops = whole_table(), out;
    uint32_t groups = 0;

    ops.struct_size = offsetof(acre_backend_ops, copy);
    REQUIRE_OK(table_complete("older", &ops, &out, &groups));
    EXPECT_EQ(groups, ACRE_CAP_STREAMS);
    EXPECT_EQ(out.struct_size, sizeof out);
    EXPECT_EQ(out.copy(NULL, NULL, NULL, 1, ACRE_COPY_HOST_TO_HOST), ACRE_ERR_UNSUPPORTED);
    /* Half a pointer is no entry. */
    ops.struct_size = offsetof(acre_backend_ops, copy) + 4;
    REQUIRE_OK(table_complete("older", &ops, &out, &groups));
    EXPECT_EQ(groups, ACRE_CAP_STREAMS);
    /* An old table that ends inside a group has half of it. */
    ops.struct_size = offsetof(acre_backend_ops, event_elapsed);
    EXPECT_EQ(table_complete("older", &ops, &out, &groups), ACRE_ERR_INVALID);
}

TEST(a_table_of_a_newer_backend_is_cut)
{
    struct {
        acre_backend_ops ops;
        void *unknown[4];
    } newer = {.ops = whole_table()};
    acre_backend_ops out;
    uint32_t groups = 0;

    newer.ops.struct_size = sizeof newer;
    newer.unknown[0] = &newer;
    REQUIRE_OK(table_complete("newer", &newer.ops, &out, &groups));
    EXPECT_EQ(groups, every_group());
    EXPECT_EQ(out.struct_size, sizeof out);
}

TEST(bad_sizes_and_versions_are_refused)
{
    acre_backend_ops ops = whole_table(), out;
    uint32_t groups = 0;

    ops.version = ACRE_BACKEND_VERSION + 1;
    EXPECT_EQ(table_complete("t", &ops, &out, &groups), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "version 2");
    ops.version = 0;
    EXPECT_EQ(table_complete("t", &ops, &out, &groups), ACRE_ERR_INVALID);
    ops.version = ACRE_BACKEND_VERSION;
    ops.struct_size = offsetof(acre_backend_ops, free);
    EXPECT_EQ(table_complete("t", &ops, &out, &groups), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "struct_size");
    ops.struct_size = 0;
    EXPECT_EQ(table_complete("t", &ops, &out, &groups), ACRE_ERR_INVALID);
}

T_MAIN()
