/* SPDX-License-Identifier: MIT */
/* Addresses and pages of an expandable segment, alone. */
#include "cache/torch/expand.h"

#include "backend/backend.h"
#include "base/bits.h"
#include "base/heap.h"
#include "tests/support/fake.h"
#include "tests/support/t.h"

#define PAGE (4 * MIB)

static struct fake *fake;
static struct expand *expand;
static uint64_t heap_before;

static void open_expand(acre_handle_type type, bool has_fabric)
{
    static const struct expand_peers nobody;

    heap_before = heap_live_count();
    fake = fake_create(&(struct fake_config){.bytes = 64 * MIB, .devices = 3,
                                             .page_bytes = 2 * MIB, .has_fabric = has_fabric});
    REQUIRE_OK(expand_create(fake_device(fake, 0), PAGE, type, &nobody, &expand));
}

static void check(void)
{
    const char *fact = NULL;

    if (!expand_check(expand, &fact))
        t_fail(__FILE__, __LINE__, "%s", fact);
}

static void close_expand(void)
{
    check();
    REQUIRE_OK(expand_destroy(expand));
    EXPECT_EQ(fake_alloc_count(fake), 0);
    EXPECT_EQ(fake_bytes(fake), 0);
    fake_destroy(fake);
    EXPECT_EQ(heap_live_count(), heap_before);
}

TEST(the_span_is_an_eighth_more_than_the_memory)
{
    open_expand(ACRE_HANDLE_NONE, false);
    EXPECT_EQ(expand->bytes, 72 * MIB);
    EXPECT_EQ(expand->page_count, 18);
    EXPECT_EQ(fake_reserved_bytes(fake), 72 * MIB);
    EXPECT_EQ(expand_span(fake_device(fake, 0), 10 * MIB), 80 * MIB);
    EXPECT_EQ(expand_round(21 * MIB, 10 * MIB), 30 * MIB);
    EXPECT_EQ(expand_round(20 * MIB, 10 * MIB), 20 * MIB);
    close_expand();
}

TEST(pages_come_and_go)
{
    size_t gone;

    open_expand(ACRE_HANDLE_NONE, false);
    REQUIRE_OK(expand_map(expand, 2 * PAGE, 3 * PAGE));
    EXPECT_EQ(expand->mapped_bytes, 3 * PAGE);
    EXPECT_EQ(fake_device_bytes(fake, 0), 3 * PAGE);
    EXPECT(fake_owns(fake, 0, expand->base + 2 * PAGE, 3 * PAGE));
    EXPECT(!fake_owns(fake, 0, expand->base + PAGE, PAGE));
    check();
    REQUIRE_OK(expand_unmap(expand, 3 * PAGE, PAGE, &gone));
    EXPECT_EQ(gone, PAGE);
    EXPECT(!fake_owns(fake, 0, expand->base + 3 * PAGE, 1));
    EXPECT(fake_owns(fake, 0, expand->base + 4 * PAGE, PAGE));
    EXPECT_EQ(fake_handle_count(fake), 2);
    close_expand();
}

TEST(every_failing_call_of_a_map_leaves_no_trace)
{
    for (uint64_t nth = 1;; nth++) {
        open_expand(ACRE_HANDLE_NONE, false);
        REQUIRE_OK(expand_map(expand, 0, PAGE));
        fake_fail(fake, FAKE_ANY, nth, ACRE_ERR_DEVICE);
        acre_status status = expand_map(expand, PAGE, 3 * PAGE);
        bool has_failed = fake_disarm(fake);
        EXPECT_EQ(status, has_failed ? ACRE_ERR_DEVICE : ACRE_OK);
        if (has_failed) {
            EXPECT_EQ(expand->mapped_bytes, PAGE);
            EXPECT_EQ(fake_handle_count(fake), 1);
            EXPECT_EQ(fake_mapping_count(fake), 1);
            REQUIRE_OK(expand_map(expand, PAGE, 3 * PAGE));
        }
        EXPECT(fake_owns(fake, 0, expand->base, 4 * PAGE));
        close_expand();
        if (!has_failed) {
            EXPECT_EQ(nth, 8); /* 3 created, 3 mapped, 1 access */
            return;
        }
    }
}

TEST(memory_that_runs_out_is_given_back)
{
    open_expand(ACRE_HANDLE_NONE, false);
    EXPECT_EQ(expand_map(expand, 0, 17 * PAGE), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(fake_calls(fake, FAKE_MAP), 0);
    EXPECT_EQ(fake_device_bytes(fake, 0), 0);
    REQUIRE_OK(expand_map(expand, 0, 16 * PAGE));
    close_expand();
}

TEST(every_failing_call_of_an_unmap_leaves_whole_pages)
{
    for (uint64_t nth = 1;; nth++) {
        size_t gone = 99, rest = 0;

        open_expand(ACRE_HANDLE_NONE, false);
        REQUIRE_OK(expand_map(expand, 0, 4 * PAGE));
        fake_fail(fake, FAKE_ANY, nth, ACRE_ERR_DEVICE);
        acre_status status = expand_unmap(expand, 0, 4 * PAGE, &gone);
        bool has_failed = fake_disarm(fake);
        EXPECT_EQ(status, has_failed ? ACRE_ERR_DEVICE : ACRE_OK);
        EXPECT_EQ(expand->mapped_bytes, 4 * PAGE - gone);
        EXPECT_EQ(fake_device_bytes(fake, 0), 4 * PAGE - gone);
        check();
        if (has_failed) {
            /* What is left is memory as before. */
            EXPECT(fake_owns(fake, 0, expand->base + gone, 4 * PAGE - gone));
            REQUIRE_OK(expand_unmap(expand, gone, 4 * PAGE - gone, &rest));
        }
        EXPECT_EQ(gone + rest, 4 * PAGE);
        EXPECT_EQ(fake_handle_count(fake), 0);
        close_expand();
        if (!has_failed) {
            EXPECT_EQ(nth, 9); /* released and unmapped, four times */
            return;
        }
    }
}

/* Undoing fails too: the page is taken up by the next attempt, and not leaked. */
TEST(a_page_that_cannot_be_undone_is_used_later)
{
    open_expand(ACRE_HANDLE_NONE, false);
    REQUIRE_OK(expand_map(expand, 0, PAGE));
    /* Pretend that a mapping was left behind by a failed undo. */
    struct expand_page *page = &expand->pages[0];
    EXPECT(page->has_handle && page->is_mapped);
    uint64_t created = fake_calls(fake, FAKE_CREATE);
    REQUIRE_OK(expand_map(expand, 0, 2 * PAGE));
    EXPECT_EQ(fake_calls(fake, FAKE_CREATE), created + 1);
    EXPECT_EQ(fake_mapping_count(fake), 2);
    EXPECT_EQ(expand->mapped_bytes, 2 * PAGE);
    close_expand();
}

TEST(addresses_that_cannot_be_returned_stay)
{
    open_expand(ACRE_HANDLE_NONE, false);
    REQUIRE_OK(expand_map(expand, 0, PAGE));
    fake_fail(fake, FAKE_UNRESERVE, 1, ACRE_ERR_DEVICE);
    EXPECT_EQ(expand_destroy(expand), ACRE_ERR_DEVICE);
    EXPECT(fake_disarm(fake));
    REQUIRE_OK(expand_map(expand, 0, PAGE));
    close_expand();
}

TEST(an_end_that_fails_forgets_the_rest)
{
    open_expand(ACRE_HANDLE_NONE, false);
    fake_fail(fake, FAKE_UNRESERVE, 1, ACRE_ERR_DEVICE);
    expand_abandon(expand);
    EXPECT(fake_disarm(fake));
    EXPECT_EQ(fake_alloc_count(fake), 1);
    fake_destroy(fake);
    EXPECT_EQ(heap_live_count(), heap_before);
}

TEST(creating_fails_cleanly)
{
    static const struct expand_peers nobody;

    heap_before = heap_live_count();
    fake = fake_create(&(struct fake_config){.bytes = 64 * MIB, .page_bytes = 2 * MIB});
    uint64_t bare = heap_live_count();
    for (uint64_t nth = 1; nth <= 2; nth++) {
        heap_fail_nth(nth);
        EXPECT_EQ(expand_create(fake_device(fake, 0), PAGE, ACRE_HANDLE_NONE, &nobody, &expand),
                  ACRE_ERR_HOST_MEMORY);
        EXPECT(heap_fail_disarm());
    }
    fake_fail(fake, FAKE_RESERVE, 1, ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(expand_create(fake_device(fake, 0), PAGE, ACRE_HANDLE_NONE, &nobody, &expand),
              ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(heap_live_count(), bare);
    EXPECT_EQ(fake_alloc_count(fake), 0);
    fake_destroy(fake);
}

TEST(the_first_page_finds_the_type)
{
    open_expand(ACRE_HANDLE_FABRIC, true);
    REQUIRE_OK(expand_map(expand, 0, PAGE));
    EXPECT_EQ(expand->type, ACRE_HANDLE_FABRIC);
    close_expand();
    open_expand(ACRE_HANDLE_FABRIC, false); /* no descriptors on this device either */
    REQUIRE_OK(expand_map(expand, 0, PAGE));
    EXPECT_EQ(expand->type, ACRE_HANDLE_NONE);
    uint64_t created = fake_calls(fake, FAKE_CREATE);
    REQUIRE_OK(expand_map(expand, PAGE, PAGE));
    EXPECT_EQ(fake_calls(fake, FAKE_CREATE), created + 1); /* known by now */
    close_expand();
}

TEST(without_descriptors_a_page_is_made_unshareable)
{
    open_expand(ACRE_HANDLE_FABRIC, true);
    REQUIRE_OK(expand_map(expand, 0, PAGE));
    fake_fail(fake, FAKE_CREATE, 1, ACRE_ERR_LIMIT);
    REQUIRE_OK(expand_map(expand, PAGE, PAGE));
    EXPECT(fake_disarm(fake));
    EXPECT_EQ(expand->type, ACRE_HANDLE_FABRIC);
    close_expand();
}

TEST(peers_reach_what_is_there_and_what_comes)
{
    size_t gone;

    open_expand(ACRE_HANDLE_NONE, false);
    REQUIRE_OK(expand_map(expand, 0, 3 * PAGE));
    REQUIRE_OK(expand_unmap(expand, PAGE, PAGE, &gone));
    EXPECT(!fake_reaches(fake, 2, expand->base, PAGE));
    REQUIRE_OK(expand_admit(expand, 2));
    REQUIRE_OK(expand_admit(expand, 2));
    EXPECT(fake_reaches(fake, 2, expand->base, PAGE));
    EXPECT(fake_reaches(fake, 2, expand->base + 2 * PAGE, PAGE));
    REQUIRE_OK(expand_map(expand, PAGE, PAGE));
    EXPECT(fake_reaches(fake, 2, expand->base, 3 * PAGE));
    EXPECT(!fake_reaches(fake, 1, expand->base, PAGE));
    expand_expel(expand, 2);
    EXPECT(!fake_reaches(fake, 2, expand->base, PAGE));
    EXPECT(fake_reaches(fake, 0, expand->base, 3 * PAGE));
    close_expand();
}

TEST(a_peer_that_cannot_be_admitted_reaches_nothing)
{
    size_t gone;

    open_expand(ACRE_HANDLE_NONE, false);
    REQUIRE_OK(expand_map(expand, 0, 3 * PAGE));
    REQUIRE_OK(expand_unmap(expand, PAGE, PAGE, &gone));
    fake_fail(fake, FAKE_SET_ACCESS, 2, ACRE_ERR_DEVICE);
    EXPECT_EQ(expand_admit(expand, 1), ACRE_ERR_DEVICE);
    EXPECT(fake_disarm(fake));
    EXPECT(!fake_reaches(fake, 1, expand->base, PAGE));
    EXPECT(!fake_reaches(fake, 1, expand->base + 2 * PAGE, PAGE));
    REQUIRE_OK(expand_map(expand, PAGE, PAGE));
    EXPECT(!fake_reaches(fake, 1, expand->base + PAGE, PAGE));
    close_expand();
}

T_MAIN()
