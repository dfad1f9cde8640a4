/* SPDX-License-Identifier: MIT */
/* Which device reaches whose memory, asked of the driver once per pair. */
#ifndef SRC_BACKEND_PEER_H
#define SRC_BACKEND_PEER_H

#include "backend/backend.h"

/* Knows nothing but that a device reaches itself. */
acre_status peer_cache_create(int device_count, struct peer_cache **out);
void peer_cache_destroy(struct peer_cache *cache); /* NULL is fine */

/* Whether device reaches memory of other; enables it the first time.
 * Errors: ACRE_ERR_RANGE names the index and the range, and what the driver
 * answers; then the pair is asked again next time. */
acre_status peer_reaches(acre_backend *backend, int device, int other, bool *out);

#endif
