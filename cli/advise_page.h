/* SPDX-License-Identifier: MIT */
/* The picture of "acre advise -o": what each setting holds over time, as one page. */
#ifndef CLI_ADVISE_PAGE_H
#define CLI_ADVISE_PAGE_H

#include <acre/explain.h>

#include <stdbool.h>

/* Writes a page that needs nothing else; "-" is standard output. The advice has curves.
 * False, with a sentence on standard error, when it cannot be written. */
bool advise_page(const char *path, const char *file, const acre_advice *advice);

#endif
