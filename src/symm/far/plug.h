/* SPDX-License-Identifier: MIT */
/* Finding the library of a wire; see far.h for which is taken. */
#ifndef SRC_SYMM_PLUG_H
#define SRC_SYMM_PLUG_H

#include "symm/far/wire.h"

/* out is NULL where none is wanted. Errors: ACRE_ERR_NOT_FOUND (wanted and not there),
 * ACRE_ERR_CONFIG (of another version of Acre). */
acre_status plug_find(const struct wire_ops **out);
/* Whether mpirun started this process as one of several hosts. */
bool plug_has_hosts(void);

#endif
