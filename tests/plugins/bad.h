/* SPDX-License-Identifier: MIT */
/* What every plug-in that misbehaves exports. */
#ifndef TESTS_PLUGINS_BAD_H
#define TESTS_PLUGINS_BAD_H

#include <stddef.h>

#define BAD_API __attribute__((visibility("default")))

extern BAD_API int bad_free_count; /* calls of bad_free */
BAD_API void *bad_alloc(size_t bytes, int device, void *stream);
BAD_API void bad_free(void *pointer, size_t bytes, int device, void *stream);

#endif
