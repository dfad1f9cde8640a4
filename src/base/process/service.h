/* SPDX-License-Identifier: MIT */
/* The exporting end of sharing: offers of this process, and who has them open.
 *
 * A process has one service, started with the first offer and ended with the
 * last one, or whoever else holds it: a socket with a random abstract name, and one thread that
 * answers there. Only processes of the same user are answered. Nobody else can
 * hold a token either, but a name is not a secret to the system's tables.
 *
 * A connection goes through these states, each with a deadline but the last:
 *
 *   accept          request            last reply sent         closed, or says
 *   ─────► ASKING ──────────► SENDING ─────────────────► USING ───────────────► gone
 *              └── no such offer, deadline, anything odd ──────────────────────► gone
 *
 * A process that dies closes its connections, so it counts as no user any more.
 *
 * Locks: the service's own (RANK_SERVICE). It is held while fd_at is called, which
 * may take locks above it only, and must not call anything here. The thread takes
 * no memory from the heap.
 *
 * Fork: in a child the service is gone with its thread and descriptors; calls on
 * offers of the parent do nothing there, and a new offer starts a new service.
 */
#ifndef SRC_BASE_SERVICE_H
#define SRC_BASE_SERVICE_H

#include "base/process/wire.h"

struct service;
struct offer;

/* What is offered. */
struct offer_terms {
    uint32_t fd_total;              /* how many descriptors                        */
    uint32_t note_bytes;            /* of note                                     */
    uint8_t note[WIRE_NOTE_BYTES];  /* whatever the importer is to know            */
    /* Gives descriptor number index, which the service closes after sending. Never
     * called after offer_withdraw returned. */
    acre_status (*fd_at)(void *arg, uint32_t index, int *out_fd);
    void *arg;
};

/* Keeps the service running until service_release, though nothing is offered.
 * Errors: as offer_create. */
acre_status service_hold(struct service **out);
void service_release(struct service *service); /* NULL is fine */

/* Offers something under a new token; starts the service when it is the first.
 * Errors: ACRE_ERR_HOST_MEMORY, ACRE_ERR_LIMIT, ACRE_ERR_IO. */
acre_status offer_create(const struct offer_terms *terms, struct offer **out);

/* The ticket by which other processes find it. */
void offer_ticket(const struct offer *offer, uint8_t out[WIRE_TICKET_BYTES]);

/* From now on nobody gets it; who has it open keeps it. */
void offer_withdraw(struct offer *offer);

/* How many connections have it open, or are just getting it. */
uint32_t offer_users(const struct offer *offer);

/* Withdraws and forgets it; who has it open keeps it, uncounted. NULL is fine. */
void offer_destroy(struct offer *offer);

#endif
