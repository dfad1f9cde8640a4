/* SPDX-License-Identifier: MIT */
/* Makes pages exist before they are locked, several threads at a time. */
#ifndef SRC_PINNED_TOUCH_H
#define SRC_PINNED_TOUCH_H

#include <stddef.h>

/* Reads and writes a byte of every page that [base, base + bytes) touches, the first
 * and last ones included, in as many slices as there are threads when each gets a page
 * at least. Contents stay. A thread that cannot be started has its slice done here. */
void touch_pages(void *base, size_t bytes, unsigned threads);

#endif
