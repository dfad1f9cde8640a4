/* SPDX-License-Identifier: MIT */
/* What a fuzz target offers, and how it says that a fact does not hold. */
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The name is libFuzzer's. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FUZZ_EXPECT(fact)                                                      \
    do {                                                                       \
        if (!(fact)) {                                                         \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #fact); \
            abort();                                                           \
        }                                                                      \
    } while (0)

#endif
