/* SPDX-License-Identifier: MIT */
/* The report of who holds the memory. */
#include "tests/unit/hostmem/heap_make.h"

TEST(a_limit_refuses_with_a_report_and_a_free_helps)
{
    acre_hostmem *heap = heap_make(64 << 20, 0);
    void *first = block_make(heap, 40 << 20), *second = NULL;
    char report[4096];

    EXPECT_EQ(acre_hostmem_alloc(heap, 40 << 20, &second), ACRE_ERR_DEVICE_MEMORY);
    EXPECT_PTR_EQ(second, NULL);
    EXPECT(acre_hostmem_report(heap, 4, report, sizeof report) > 0);
    EXPECT_HAS(report, "limit 64.0 MiB");
    EXPECT_HAS(report, "40.0 MiB in 1 live block, ");
    EXPECT_HAS(report, "40.0 MiB in 1 block of 40960.0 KiB");
    EXPECT_EQ(acre_hostmem_report(heap, 4, NULL, 0), (int)strlen(report));
    REQUIRE_OK(acre_hostmem_free(heap, first));
    REQUIRE_OK(acre_hostmem_alloc(heap, 50 << 20, &second));
    acre_hostmem_destroy(heap);
}
T_MAIN()
