/* SPDX-License-Identifier: MIT */
/* Moving one range between memory and a file, in blocks, several at a time.
 *
 * In place when stage is NULL; otherwise each block goes through a part of the stage of
 * its own. Short results are continued; the whole range was moved, or there is an error
 * and nothing is under way any more.
 */
#ifndef SRC_EXCHANGE_TRANSFER_H
#define SRC_EXCHANGE_TRANSFER_H

#include "exchange/io.h"

struct transfer {
    struct io *io;
    acre_device *device;
    const char *path;      /* for messages                                      */
    char *memory;
    size_t bytes;
    uint64_t offset;       /* in the file                                       */
    size_t block_bytes;
    size_t alignment;      /* of places from which a request may go on          */
    char *stage;           /* io->depth blocks, or NULL                         */
    bool stage_is_fixed;   /* known to the ring                                 */
    bool is_device_memory; /* copied by the device, not by the host             */
    bool is_write;         /* from memory to the file                           */
};

/* Errors: ACRE_ERR_LIMIT (no room), ACRE_ERR_IO, those of copies. */
acre_status transfer_run(const struct transfer *transfer);

#endif
