/* SPDX-License-Identifier: MIT */
/* Greeting and frames of TCP stores; see frame.h. */
#include "symm/store/frame.h"

#include "base/heap.h"
#include "base/status.h"

#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

acre_status nonce_make(uint8_t out[NONCE_BYTES])
{
    if (getrandom(out, NONCE_BYTES, 0) == NONCE_BYTES)
        return ACRE_OK;
    return status_fail_native(ACRE_ERR_IO, errno, "store: no random bytes: %s", strerror(errno));
}

void secret_key(const char *secret, uint8_t out[16])
{
    static const uint8_t zero[16];

    siphash(zero, secret ? secret : "", secret ? strlen(secret) : 0, out);
}

void greeting_proof(const uint8_t key[16], char what, const uint8_t *server_nonce,
                    const uint8_t *client_nonce, uint8_t out[PROOF_BYTES])
{
    uint8_t text[1 + 2 * NONCE_BYTES];

    text[0] = (uint8_t)what;
    memcpy(text + 1, server_nonce, NONCE_BYTES);
    memcpy(text + 1 + NONCE_BYTES, client_nonce, NONCE_BYTES);
    siphash(key, text, sizeof text, out);
}

static void put_head(uint8_t *at, size_t bytes, enum side side, uint64_t sequence)
{
    uint32_t words[2] = {htole32((uint32_t)bytes), htole32((uint32_t)side)};

    sequence = htole64(sequence);
    memcpy(at, words, 8);
    memcpy(at + 8, &sequence, 8);
}

acre_status frame_seal(struct session *session, enum side side, const acre_blob *message,
                       acre_blob *out)
{
    size_t inner = FRAME_HEAD + message->bytes;
    uint8_t *frame = heap_alloc(inner + PROOF_BYTES);

    if (!frame)
        return ACRE_ERR_HOST_MEMORY;
    put_head(frame, message->bytes, side, session->sent++);
    memcpy(frame + FRAME_HEAD, message->data, message->bytes);
    siphash(session->key, frame, inner, frame + inner);
    *out = (acre_blob){frame, inner + PROOF_BYTES};
    return ACRE_OK;
}

size_t frame_length(const uint8_t *head)
{
    uint32_t bytes;

    memcpy(&bytes, head, 4);
    bytes = le32toh(bytes);
    return bytes > MESSAGE_BYTES_MAX ? 0 : FRAME_HEAD + bytes + PROOF_BYTES;
}

acre_status frame_open(struct session *session, enum side side, const uint8_t *frame, size_t bytes,
                       struct bytes *out)
{
    uint8_t head[FRAME_HEAD], proof[PROOF_BYTES];

    if (bytes < FRAME_HEAD + PROOF_BYTES || frame_length(frame) != bytes)
        return status_fail(ACRE_ERR_REJECTED, "store: a frame of %zu bytes is not whole", bytes);
    size_t inner = bytes - PROOF_BYTES;
    put_head(head, inner - FRAME_HEAD, side, session->received);
    siphash(session->key, frame, inner, proof);
    if (memcmp(head, frame, FRAME_HEAD) != 0 || !proof_is_equal(proof, frame + inner))
        return status_fail(ACRE_ERR_REJECTED, "store: a frame is forged, damaged or comes twice");
    session->received++;
    *out = (struct bytes){frame + FRAME_HEAD, inner - FRAME_HEAD};
    return ACRE_OK;
}
