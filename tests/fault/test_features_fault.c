/* SPDX-License-Identifier: MIT */
/* Every kind of memory with every feature and every pair of features, while the n-th device call
 * or host allocation fails: whatever that was, nothing is left behind, and the library's
 * structures are sound. Without ACRE_TEST_LONG some n are drawn for each pair. */
#include "base/heap.h"
#include "tests/support/features/ground.h"
#include "tests/support/standin_bed.h"

/* What is made to fail, and where. */
struct ground {
    const char *name; /* "sim", "host", "cuda" or "hip" */
    acre_backend *backend;
    bool is_heap, is_driver;
};

static void fail_arm(const struct ground *ground, uint64_t nth)
{
    acre_sim_fault fault = {.struct_size = sizeof fault, .call = ACRE_SIM_ANY, .nth = nth};

    if (ground->is_heap)
        heap_fail_nth(nth);
    else if (ground->is_driver)
        standin_now.fail_nth(nth, STANDIN_UNKNOWN);
    else
        REQUIRE_OK(acre_sim_fault_arm(ground->backend, &fault));
}

/* Whether it came to the failure. */
static bool fail_disarm(const struct ground *ground)
{
    if (ground->is_heap)
        return heap_fail_disarm();
    return ground->is_driver ? standin_now.fail_end() > 0
                             : acre_sim_fault_disarm(ground->backend) > 0;
}

/* Allocations, and what is mapped, that the device still has. */
static uint64_t left_count(const struct ground *ground)
{
    acre_sim_usage usage = {.struct_size = sizeof usage};
    struct standin_live live;

    if (ground->is_driver) {
        standin_now.live(&live);
        return live.allocations + live.handles + live.mappings + live.pool_blocks;
    }
    if (strcmp(ground->name, "sim") == 0)
        REQUIRE_OK(acre_sim_usage_get(ground->backend, &usage));
    return usage.alloc_count;
}

/* One run with the nth device call or host allocation failing. Returns false when there was no
 * such call any more. */
static bool fail_once(const struct ground *ground, enum kind kind, const enum feature *features,
                      int count, uint64_t nth)
{
    uint64_t before = heap_live_count();
    struct stage stage;

    fail_arm(ground, nth);
    acre_status status = stage_open(&stage, ground->backend, kind);
    if (status == ACRE_OK)
        status = stage_run(&stage, features, count);
    bool is_hit = fail_disarm(ground);
    if (!is_hit && status != ACRE_OK && status != ACRE_ERR_UNSUPPORTED)
        t_fail(__FILE__, __LINE__, "%s, %s, %s with %s: %s though nothing failed: %s",
               ground->name, kind_names[kind], feature_names[features[0]],
               feature_names[features[count - 1]], acre_status_name(status), acre_last_error());
    stage_close(&stage);
    EXPECT(heap_live_count() <= before + 64); /* what the library keeps for later */
    uint64_t left = left_count(ground);
    if (left)
        t_fail(__FILE__, __LINE__, "%s, %s, %s with %s: %llu left when call %llu fails: %s",
               ground->name, kind_names[kind], feature_names[features[0]],
               feature_names[features[count - 1]], (unsigned long long)left,
               (unsigned long long)nth, acre_status_name(status));
    return is_hit;
}

#if defined(__SANITIZE_THREAD__)
#define HAS_TSAN 1
#else
#define HAS_TSAN 0
#endif

/* How many failures a cell is given that does not get them all; 0: every call fails in turn. A
 * sanitizer takes seconds for what else takes milliseconds, and a driver makes more calls, so
 * their short forms draw a few. With ThreadSanitizer all failures of drivers would take an hour. */
static unsigned draw_count(const struct ground *ground, bool are_pairs)
{
    if (t_count(0, 1))
        return HAS_TSAN && ground->is_driver ? 4 : 0;
    if (t_slowness() > 1 || ground->is_driver)
        return are_pairs ? 1 : 3;
    return are_pairs ? 2 : 0;
}

static void cell_fail(const struct ground *ground, enum kind kind, const enum feature *features,
                      int count, uint64_t *seed)
{
    unsigned draws = draw_count(ground, count > 1);

    for (unsigned i = 0; i < draws; i++)
        fail_once(ground, kind, features, count, 1 + t_random(seed) % 60);
    for (uint64_t nth = 1; !draws; nth++)
        if (!fail_once(ground, kind, features, count, nth))
            break;
}

static void kind_fail(const char *name, enum kind kind, bool is_heap)
{
    struct ground ground = {.name = name,
                            .backend = backend_open(name),
                            .is_heap = is_heap,
                            .is_driver = strcmp(name, "cuda") == 0 || strcmp(name, "hip") == 0};
    uint64_t seed = t_seed();

    for (int f = 0; f < FEATURE_COUNT; f++)
        for (int g = 0; g <= f; g++) {
            enum feature pair[2] = {(enum feature)f, (enum feature)g};
            cell_fail(&ground, kind, pair, g == f ? 1 : 2, &seed);
        }
    backend_close(name, ground.backend);
}

TEST(device_calls_fail_on_plain_segments)
{
    kind_fail("sim", KIND_PLAIN, false);
}

TEST(device_calls_fail_on_expandable_segments)
{
    kind_fail("sim", KIND_EXPANDABLE, false);
}

TEST(device_calls_fail_on_stitched_memory)
{
    kind_fail("sim", KIND_STITCHED, false);
}

TEST(device_calls_fail_on_plug_ins)
{
    kind_fail("sim", KIND_PLUGIN, false);
}

TEST(host_allocations_fail_on_plain_segments)
{
    kind_fail("sim", KIND_PLAIN, true);
}

TEST(host_allocations_fail_on_expandable_segments)
{
    kind_fail("sim", KIND_EXPANDABLE, true);
}

TEST(host_allocations_fail_on_stitched_memory)
{
    kind_fail("sim", KIND_STITCHED, true);
}

TEST(host_allocations_fail_on_plug_ins)
{
    kind_fail("sim", KIND_PLUGIN, true);
}

TEST(host_allocations_fail_on_host_memory)
{
    kind_fail("host", KIND_PLAIN, true);
    kind_fail("host", KIND_PLUGIN, true);
}

static void driver_fail(const char *name, bool is_heap)
{
    for (int kind = 0; kind < KIND_COUNT; kind++)
        kind_fail(name, (enum kind)kind, is_heap);
}

TEST(calls_of_cuda_fail)
{
    driver_fail("cuda", false);
}

TEST(calls_of_hip_fail)
{
    driver_fail("hip", false);
}

TEST(host_allocations_fail_on_cuda)
{
    driver_fail("cuda", true);
}

TEST(host_allocations_fail_on_hip)
{
    driver_fail("hip", true);
}

T_MAIN()
