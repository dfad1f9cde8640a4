/* SPDX-License-Identifier: MIT */
/* Offers and votes; see exchange.h. */
#include "symm/link/exchange.h"

#include "base/heap.h"
#include "base/status.h"
#include "symm/deadline.h"
#include "symm/link/post.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SLICE_MS 100 /* between looks at who has died                        */
#define DYING_MS 500 /* that a process may take from hanging up to its end   */
#define LAST_MS  50  /* of that, what it may take past the deadline          */

void offer_close(struct link_offer *offer)
{
    for (int i = 0; i < CHANNEL_FDS; i++) {
        if (offer->fds[i] >= 0)
            close(offer->fds[i]);
        offer->fds[i] = -1;
    }
}

/* A rank hung up. Its process has ended, or is about to; otherwise it left the group. */
static acre_status fail_gone(const acre_group *group, int rank, int64_t deadline)
{
    int64_t until = deadline_sooner(deadline, deadline_in_ms(DYING_MS));
    int ms = deadline_poll_ms(until);

    if (!link_dies_within(group->peers, rank, ms > LAST_MS ? ms : LAST_MS))
        return status_fail(ACRE_ERR_PEER,
                           "rendezvous of group \"%s\": rank %d (process %d) left the group "
                           "while this rank was in a rendezvous: it gave up waiting, or destroyed "
                           "the group early",
                           group->name, rank, (int)group->peers->peers[rank].pid);
    return status_fail(ACRE_ERR_PEER, "rendezvous of group \"%s\": rank %d (process %d) is gone",
                       group->name, rank, (int)group->peers->peers[rank].pid);
}

/* Adds those of whom nothing has come to the sentence about a rank that hung up: it may have
 * given up because one of them is late. among: who is waited for; NULL: all. */
static acre_status fail_waiting(const acre_group *group, const bool *among)
{
    bool *is_missing = heap_array((size_t)group->count, sizeof *is_missing);
    char list[256], said[512];
    int missing = 0;

    for (int i = 0; i < group->count && is_missing; i++) {
        struct pollfd line = {group->peers->peers[i].fd, POLLIN | POLLRDHUP, 0};
        is_missing[i] = line.fd >= 0 && (!among || among[i]) && poll(&line, 1, 0) == 0;
        missing += is_missing[i];
    }
    if (missing > 0) {
        ranks_text(list, sizeof list, is_missing, group->count);
        snprintf(said, sizeof said, "%s", acre_last_error());
        status_fail(ACRE_ERR_PEER, "%s; %s had not come either", said, list);
    }
    heap_free(is_missing);
    return ACRE_ERR_PEER;
}

static void exchange_stamp(const acre_group *group, enum record_type type, struct record *record)
{
    record->type = type;
    record->rank = (uint32_t)group->rank;
    record->epoch = group->epoch;
    record->token = group->peers->token;
    record->flags = group->flags & (ACRE_GROUP_ALLOW_OVERLAP | ACRE_GROUP_NO_MULTICAST);
    record->clique = group->clique;
}

/* Sends to all; a rank that is gone goes to *out_gone, -1 without one. */
static acre_status send_each(const acre_group *group, const struct record *record, const int *fds,
                             int64_t deadline, int *out_gone)
{
    uint8_t bytes[RECORD_BYTES];
    acre_status result = ACRE_OK;
    int count = 0;

    *out_gone = -1;

    while (count < CHANNEL_FDS && fds && fds[count] >= 0)
        count++;
    record_encode(record, bytes);
    for (int i = 0; i < group->count; i++) {
        if (i == group->rank || group->peers->peers[i].is_far)
            continue;
        acre_status status =
            channel_send(group->peers->peers[i].fd, bytes, sizeof bytes, fds, count, deadline);
        if (status == ACRE_ERR_PEER && *out_gone < 0)
            *out_gone = i;
        else if (status == ACRE_ERR_TIMEOUT)
            result = status_fail(status,
                                 "rendezvous of group \"%s\": rank %d (process %d) did not take "
                                 "what was sent before the deadline; is it stopped?",
                                 group->name, i, (int)group->peers->peers[i].pid);
        else if (status != ACRE_OK && status != ACRE_ERR_PEER)
            result = status;
    }
    if (group->peers->has_far) {
        acre_status status = post_send(group, record, deadline);
        result = result == ACRE_OK ? status : result;
    }
    return result;
}

/* Sends to all; the first rank that is gone is reported after all others have it. */
static acre_status send_all(const acre_group *group, const struct record *record, const int *fds,
                            int64_t deadline)
{
    int gone;
    acre_status status = send_each(group, record, fds, deadline, &gone);

    if (gone < 0)
        return status;
    fail_gone(group, gone, deadline);
    return fail_waiting(group, NULL);
}

/* Takes what a rank sent, if it is of this epoch. ACRE_ERR_NOT_READY: nothing yet. */
static acre_status take_one(const acre_group *group, int rank, enum record_type type,
                            int64_t deadline, struct link_offer *out)
{
    uint8_t bytes[RECORD_BYTES];
    struct link_offer offer;
    acre_status status = channel_take(group->peers->peers[rank].fd, bytes, sizeof bytes, offer.fds);

    if (status == ACRE_ERR_PEER)
        return fail_gone(group, rank, deadline);
    if (status != ACRE_OK)
        return status;
    status = record_decode(bytes, sizeof bytes, &offer.record);
    if (status == ACRE_OK && offer.record.epoch < group->epoch)
        status = ACRE_ERR_NOT_READY;
    else if (status == ACRE_OK &&
             (offer.record.rank != (uint32_t)rank || offer.record.token != group->peers->token ||
              offer.record.epoch != group->epoch || offer.record.type != type))
        status = status_fail(ACRE_ERR_FORMAT,
                             "rendezvous of group \"%s\": a message of rank %d "
                             "does not belong here; did ranks call in another order?",
                             group->name, rank);
    if (status != ACRE_OK)
        offer_close(&offer);
    else
        *out = offer;
    return status;
}

static acre_status fail_missing(const acre_group *group, const bool *is_missing)
{
    char list[256];

    ranks_text(list, sizeof list, is_missing, group->count);
    return status_fail(ACRE_ERR_TIMEOUT,
                       "rendezvous of group \"%s\": %s did not come before the "
                       "deadline",
                       group->name, list);
}

/* Waits until something may have come, someone died, or the deadline passed. */
static acre_status wait_some(const acre_group *group, struct pollfd *polls, const bool *is_missing,
                             int64_t deadline)
{
    int count = 0;

    for (int i = 0; i < group->count; i++)
        if (is_missing[i])
            polls[count++] = (struct pollfd){group->peers->peers[i].fd, POLLIN, 0};
    int64_t slice = deadline_sooner(deadline, deadline_in_ms(SLICE_MS));
    if (poll(polls, (nfds_t)count, deadline_poll_ms(slice)) > 0)
        return ACRE_OK;
    for (int i = 0; i < group->count; i++)
        if (is_missing[i] && link_is_dead(group->peers, i))
            return fail_gone(group, i, deadline);
    return deadline_left_ns(deadline) == 0 ? fail_missing(group, is_missing) : ACRE_OK;
}

/* Takes what ranks on other hosts sent, one after the other: who waits for one waits for all. */
static acre_status collect_far(const acre_group *group, enum record_type type,
                               struct link_offer *offers, bool *is_missing, int64_t deadline)
{
    for (int i = 0; i < group->count; i++) {
        for (int k = 0; k < CHANNEL_FDS && is_missing[i]; k++)
            offers[i].fds[k] = -1;
        while (is_missing[i]) {
            struct record *record = &offers[i].record;
            acre_status status = post_take(group, i, type, deadline, record);
            if (status == ACRE_OK && record->type != type)
                return status_fail(record->status,
                                   "rendezvous of group \"%s\": rank %d failed: "
                                   "%s",
                                   group->name, i, record->text);
            is_missing[i] = status != ACRE_OK;
            for (int k = 0; k < group->count && status == ACRE_ERR_NOT_READY; k++)
                if (link_is_dead(group->peers, k))
                    return fail_gone(group, k, deadline);
            if (status == ACRE_ERR_NOT_READY && deadline_left_ns(deadline) == 0)
                return fail_missing(group, is_missing);
            if (status != ACRE_OK && status != ACRE_ERR_NOT_READY)
                return status;
        }
    }
    return ACRE_OK;
}

/* Room for waiting for all, taken before anything is sent: once the others have what they wait for,
 * this rank may not fail for want of memory. */
struct collecting {
    bool *is_missing;
    struct pollfd *polls;
};

static void collecting_fini(struct collecting *collecting)
{
    heap_free(collecting->is_missing);
    heap_free(collecting->polls);
}

static acre_status collecting_init(struct collecting *collecting, int count)
{
    collecting->is_missing = heap_array((size_t)count, sizeof *collecting->is_missing);
    collecting->polls = heap_array((size_t)count, sizeof *collecting->polls);
    if (collecting->is_missing && collecting->polls)
        return ACRE_OK;
    collecting_fini(collecting);
    *collecting = (struct collecting){NULL, NULL};
    return ACRE_ERR_HOST_MEMORY;
}

/* Takes a message of a type from every other rank. On failure those that came are closed. */
static acre_status exchange_collect(const acre_group *group, enum record_type type,
                                    const struct collecting *collecting, struct link_offer *offers,
                                    int64_t deadline)
{
    bool *is_missing = collecting->is_missing;
    acre_status status = ACRE_OK;
    int missing = 0;

    for (int i = 0; i < group->count; i++) {
        is_missing[i] = i != group->rank && !group->peers->peers[i].is_far;
        missing += is_missing[i];
    }
    while (missing > 0 && status == ACRE_OK) {
        for (int i = 0; i < group->count && status == ACRE_OK; i++) {
            if (!is_missing[i])
                continue;
            status = take_one(group, i, type, deadline, &offers[i]);
            if (status == ACRE_OK) {
                is_missing[i] = false;
                missing--;
            } else if (status == ACRE_ERR_NOT_READY) {
                status = ACRE_OK;
            }
        }
        if (missing > 0 && status == ACRE_OK)
            status = wait_some(group, collecting->polls, is_missing, deadline);
    }
    if (status == ACRE_ERR_PEER)
        fail_waiting(group, is_missing);
    for (int i = 0; i < group->count && status == ACRE_OK; i++)
        is_missing[i] = group->peers->peers[i].is_far;
    if (status == ACRE_OK && group->peers->has_far)
        status = collect_far(group, type, offers, is_missing, deadline);
    for (int i = 0; i < group->count && status != ACRE_OK; i++)
        if (i != group->rank && !is_missing[i] && !group->peers->peers[i].is_far)
            offer_close(&offers[i]);
    return status;
}

/* Tells the others that this rank gives up, and why; they are past waiting for it. */
static void send_failure(const acre_group *group, acre_status status)
{
    struct record vote = {.status = status};
    struct status_saved saved;
    int gone; /* they know already */

    status_save(&saved);
    exchange_stamp(group, RECORD_VERDICT, &vote);
    snprintf(vote.text, sizeof vote.text, "%s", acre_last_error());
    send_each(group, &vote, NULL, deadline_in_ms(1000), &gone);
    status_restore(&saved);
}

acre_status exchange_refuse_locked(acre_group *group, acre_status status, int64_t deadline)
{
    struct record card = {.status = status};
    struct status_saved saved;
    int gone;

    status_save(&saved);
    snprintf(card.text, sizeof card.text, "%s", acre_last_error());
    if (group_join_locked(group, deadline) == ACRE_OK) {
        group->epoch++;
        exchange_stamp(group, RECORD_CARD, &card);
        send_each(group, &card, NULL, deadline, &gone);
        status_restore(&saved);
        send_failure(group, status);
    }
    status_restore(&saved);
    return status;
}

acre_status exchange_offers_locked(acre_group *group, const struct link_offer *mine,
                                   struct link_offer *offers, int64_t deadline)
{
    struct collecting collecting;
    acre_status status = collecting_init(&collecting, group->count);

    if (status != ACRE_OK)
        return exchange_refuse_locked(group, status, deadline);
    status = group_join_locked(group, deadline);
    if (status != ACRE_OK) {
        collecting_fini(&collecting);
        return status;
    }
    group->epoch++;
    struct link_offer own = *mine;
    exchange_stamp(group, RECORD_CARD, &own.record);
    status = send_all(group, &own.record, own.fds, deadline);
    if (status == ACRE_OK)
        status = exchange_collect(group, RECORD_CARD, &collecting, offers, deadline);
    collecting_fini(&collecting);
    if (status != ACRE_OK) {
        send_failure(group, status);
        return status;
    }
    offers[group->rank] = own;
    return ACRE_OK;
}

/* The failure of the lowest rank that has one. */
static acre_status votes_read(const acre_group *group, const struct link_offer *votes)
{
    for (int i = 0; i < group->count; i++) {
        const struct record *record = &votes[i].record;
        if (i != group->rank && record->status != ACRE_OK)
            return status_fail(record->status, "rendezvous of group \"%s\": rank %d failed: %s",
                               group->name, i, record->text);
    }
    return ACRE_OK;
}

acre_status exchange_vote_locked(acre_group *group, acre_status mine, int64_t deadline)
{
    struct record vote = {.status = ACRE_OK};
    struct collecting collecting = {NULL, NULL};
    struct link_offer *votes = NULL;
    acre_status status = mine;

    if (status == ACRE_OK)
        status = collecting_init(&collecting, group->count);
    if (status == ACRE_OK && !(votes = heap_array((size_t)group->count, sizeof *votes)))
        status = ACRE_ERR_HOST_MEMORY;
    if (status != ACRE_OK) {
        send_failure(group, status);
        collecting_fini(&collecting);
        return status;
    }
    exchange_stamp(group, RECORD_VERDICT, &vote);
    status = send_all(group, &vote, NULL, deadline);
    if (status == ACRE_OK)
        status = exchange_collect(group, RECORD_VERDICT, &collecting, votes, deadline);
    if (status == ACRE_OK) {
        status = votes_read(group, votes);
        for (int i = 0; i < group->count; i++)
            if (i != group->rank)
                offer_close(&votes[i]);
    }
    collecting_fini(&collecting);
    heap_free(votes);
    return status;
}

/* What the others offered instead of coming to a barrier. */
static acre_status barrier_check(const acre_group *group, const struct link_offer *offers)
{
    for (int i = 0; i < group->count; i++) {
        const struct record *record = &offers[i].record;
        if (record->status != ACRE_OK)
            return status_fail(record->status, "barrier of group \"%s\": rank %d failed: %s",
                               group->name, i, record->text);
        if (record->kind != KIND_NONE)
            return status_fail(ACRE_ERR_INVALID,
                               "barrier of group \"%s\": rank %d is in a rendezvous instead",
                               group->name, i);
    }
    return ACRE_OK;
}

acre_status exchange_barrier_locked(acre_group *group, int64_t deadline)
{
    struct link_offer mine = {.fds = {-1, -1}};
    struct link_offer *offers = heap_array((size_t)group->count, sizeof *offers);

    if (!offers)
        return exchange_refuse_locked(group, ACRE_ERR_HOST_MEMORY, deadline);
    acre_status status = exchange_offers_locked(group, &mine, offers, deadline);
    if (status == ACRE_OK) {
        for (int i = 0; i < group->count; i++)
            if (i != group->rank)
                offer_close(&offers[i]);
        status = barrier_check(group, offers);
        status = exchange_vote_locked(group, status, deadline);
    }
    heap_free(offers);
    return status;
}
