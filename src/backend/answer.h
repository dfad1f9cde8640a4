/* SPDX-License-Identifier: MIT */
/* Tables of others, whose entries may fail without a word. */
#ifndef SRC_BACKEND_ANSWER_H
#define SRC_BACKEND_ANSWER_H

#include <acre/backend.h>

struct answer;

/* Puts functions around a table that give a failure a sentence when its entry has none, so that
 * acre_last_error() never tells of an older one.
 *
 * desc->ops and desc->self become those of the wrapper, which lives as long as the backend.
 * Errors: ACRE_ERR_INVALID (a table that cannot be read), ACRE_ERR_HOST_MEMORY. */
acre_status answer_create(acre_backend_desc *desc, struct answer **out);
/* NULL is accepted. */
void answer_destroy(struct answer *answer);

#endif
