/* SPDX-License-Identifier: MIT */
/* How many bytes a foreign tensor covers. */
#ifndef SRC_EXCHANGE_DLPACK_H
#define SRC_EXCHANGE_DLPACK_H

#include <acre/dlpack.h>

/* Bytes from the first element of a tensor to the end of its last one; 0 without elements.
 * Errors: ACRE_ERR_INVALID, as for acre_from_dlpack(). */
acre_status dlpack_bytes(const acre_dl_tensor *tensor, uint64_t *out_bytes);

#endif
