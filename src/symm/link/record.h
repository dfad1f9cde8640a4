/* SPDX-License-Identifier: MIT */
/* What ranks tell each other at a rendezvous, as a value and as bytes.
 *
 * One message on a private channel, or for other hosts a value in the store; all numbers
 * little endian. A CARD carries the descriptors of a block and its page, a VERDICT says whether
 * its sender could use everybody's.
 */
#ifndef SRC_SYMM_RECORD_H
#define SRC_SYMM_RECORD_H

#include <acre/symm.h>

#define RECORD_BYTES 464u
#define RECORD_FABRIC 64u
#define RECORD_TEXT 264u

enum record_type { RECORD_HELLO = 1, RECORD_CARD = 2, RECORD_VERDICT = 3 };
/* Memory of a device travels as a descriptor, or as a handle of a fabric on the offer. */
enum record_kind { KIND_NONE = 0, KIND_HOST = 1, KIND_DEVICE = 2, KIND_FABRIC = 3 };

struct record {
    enum record_type type;
    uint32_t rank;          /* of the sender                                     */
    uint64_t epoch;         /* rendezvous of the group so far                    */
    uint64_t token;         /* of the group, the same on all ranks once joined   */
    acre_status status;     /* of a vote, or a offer of who failed before      */
    enum record_kind kind;  /* what the block is made of; NONE: only a barrier   */
    uint32_t flags;         /* ACRE_GROUP_*                                      */
    int32_t device_type, device_index;
    int32_t clique;         /* -1: none                                          */
    uint64_t block_bytes, buffer_bytes, pad_offset, pad_bytes, control_bytes;
    uint64_t far_block, far_control; /* addresses on the wire, for other hosts   */
    uint8_t fabric[RECORD_FABRIC];   /* of KIND_FABRIC                           */
    char text[RECORD_TEXT]; /* why it failed; zero-terminated                    */
};

void record_encode(const struct record *record, uint8_t out[RECORD_BYTES]);
/* Errors: ACRE_ERR_FORMAT (not a record, or numbers no rank would send). */
acre_status record_decode(const uint8_t *data, size_t bytes, struct record *out);

/* Whether the offers of all ranks go together; every rank comes to the same answer.
 * Errors: ACRE_ERR_INVALID names ranks and values, or a failed offer's own status. */
acre_status record_check(const struct record *offers, int count);

#endif
