/* SPDX-License-Identifier: MIT */
/* Devices whose work is finished when its call returns (ACRE_BACKEND_SYNCHRONOUS). */
#ifndef SRC_BACKEND_SYNCHRONOUS_H
#define SRC_BACKEND_SYNCHRONOUS_H

#include <acre/backend.h>

struct synchronous;

/* Puts default streams, events, queued copies and host functions around a table.
 *
 * out_ops gets the table that Acre calls; its self is the wrapper. The table
 * and self of desc are those of the backend, which are called by the wrapper.
 * Errors: ACRE_ERR_INVALID (a table that cannot be read, or one with streams of
 * its own), ACRE_ERR_HOST_MEMORY. */
acre_status synchronous_create(const acre_backend_desc *desc, acre_backend_ops *out_ops,
                               struct synchronous **out);
/* Destroys the wrapper and the streams and events that are left; NULL is accepted. */
void synchronous_destroy(struct synchronous *wrapper);

#endif
