/* SPDX-License-Identifier: MIT */
#include "tests/support/tracing_backend.h"

#include <stdatomic.h>
#include <stdlib.h>

#define KEPT 4096

struct tracing {
    _Atomic uint64_t counts[WRAP_ENTRY_COUNT];
    _Atomic unsigned call_count;
    _Atomic int calls[KEPT]; /* entry + 1; 0 while it is being written */
};

static acre_status trace(void *arg, enum wrap_entry entry)
{
    struct tracing *tracing = arg;
    unsigned n = atomic_fetch_add(&tracing->call_count, 1);

    atomic_fetch_add(&tracing->counts[entry], 1);
    if (n < KEPT)
        atomic_store(&tracing->calls[n], (int)entry + 1);
    return ACRE_OK;
}

acre_status tracing_create(acre_backend *inner, const struct wrap_config *config,
                           acre_backend **out)
{
    struct tracing *tracing = calloc(1, sizeof *tracing);
    acre_status status = wrap_create(inner, config, trace, free, tracing, out);

    if (status != ACRE_OK)
        free(tracing);
    return status;
}

uint64_t tracing_count(acre_backend *backend, enum wrap_entry entry)
{
    struct tracing *tracing = wrap_arg(backend);

    return atomic_load(&tracing->counts[entry]);
}

enum wrap_entry tracing_at(acre_backend *backend, unsigned n)
{
    struct tracing *tracing = wrap_arg(backend);
    int entry = n < KEPT ? atomic_load(&tracing->calls[n]) : 0;

    return entry ? (enum wrap_entry)(entry - 1) : WRAP_ENTRY_COUNT;
}

void tracing_reset(acre_backend *backend)
{
    struct tracing *tracing = wrap_arg(backend);

    for (int i = 0; i < WRAP_ENTRY_COUNT; i++)
        atomic_store(&tracing->counts[i], 0);
    for (int i = 0; i < KEPT; i++)
        atomic_store(&tracing->calls[i], 0);
    atomic_store(&tracing->call_count, 0);
}
