/* SPDX-License-Identifier: MIT */
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

void check_failed(const char *file, int line, const char *fact)
{
    fprintf(stderr, "acre: %s:%d: does not hold: %s\n", file, line, fact);
    abort();
}
