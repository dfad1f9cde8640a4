/* SPDX-License-Identifier: MIT */
/* A plug-in whose memory begins anywhere. */
#include "tests/plugins/bad.h"

int bad_free_count;
static _Alignas(4096) char memory[1 << 16];
static size_t used;

void *bad_alloc(size_t bytes, int device, void *stream)
{
    (void)device, (void)stream;
    char *pointer = memory + used + 3;

    used += bytes + 3;
    return pointer;
}

void bad_free(void *pointer, size_t bytes, int device, void *stream)
{
    (void)pointer, (void)bytes, (void)device, (void)stream;
    bad_free_count++;
}
