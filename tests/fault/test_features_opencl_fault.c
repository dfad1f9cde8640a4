/* SPDX-License-Identifier: MIT */
/* Every kind of memory with every feature and every pair of features on OpenCL, while the n-th
 * call of OpenCL or host allocation fails; see test_features_fault.c. */
#include "base/heap.h"
#include "tests/support/features/ground.h"
#include "tests/support/opencl_bed.h"

/* One run; false when there was no n-th call any more. */
static bool fail_once(acre_backend *backend, enum kind kind, const enum feature *features,
                      int count, uint64_t nth, bool is_heap)
{
    uint64_t before = heap_live_count(), held = bed_held(backend);
    struct stage stage;

    if (is_heap)
        heap_fail_nth(nth);
    else
        bed_fail_nth(nth);
    acre_status status = stage_open(&stage, backend, kind);
    if (status == ACRE_OK)
        status = stage_run(&stage, features, count);
    bool is_hit = is_heap ? heap_fail_disarm() : bed_fail_disarm() != NULL;
    if (!is_hit && status != ACRE_OK && status != ACRE_ERR_UNSUPPORTED)
        t_fail(__FILE__, __LINE__, "%s, %s with %s: %s though nothing failed: %s",
               kind_names[kind], feature_names[features[0]], feature_names[features[count - 1]],
               acre_status_name(status), acre_last_error());
    stage_close(&stage);
    EXPECT(heap_live_count() <= before + 64); /* what the library keeps for later */
    EXPECT(bed_held(backend) <= held + 8);    /* events at hand */
    return is_hit;
}

static void kind_fail(enum kind kind, bool is_heap)
{
    acre_backend *backend = backend_open("opencl");
    uint64_t seed = t_seed(), draws = t_count(3, 0); /* 0: every call fails in turn */

    for (int f = 0; f < FEATURE_COUNT; f++)
        for (int g = 0; g <= f; g++) {
            enum feature pair[2] = {(enum feature)f, (enum feature)g};
            int count = g == f ? 1 : 2;
            for (uint64_t i = 0; i < draws; i++)
                fail_once(backend, kind, pair, count, 1 + t_random(&seed) % 60, is_heap);
            for (uint64_t nth = 1; !draws; nth++)
                if (!fail_once(backend, kind, pair, count, nth, is_heap))
                    break;
        }
    backend_close("opencl", backend);
}

TEST(calls_of_opencl_fail)
{
    kind_fail(KIND_PLAIN, false);
    kind_fail(KIND_PLUGIN, false);
}

TEST(host_allocations_fail)
{
    kind_fail(KIND_PLAIN, true);
    kind_fail(KIND_PLUGIN, true);
}

T_MAIN()
