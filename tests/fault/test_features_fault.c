/* SPDX-License-Identifier: MIT */
/* Every kind of memory with every feature and every pair of features, on the reference device,
 * while the n-th device call or host allocation fails: whatever that was, nothing is left behind,
 * and the library's structures are sound. Without ACRE_TEST_LONG some n are drawn for each pair. */
#include "base/heap.h"
#include "tests/support/features/ground.h"

/* One run with the nth device call or host allocation failing. Returns false when there was no
 * such call any more. */
static bool fail_once(acre_backend *backend, enum kind kind, const enum feature *features,
                      int count, uint64_t nth, bool is_heap)
{
    acre_sim_fault fault = {.struct_size = sizeof fault, .call = ACRE_SIM_ANY, .nth = nth};
    uint64_t before = heap_live_count();
    struct stage stage;

    if (is_heap)
        heap_fail_nth(nth);
    else
        REQUIRE_OK(acre_sim_fault_arm(backend, &fault));
    acre_status status = stage_open(&stage, backend, kind);
    if (status == ACRE_OK)
        status = stage_run(&stage, features, count);
    bool is_hit = is_heap ? heap_fail_disarm() : acre_sim_fault_disarm(backend) > 0;
    if (!is_hit)
        EXPECT(status == ACRE_OK || status == ACRE_ERR_UNSUPPORTED);
    stage_close(&stage);
    EXPECT(heap_live_count() <= before + 64); /* what the library keeps for later */
    acre_sim_usage usage = {.struct_size = sizeof usage};
    REQUIRE_OK(acre_sim_usage_get(backend, &usage));
    if (usage.alloc_count)
        t_fail(__FILE__, __LINE__, "%s, %s with %s: %llu allocations left when call %llu fails: %s",
               kind_names[kind], feature_names[features[0]], feature_names[features[count - 1]],
               (unsigned long long)usage.alloc_count, (unsigned long long)nth,
               acre_status_name(status));
    return is_hit;
}

/* How many failures a cell is given that does not get them all; 0: every call fails in turn. A
 * sanitizer takes seconds for what else takes milliseconds, so its short form draws a few. */
static unsigned draw_count(bool are_pairs)
{
    if (t_count(0, 1))
        return 0;
    if (t_slowness() > 1)
        return are_pairs ? 1 : 3;
    return are_pairs ? 2 : 0;
}

static void cell_fail(acre_backend *backend, enum kind kind, const enum feature *features,
                      int count, bool is_heap, uint64_t *seed)
{
    unsigned draws = draw_count(count > 1);

    for (unsigned i = 0; i < draws; i++)
        fail_once(backend, kind, features, count, 1 + t_random(seed) % 60, is_heap);
    for (uint64_t nth = 1; !draws; nth++)
        if (!fail_once(backend, kind, features, count, nth, is_heap))
            break;
}

static void kind_fail(enum kind kind, bool is_heap)
{
    acre_backend *backend = backend_open("sim");
    uint64_t seed = t_seed();

    for (int f = 0; f < FEATURE_COUNT; f++)
        for (int g = 0; g <= f; g++) {
            enum feature pair[2] = {(enum feature)f, (enum feature)g};
            cell_fail(backend, kind, pair, g == f ? 1 : 2, is_heap, &seed);
        }
    backend_close("sim", backend);
}

TEST(device_calls_fail_on_plain_segments)
{
    kind_fail(KIND_PLAIN, false);
}

TEST(device_calls_fail_on_expandable_segments)
{
    kind_fail(KIND_EXPANDABLE, false);
}

TEST(device_calls_fail_on_stitched_memory)
{
    kind_fail(KIND_STITCHED, false);
}

TEST(device_calls_fail_on_plug_ins)
{
    kind_fail(KIND_PLUGIN, false);
}

TEST(host_allocations_fail_on_plain_segments)
{
    kind_fail(KIND_PLAIN, true);
}

TEST(host_allocations_fail_on_expandable_segments)
{
    kind_fail(KIND_EXPANDABLE, true);
}

TEST(host_allocations_fail_on_stitched_memory)
{
    kind_fail(KIND_STITCHED, true);
}

TEST(host_allocations_fail_on_plug_ins)
{
    kind_fail(KIND_PLUGIN, true);
}

T_MAIN()
