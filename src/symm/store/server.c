/* SPDX-License-Identifier: MIT */
/* The server of TCP stores: one thread, one table, poll(2), bounded memory per client.
 *
 *             proof is right          a whole frame            answered
 *   GREETING ───────────────► READY ────────────────► WAITING ─────────► READY
 *      │ anything else          │ a bad frame            deadline: answered
 *      └──────► gone ◄──────────┘                        hung up: gone
 *
 * A client has one request under way; while it waits its bytes are not read. Every change
 * of the table tries all who wait again. Strangers may connect and say nothing: few are in GREETING
 * at a time, and the first of them is reset when another needs its place or descriptor. A child of
 * fork keeps no socket of either side, so that who is killed is gone for the other although a child
 * of it lives.
 */
#include "base/process/fork.h"
#include "base/process/fork_fd.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/status.h"
#include "base/process/thread.h"
#include "symm/deadline.h"
#include "symm/store/frame.h"
#include "symm/store/net.h"
#include "symm/store/store.h"
#include "symm/store/table.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLIENTS_MAX   8192
#define GREETINGS_MAX 256   /* clients without a proof at a time                            */
#define GREETING_MS   10000 /* after which a client without a proof is dropped              */
#define PLACE_MS      250   /* after which it may be reset when its place is needed         */
#define PAUSE_MS      100   /* before another try to accept when descriptors have run out   */

enum client_state { CLIENT_GREETING, CLIENT_READY, CLIENT_WAITING };

struct server_client {
    struct list link; /* in server->clients                         */
    int fd;
    enum client_state state;
    bool is_gone; /* to be destroyed at the end of the round    */
    struct session session;
    uint8_t nonce[NONCE_BYTES];
    acre_blob in;   /* room for what comes next                   */
    size_t in_used; /* bytes of it that came                      */
    acre_blob out;  /* an answer under way; data NULL: none       */
    size_t out_sent;
    struct message request; /* WAITING: borrows from in                   */
    int64_t deadline;       /* GREETING, WAITING                          */
};

struct acre_store_server {
    int listener, stop; /* stop: an eventfd that ends the thread      */
    uint16_t port;
    uint8_t key[16];
    unsigned generation; /* fork_generation() of the process that has the thread */
    pthread_t thread;
    struct table table; /* the thread's, as all that follows          */
    struct list clients;
    int client_count, greeting_count;
    int64_t paused_until; /* no connections are taken before; 0: they are */
    bool has_changed;     /* those who wait must be tried again         */
    struct pollfd *polls; /* room for poll_room                         */
    int poll_room;
};

/* ---- Clients ---------------------------------------------------------------------- */

static void client_destroy(struct acre_store_server *server, struct server_client *client)
{
    list_remove(&client->link);
    server->client_count--;
    server->greeting_count -= client->state == CLIENT_GREETING;
    fork_fd_close(client->fd);
    message_fini(&client->request);
    acre_blob_free(&client->in);
    acre_blob_free(&client->out);
    heap_free(client);
}

/* Makes room for the next part of a message, keeping what has arrived. */
static bool client_expect(struct server_client *client, size_t bytes)
{
    void *data = heap_realloc(client->in.data, bytes);

    if (!data)
        return false;
    client->in = (acre_blob){data, bytes};
    return true;
}

static void client_flush(struct server_client *client)
{
    while (client->out_sent < client->out.bytes) {
        ssize_t sent = send(client->fd, (char *)client->out.data + client->out_sent,
                            client->out.bytes - client->out_sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0) {
            if (errno != EAGAIN && errno != EINTR)
                client->is_gone = true;
            return;
        }
        client->out_sent += (size_t)sent;
    }
    acre_blob_free(&client->out);
    client->out_sent = 0;
}

static void client_answer_failure(struct server_client *client, acre_status status);

/* Sends an answer and makes ready for the next frame. */
static void client_answer(struct server_client *client, struct reply *reply)
{
    acre_blob message;

    acre_status status = reply_encode(reply, &message);
    if (status != ACRE_OK && reply->status == ACRE_OK) { /* too long: say so instead */
        client_answer_failure(client, status);
        return;
    }
    message_fini(&client->request);
    client->state = CLIENT_READY;
    client->in_used = 0;
    if (status != ACRE_OK || !client_expect(client, FRAME_HEAD)) {
        client->is_gone = true;
        if (status == ACRE_OK)
            acre_blob_free(&message);
        return;
    }
    if (frame_seal(&client->session, SIDE_SERVER, &message, &client->out) != ACRE_OK)
        client->is_gone = true;
    else
        client_flush(client);
    acre_blob_free(&message);
}

static void client_answer_failure(struct server_client *client, acre_status status)
{
    struct reply reply = {.status = status};
    const char *text = acre_last_error();

    if (reply_add(&reply, (struct bytes){text, strlen(text)}) != ACRE_OK)
        reply.status = ACRE_ERR_HOST_MEMORY;
    client_answer(client, &reply);
    reply_fini(&reply);
}

/* Tries the request of a client; it may have to wait. */
static void client_try(struct acre_store_server *server, struct server_client *client)
{
    struct reply reply = {.is_bounded = true};
    bool is_change = verb_is_change(client->request.verb);
    acre_status status = table_apply(&server->table, &client->request, &reply);

    if (status == ACRE_OK) {
        server->has_changed |= is_change;
        client_answer(client, &reply);
    } else if (status != ACRE_ERR_NOT_READY) {
        client_answer_failure(client, status);
    } else if (deadline_left_ns(client->deadline) == 0) {
        client_answer_failure(client,
                              store_fail_timeout(table_missing(&server->table, &client->request)));
    }
    reply_fini(&reply);
}

/* ---- What comes in ---------------------------------------------------------------- */

static void take_greeting(struct acre_store_server *server, struct server_client *client)
{
    uint8_t *answer = client->in.data, *nonce = answer + 8, expected[PROOF_BYTES];

    greeting_proof(server->key, 'C', client->nonce, nonce, expected);
    if (memcmp(answer, FRAME_MAGIC, 8) != 0 || !proof_is_equal(expected, nonce + NONCE_BYTES)) {
        client->is_gone = true;
        return;
    }
    greeting_proof(server->key, 'S', client->nonce, nonce, expected);
    greeting_proof(server->key, 'K', client->nonce, nonce, client->session.key);
    client->state = CLIENT_READY;
    server->greeting_count--;
    server->paused_until = 0; /* its place among those who greet is free */
    client->in_used = 0;
    if (blob_copy(&client->out, expected, PROOF_BYTES) != ACRE_OK ||
        !client_expect(client, FRAME_HEAD))
        client->is_gone = true;
    else
        client_flush(client);
}

/* A head came, or the whole frame. */
static void take_frame(struct acre_store_server *server, struct server_client *client)
{
    size_t bytes = frame_length(client->in.data);
    struct bytes message;

    if (bytes == 0) {
        client->is_gone = true;
    } else if (client->in.bytes < bytes) {
        client->is_gone = !client_expect(client, bytes);
    } else if (frame_open(&client->session, SIDE_CLIENT, client->in.data, bytes, &message) !=
                   ACRE_OK ||
               message_decode(message.data, message.size, &client->request) != ACRE_OK) {
        client->is_gone = true;
    } else {
        client->state = CLIENT_WAITING;
        client->deadline = deadline_in_ms(client->request.wait_ms);
        client_try(server, client);
    }
}

static void client_read(struct acre_store_server *server, struct server_client *client)
{
    if (client->state == CLIENT_WAITING || client->out.data) {
        client->is_gone = true; /* nothing was asked for but to be told of the end */
        return;
    }
    ssize_t got = recv(client->fd, (char *)client->in.data + client->in_used,
                       client->in.bytes - client->in_used, MSG_DONTWAIT);
    if (got <= 0) {
        client->is_gone = got == 0 || (errno != EAGAIN && errno != EINTR);
        return;
    }
    client->in_used += (size_t)got;
    if (client->in_used < client->in.bytes)
        return;
    if (client->state == CLIENT_GREETING)
        take_greeting(server, client);
    else
        take_frame(server, client);
}

/* Room to poll one client more. */
static bool server_grow(struct acre_store_server *server)
{
    if (server->client_count + 3 <= server->poll_room)
        return true;
    int room = server->poll_room * 2;
    struct pollfd *polls = heap_realloc(server->polls, (size_t)room * sizeof *polls);
    if (!polls)
        return false;
    server->polls = polls;
    server->poll_room = room;
    return true;
}

/* Resets the client that is in GREETING for longest; a reset tells it to try again, as hanging up
 * does not. False: there is none, or it is too early and no connections are taken before. */
static bool server_make_place(struct acre_store_server *server)
{
    const struct linger at_once = {1, 0};

    LIST_FOR_EACH(it, &server->clients) {
        struct server_client *client = CONTAINER_OF(it, struct server_client, link);
        int64_t due = client->deadline - (GREETING_MS - PLACE_MS) * NS_PER_MS;
        if (client->state != CLIENT_GREETING)
            continue;
        if (deadline_left_ns(due) > 0) {
            server->paused_until = due;
            return false;
        }
        setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
        client_destroy(server, client);
        return true;
    }
    return false;
}

static void server_accept(struct acre_store_server *server)
{
    bool is_full = server->greeting_count >= GREETINGS_MAX || server->client_count >= CLIENTS_MAX;
    uint8_t hello[HELLO_BYTES];

    if (is_full && !server_make_place(server) && server->paused_until)
        return;
    int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        /* No descriptor is left: who wants to connect waits in the queue of the listener. */
        if ((errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) &&
            !server_make_place(server) && !server->paused_until)
            server->paused_until = deadline_in_ms(PAUSE_MS);
        return;
    }
    struct server_client *client = heap_zalloc(sizeof *client);
    if (!client || server->client_count >= CLIENTS_MAX || !server_grow(server) ||
        nonce_make(client->nonce) != ACRE_OK || !client_expect(client, ANSWER_BYTES) ||
        fork_fd_note(fd) != ACRE_OK) {
        if (client)
            acre_blob_free(&client->in);
        heap_free(client);
        close(fd);
        return;
    }
    client->fd = fd;
    client->deadline = deadline_in_ms(GREETING_MS);
    memcpy(hello, FRAME_MAGIC, 8);
    memcpy(hello + 8, client->nonce, NONCE_BYTES);
    if (blob_copy(&client->out, hello, sizeof hello) != ACRE_OK)
        client->is_gone = true;
    list_push_back(&server->clients, &client->link);
    server->client_count++;
    server->greeting_count++;
    client_flush(client);
}

/* ---- The thread ------------------------------------------------------------------- */

/* Fills in what to poll for; gives the next deadline. */
static int64_t server_prepare(struct acre_store_server *server)
{
    int64_t deadline = DEADLINE_NEVER;
    int at = 2;

    server->polls[0] = (struct pollfd){server->stop, POLLIN, 0};
    if (server->paused_until && deadline_left_ns(server->paused_until) == 0)
        server->paused_until = 0;
    if (server->paused_until)
        deadline = server->paused_until;
    server->polls[1] = (struct pollfd){server->paused_until ? -1 : server->listener, POLLIN, 0};
    LIST_FOR_EACH(it, &server->clients) {
        struct server_client *client = CONTAINER_OF(it, struct server_client, link);
        short events = client->state == CLIENT_WAITING ? POLLRDHUP
                       : client->out.data              ? POLLOUT | POLLRDHUP
                                                       : POLLIN | POLLRDHUP;
        server->polls[at++] = (struct pollfd){client->fd, events, 0};
        if (client->state != CLIENT_READY)
            deadline = deadline_sooner(deadline, client->deadline);
    }
    return deadline;
}

static void server_serve(struct acre_store_server *server)
{
    int at = 2;

    LIST_FOR_EACH(it, &server->clients) {
        struct server_client *client = CONTAINER_OF(it, struct server_client, link);
        short events = server->polls[at++].revents;
        if (events & POLLOUT)
            client_flush(client);
        if (events & (POLLIN | POLLRDHUP | POLLHUP | POLLERR))
            client_read(server, client);
        if (client->state == CLIENT_GREETING && deadline_left_ns(client->deadline) == 0)
            client->is_gone = true;
        else if (client->state == CLIENT_WAITING && deadline_left_ns(client->deadline) == 0)
            client_try(server, client);
    }
}

static void server_wake(struct acre_store_server *server)
{
    while (server->has_changed) {
        server->has_changed = false;
        LIST_FOR_EACH(it, &server->clients) {
            struct server_client *client = CONTAINER_OF(it, struct server_client, link);
            if (client->state == CLIENT_WAITING && !client->is_gone)
                client_try(server, client);
        }
    }
}

static void *server_run(void *arg)
{
    struct acre_store_server *server = arg;

    for (;;) {
        int64_t deadline = server_prepare(server);
        int ready =
            poll(server->polls, (nfds_t)server->client_count + 2, deadline_poll_ms(deadline));
        if (ready < 0) {
            uint64_t stop;
            if (read(server->stop, &stop, sizeof stop) == sizeof stop)
                return NULL;
            /* The limit of descriptors may have been lowered below what is open. */
            nanosleep(&(struct timespec){0, PAUSE_MS * NS_PER_MS}, NULL);
            continue;
        }
        if (server->polls[0].revents)
            return NULL;
        server_serve(server);
        server_wake(server);
        LIST_FOR_EACH_SAFE(it, after, &server->clients) {
            struct server_client *client = CONTAINER_OF(it, struct server_client, link);
            if (client->is_gone) {
                client_destroy(server, client);
                server->paused_until = 0;
            }
        }
        if (server->polls[1].revents)
            server_accept(server);
    }
}

static void server_close(struct acre_store_server *server)
{
    LIST_FOR_EACH_SAFE(it, after, &server->clients)
        client_destroy(server, CONTAINER_OF(it, struct server_client, link));
    table_fini(&server->table);
    fork_fd_close(server->listener);
    if (server->stop >= 0)
        close(server->stop);
    heap_free(server->polls);
    heap_free(server);
}

ACRE_API acre_status acre_store_server_create(const char *host, uint16_t port, const char *secret,
                                              acre_store_server **out)
{
    bool is_loopback = true;

    if (!out)
        return status_fail(ACRE_ERR_INVALID, "acre_store_server_create: out is NULL");
    struct acre_store_server *server = heap_zalloc(sizeof *server);
    if (!server)
        return ACRE_ERR_HOST_MEMORY;
    list_init(&server->clients);
    table_init(&server->table);
    server->listener = -1;
    server->generation = fork_generation();
    server->stop = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    secret_key(secret, server->key);
    server->poll_room = 64;
    server->polls = heap_array(64, sizeof *server->polls);
    acre_status status = server->polls ? ACRE_OK : ACRE_ERR_HOST_MEMORY;
    if (status == ACRE_OK && server->stop < 0)
        status = status_fail_native(ACRE_ERR_IO, errno, "store: eventfd: %s", strerror(errno));
    if (status == ACRE_OK)
        status = net_listen(host, port, &server->listener, &server->port, &is_loopback);
    if (status == ACRE_OK)
        status = fork_fd_note(server->listener);
    if (status == ACRE_OK && !is_loopback && (!secret || !*secret))
        status = status_fail(ACRE_ERR_REJECTED,
                             "acre_store_server_create: %s is reachable from "
                             "elsewhere; give a secret",
                             host);
    if (status == ACRE_OK && thread_start(&server->thread, server_run, server) != 0)
        status = status_fail(ACRE_ERR_HOST_MEMORY, "acre_store_server_create: no thread");
    if (status != ACRE_OK)
        server_close(server);
    else
        *out = server;
    return status;
}

ACRE_API uint16_t acre_store_server_port(const acre_store_server *server)
{
    return server ? server->port : 0;
}

ACRE_API void acre_store_server_destroy(acre_store_server *server)
{
    uint64_t one = 1;

    if (!server)
        return;
    if (server->generation != fork_generation()) {
        close(server->stop); /* the thread, and all it works on, are the parent's */
        return;
    }
    while (write(server->stop, &one, sizeof one) < 0 && errno == EINTR)
        ;
    pthread_join(server->thread, NULL);
    server_close(server);
}
