/* SPDX-License-Identifier: MIT */
/* What processes that share memory tell one another.
 *
 * A ticket is 64 bytes that a user carries from one process to another by any
 * channel. It names a service, a socket of the exporting process, and a token
 * for one thing offered there; both are random, and it holds nothing else. Over
 * the socket the importer sends one request and gets replies with descriptors:
 *
 *     importer                    exporter
 *       connect, request(token) ───►
 *       ◄──── reply(descriptors 0 .. 63 of 130)
 *       ◄──── reply(descriptors 64 .. 127 of 130)
 *       ◄──── reply(descriptors 128, 129 of 130)
 *       ... the connection stays open while the importer has the memory open ...
 *       close ───►                  one user less
 *
 * Messages have one fixed size each. Both ends run on one machine, so numbers
 * are in its byte order. Every function here takes bytes that anybody may have
 * written.
 */
#ifndef SRC_BASE_WIRE_H
#define SRC_BASE_WIRE_H

#include <acre/base.h>

#include <stdbool.h>

#define WIRE_TICKET_BYTES 64
#define WIRE_RANDOM_BYTES 16    /* of a token, and of the name of a service */
#define WIRE_NOTE_BYTES 64      /* most that an offer says about itself     */
#define WIRE_BATCH 64           /* descriptors in one reply                 */
#define WIRE_FDS_MAX 65536      /* descriptors of one offer                 */

struct ticket {
    uint8_t service[WIRE_RANDOM_BYTES];
    uint8_t token[WIRE_RANDOM_BYTES];
};

struct wire_request {
    char magic[8];
    uint32_t version;
    uint32_t zero;
    uint8_t token[WIRE_RANDOM_BYTES];
};

/* What became of a request. */
enum wire_answer {
    WIRE_GIVEN = 0,   /* here it is                                        */
    WIRE_UNKNOWN = 1, /* no such offer, or not any more                    */
    WIRE_FAILED = 2,  /* the exporter could not make the descriptors       */
};

struct wire_reply {
    char magic[8];
    uint32_t version;
    uint32_t answer;     /* enum wire_answer; the rest is 0 unless given    */
    uint32_t fd_total;   /* of the offer                                    */
    uint32_t fd_first;   /* number of the first one in this reply           */
    uint32_t fd_count;   /* in this reply                                   */
    uint32_t note_bytes; /* of note                                         */
    uint8_t note[WIRE_NOTE_BYTES]; /* what the offer says about itself      */
};

/* Fills bytes that nobody can guess. Errors: ACRE_ERR_IO. */
acre_status wire_random(void *out, size_t bytes);

void ticket_write(const struct ticket *ticket, uint8_t out[WIRE_TICKET_BYTES]);
/* Errors: ACRE_ERR_FORMAT: not a ticket, or one of another version. */
acre_status ticket_read(const uint8_t bytes[WIRE_TICKET_BYTES], struct ticket *out);

void request_write(struct wire_request *request, const uint8_t token[WIRE_RANDOM_BYTES]);
/* Whether a message of that size is a well-formed request. */
bool request_is_sound(const struct wire_request *request, size_t bytes);

void reply_write(struct wire_reply *reply, enum wire_answer answer);
/* Whether what came is a reply, given how many descriptors came with it and
 * which one was due. Errors: ACRE_ERR_FORMAT says what is wrong. */
acre_status reply_check(const struct wire_reply *reply, size_t bytes, size_t fd_count,
                        uint32_t fd_due);

#endif
