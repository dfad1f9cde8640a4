/* SPDX-License-Identifier: MIT */
/* The functions for Python in a process without Python; tests/python/dlpack.py has the rest. */
#include <acre/dlpack.h>

#include "tests/support/t.h"

static int end_count;

static void count_end(acre_dl_managed *self)
{
    (void)self;
    end_count++;
}

TEST(nothing_happens_without_an_interpreter)
{
    acre_dl_managed tensor = {.deleter = count_end};

    acre_dlpack_capsule_destroy(NULL);
    acre_dlpack_capsule_destroy(&tensor);
    acre_dlpack_object_drop(NULL, NULL);
    acre_dlpack_object_drop(&tensor, &tensor);
    EXPECT_EQ(end_count, 0);
}

T_MAIN()
