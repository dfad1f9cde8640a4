/* SPDX-License-Identifier: MIT */
/* Messages on a TCP connection: greeting, then frames that prove where they come from.
 *
 *     server: "ACRESTO1", nonce[16]
 *     client: "ACRESTO1", nonce[16], proof[16] of "C", both nonces
 *     server: proof[16] of "S", both nonces; or it hangs up
 *
 *     frame:  u32 length of the message, u32 side, u64 sequence, message, proof[16]
 *
 * Proofs are SipHash under the secret; frames under a key that both sides make from it and
 * the nonces, so that a frame of another connection, side or place in the row is refused.
 */
#ifndef SRC_SYMM_FRAME_H
#define SRC_SYMM_FRAME_H

#include "symm/store/message.h"
#include "symm/store/siphash.h"

#define FRAME_MAGIC "ACRESTO1"
#define NONCE_BYTES 16u
#define HELLO_BYTES (8 + NONCE_BYTES)                 /* of the server */
#define ANSWER_BYTES (8 + NONCE_BYTES + PROOF_BYTES)  /* of the client */
#define FRAME_HEAD 16u

enum side { SIDE_CLIENT = 1, SIDE_SERVER = 2 };

/* One direction pair of a connection after the greeting. */
struct session {
    uint8_t key[16];
    uint64_t sent;     /* frames sent so far     */
    uint64_t received; /* frames taken so far    */
};

/* 16 bytes of the kernel's. Errors: ACRE_ERR_IO. */
acre_status nonce_make(uint8_t out[NONCE_BYTES]);
/* The key that a secret stands for; NULL or "": the key of those who have none. */
void secret_key(const char *secret, uint8_t out[16]);
/* A proof for what is 'C', 'S', or 'K' for the key of the session. */
void greeting_proof(const uint8_t key[16], char what, const uint8_t *server_nonce,
                    const uint8_t *client_nonce, uint8_t out[PROOF_BYTES]);

/* Makes the next frame of a side around a message. Errors: ACRE_ERR_HOST_MEMORY. */
acre_status frame_seal(struct session *session, enum side side, const acre_blob *message,
                       acre_blob *out);
/* Length of the whole frame that begins with FRAME_HEAD bytes, or 0: not one. */
size_t frame_length(const uint8_t *head);
/* Checks a whole frame that comes from a side and gives the message inside it.
 * Errors: ACRE_ERR_REJECTED. */
acre_status frame_open(struct session *session, enum side side, const uint8_t *frame,
                       size_t bytes, struct bytes *out);

#endif
