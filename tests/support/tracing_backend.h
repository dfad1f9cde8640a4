/* SPDX-License-Identifier: MIT */
/* A backend that wraps another one and writes down what is called.
 *
 * Unregister it before the inner one. Counting is thread-safe. */
#ifndef TESTS_SUPPORT_TRACING_BACKEND_H
#define TESTS_SUPPORT_TRACING_BACKEND_H

#include "tests/support/wrap.h"

acre_status tracing_create(acre_backend *inner, const struct wrap_config *config,
                           acre_backend **out);

/* Calls of an entry since creation or tracing_reset. */
uint64_t tracing_count(acre_backend *tracing, enum wrap_entry entry);

/* The n-th call from the first one kept (0), WRAP_ENTRY_COUNT past the end. The
 * first 4096 are kept. */
enum wrap_entry tracing_at(acre_backend *tracing, unsigned n);

/* Forgets what was called so far. */
void tracing_reset(acre_backend *tracing);

#endif
