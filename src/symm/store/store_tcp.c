/* SPDX-License-Identifier: MIT */
/* A store on a server. Every call takes a connection that nobody uses, or makes one, so
 * that a thread that waits for a key does not hinder others. A connection on which
 * something went wrong is closed and never used again. */
#include "base/heap.h"
#include "base/process/fork_fd.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/status.h"
#include "symm/deadline.h"
#include "symm/store/frame.h"
#include "symm/store/net.h"
#include "symm/store/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GRACE_MS 1000 /* that a server has beyond the deadline to say it passed */
#define RETRY_MS 10   /* before another greeting                                */

struct tcp_connection {
    struct list link; /* in tcp->idle while nobody uses it */
    int fd;
    struct session session;
};

struct tcp {
    acre_store store;
    struct lock lock; /* guards idle */
    struct list idle;
    char *host;
    uint16_t port;
    uint8_t key[16];
};

static void connection_destroy(struct tcp_connection *connection)
{
    fork_fd_close(connection->fd);
    heap_free(connection);
}

static acre_status fail_refused(const struct tcp *tcp)
{
    return status_fail(ACRE_ERR_REJECTED,
                       "store: %s:%u is no store of this job: it has another "
                       "secret (ACRE_STORE_SECRET)",
                       tcp->host, tcp->port);
}

/* A server that many strangers connect to may need the place before the greeting is over; then it
 * resets the connection, which it does not do to who has another secret. */
static bool was_reset(acre_status status)
{
    return status == ACRE_ERR_PEER &&
           (acre_last_native() == ECONNRESET || acre_last_native() == EPIPE);
}

/* Exchanges greetings on a fresh connection. */
static acre_status store_tcp_greet(struct tcp *tcp, struct tcp_connection *connection,
                                   int64_t deadline)
{
    uint8_t hello[HELLO_BYTES], answer[ANSWER_BYTES], proof[PROOF_BYTES], expected[PROOF_BYTES];
    uint8_t *nonce = answer + 8;
    acre_status status = net_receive(connection->fd, hello, sizeof hello, deadline);

    if (status == ACRE_OK && memcmp(hello, FRAME_MAGIC, 8) != 0)
        status = status_fail(ACRE_ERR_REJECTED, "store: what listens at %s:%u is not a store",
                             tcp->host, tcp->port);
    if (status == ACRE_OK)
        status = nonce_make(nonce);
    if (status != ACRE_OK)
        return status;
    memcpy(answer, FRAME_MAGIC, 8);
    greeting_proof(tcp->key, 'C', hello + 8, nonce, nonce + NONCE_BYTES);
    status = net_send(connection->fd, answer, sizeof answer, deadline);
    if (status == ACRE_OK)
        status = net_receive(connection->fd, proof, sizeof proof, deadline);
    if (status == ACRE_ERR_PEER && !was_reset(status))
        return fail_refused(tcp);
    if (status != ACRE_OK)
        return status;
    greeting_proof(tcp->key, 'S', hello + 8, nonce, expected);
    if (!proof_is_equal(proof, expected))
        return fail_refused(tcp);
    greeting_proof(tcp->key, 'K', hello + 8, nonce, connection->session.key);
    return ACRE_OK;
}

/* Connects and greets, once. */
static acre_status connection_try(struct tcp *tcp, int64_t deadline, struct tcp_connection **out)
{
    struct tcp_connection *connection = heap_zalloc(sizeof *connection);

    if (!connection)
        return ACRE_ERR_HOST_MEMORY;
    list_init(&connection->link);
    acre_status status = net_connect(tcp->host, tcp->port, deadline, &connection->fd);
    if (status != ACRE_OK) {
        heap_free(connection);
        return status;
    }
    status = fork_fd_note(connection->fd);
    if (status == ACRE_OK)
        status = store_tcp_greet(tcp, connection, deadline);
    if (status != ACRE_OK)
        connection_destroy(connection);
    else
        *out = connection;
    return status;
}

static acre_status connection_create(struct tcp *tcp, int64_t deadline, struct tcp_connection **out)
{
    acre_status status = connection_try(tcp, deadline, out);

    while (was_reset(status)) {
        if (deadline_left_ns(deadline) == 0)
            return status_fail(ACRE_ERR_TIMEOUT,
                               "store: %s:%u had no place for another client before the deadline",
                               tcp->host, tcp->port);
        nanosleep(&(struct timespec){0, RETRY_MS * NS_PER_MS}, NULL);
        status = connection_try(tcp, deadline, out);
    }
    return status;
}

static acre_status connection_take(struct tcp *tcp, int64_t deadline, struct tcp_connection **out)
{
    struct tcp_connection *connection = NULL;

    lock_take(&tcp->lock);
    if (!list_empty(&tcp->idle)) {
        connection = CONTAINER_OF(tcp->idle.next, struct tcp_connection, link);
        list_remove(&connection->link);
    }
    lock_drop(&tcp->lock);
    if (!connection)
        return connection_create(tcp, deadline, out);
    *out = connection;
    return ACRE_OK;
}

static void connection_put(struct tcp *tcp, struct tcp_connection *connection)
{
    lock_take(&tcp->lock);
    list_push_front(&tcp->idle, &connection->link);
    lock_drop(&tcp->lock);
}

static acre_status send_message(struct tcp_connection *connection, const struct message *request,
                                int64_t deadline)
{
    acre_blob message, frame;
    acre_status status = message_encode(request, &message);

    if (status != ACRE_OK)
        return status;
    status = frame_seal(&connection->session, SIDE_CLIENT, &message, &frame);
    acre_blob_free(&message);
    if (status != ACRE_OK)
        return status;
    status = net_send(connection->fd, frame.data, frame.bytes, deadline);
    acre_blob_free(&frame);
    return status;
}

static acre_status receive_reply(struct tcp_connection *connection, int64_t deadline,
                                 struct reply *reply)
{
    uint8_t head[FRAME_HEAD];
    struct bytes message;
    acre_status status = net_receive(connection->fd, head, sizeof head, deadline);

    if (status != ACRE_OK)
        return status;
    size_t bytes = frame_length(head);
    if (bytes == 0)
        return status_fail(ACRE_ERR_FORMAT, "store: the server sent a frame that is too long");
    uint8_t *frame = heap_alloc(bytes);
    if (!frame)
        return ACRE_ERR_HOST_MEMORY;
    memcpy(frame, head, FRAME_HEAD);
    status = net_receive(connection->fd, frame + FRAME_HEAD, bytes - FRAME_HEAD, deadline);
    if (status == ACRE_OK)
        status = frame_open(&connection->session, SIDE_SERVER, frame, bytes, &message);
    if (status == ACRE_OK)
        status = reply_decode(message.data, message.size, reply);
    heap_free(frame);
    return status;
}

/* Turns a failure that the server reports into one of this thread. */
static acre_status reply_status(struct reply *reply)
{
    acre_status status = reply->status;

    if (status == ACRE_OK)
        return ACRE_OK;
    status_fail(status, "%s",
                reply->count ? (const char *)reply->items[0].data : acre_status_text(status));
    reply_fini(reply);
    return status;
}

static acre_status tcp_call(acre_store *self, const struct message *request, int64_t deadline,
                            struct reply *reply)
{
    struct tcp *tcp = (struct tcp *)self;
    struct tcp_connection *connection;
    struct message sent = *request;
    int64_t left = deadline_left_ns(deadline);
    int64_t patience = deadline == DEADLINE_NEVER ? deadline : deadline + GRACE_MS * NS_PER_MS;
    acre_status status = connection_take(tcp, deadline, &connection);

    if (status != ACRE_OK)
        return status;
    sent.wait_ms = deadline == DEADLINE_NEVER ? 0 : (uint64_t)(left / NS_PER_MS + 1);
    status = send_message(connection, &sent, deadline);
    if (status == ACRE_OK)
        status = receive_reply(connection, patience, reply);
    if (status != ACRE_OK) {
        connection_destroy(connection);
        return status;
    }
    connection_put(tcp, connection);
    return reply_status(reply);
}

static void tcp_destroy(acre_store *self)
{
    struct tcp *tcp = (struct tcp *)self;

    LIST_FOR_EACH_SAFE(it, after, &tcp->idle)
        connection_destroy(CONTAINER_OF(it, struct tcp_connection, link));
    lock_fini(&tcp->lock);
    heap_free(tcp->host);
    heap_free(tcp);
}

static const struct store_ops tcp_ops = {tcp_call, tcp_destroy};

ACRE_API acre_status acre_store_connect(const char *host, uint16_t port, const char *secret,
                                        uint64_t timeout_ms, acre_store **out)
{
    struct tcp_connection *first;

    if (!host || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_store_connect: %s is NULL",
                           host ? "out" : "host");
    struct tcp *tcp = heap_zalloc(sizeof *tcp);
    if (!tcp)
        return ACRE_ERR_HOST_MEMORY;
    store_init(&tcp->store, &tcp_ops);
    lock_init(&tcp->lock, RANK_LEAF, "tcp store");
    list_init(&tcp->idle);
    tcp->port = port;
    secret_key(secret ? secret : getenv("ACRE_STORE_SECRET"), tcp->key);
    tcp->host = heap_strdup(host);
    acre_status status = ACRE_ERR_HOST_MEMORY;
    if (tcp->host)
        status = connection_create(tcp, deadline_in_ms(timeout_ms ? timeout_ms : STORE_TIMEOUT_MS),
                                   &first);
    if (status != ACRE_OK) {
        tcp_destroy(&tcp->store);
        return status;
    }
    connection_put(tcp, first);
    *out = &tcp->store;
    return ACRE_OK;
}
