/* SPDX-License-Identifier: MIT */
/* The data of a page, piece by piece. */
#ifndef SRC_VIEW_PIECES_H
#define SRC_VIEW_PIECES_H

#include "view/pack.h"
#include "view/view.h"

#include <stdio.h>

/* Writes all pieces. Errors: ACRE_ERR_HOST_MEMORY; those of the file are left
 * to ferror. */
acre_status pieces_write(const acre_view *view, FILE *file);

#endif
