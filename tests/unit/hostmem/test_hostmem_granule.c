/* SPDX-License-Identifier: MIT */
/* From an address to a slab. */
#include "tests/unit/hostmem/heap_make.h"

#include "hostmem/granule.h"

TEST(an_address_beyond_the_tables_is_nobodys)
{
    EXPECT_PTR_EQ(granule_find((void *)~(uintptr_t)0), NULL);
    EXPECT_PTR_EQ(granule_find(NULL), NULL);
    EXPECT_EQ(granule_reserve((void *)((uintptr_t)1 << 47)), ACRE_ERR_RANGE);
}
T_MAIN()
