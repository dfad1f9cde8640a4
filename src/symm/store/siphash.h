/* SPDX-License-Identifier: MIT */
/* SipHash-2-4 with 128 bits: proves that a message comes from who knows a key. */
#ifndef SRC_SYMM_SIPHASH_H
#define SRC_SYMM_SIPHASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROOF_BYTES 16

void siphash(const uint8_t key[16], const void *data, size_t bytes, uint8_t out[PROOF_BYTES]);

/* Whether two proofs are equal, in a time that does not tell where they differ. */
bool proof_is_equal(const uint8_t *a, const uint8_t *b);

#endif
