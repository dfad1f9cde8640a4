/* SPDX-License-Identifier: MIT */
/* The end of building: what the top of the file says becomes the snapshot. */
#ifndef SRC_FORMAT_BUILDER_FINISH_H
#define SRC_FORMAT_BUILDER_FINISH_H

#include "format/snapshot/builder.h"

/* Takes the one value that is left on the stack as the whole file. The builder is
 * good for builder_fini only afterwards. Errors: ACRE_ERR_FORMAT (it is no
 * snapshot), ACRE_ERR_HOST_MEMORY. */
acre_status builder_finish(struct builder *builder, struct snapshot **out);

#endif
