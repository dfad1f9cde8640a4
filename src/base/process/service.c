/* SPDX-License-Identifier: MIT */
/* See service.h. */
#include "base/process/service.h"

#include "base/check.h"
#include "base/process/fork.h"
#include "base/process/fork_fd.h"
#include "base/process/thread.h"
#include "base/heap.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/process/socket.h"
#include "base/status.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS_MAX 1024
#define STEP_MS         5000 /* for a request to come, for a reply to be taken    */
#define ACCEPT_MS       20   /* before accepting again when descriptors ran out   */
#define ACCEPT_MAX      64   /* taken in or turned away between looks at the rest */

enum { AT_WAKE, AT_LISTEN, AT_CONNECTIONS }; /* places in polls */

struct offer {
    struct list link; /* in service.offers; on its own once withdrawn  */
    struct service *service;
    uint8_t token[WIRE_RANDOM_BYTES];
    struct offer_terms terms;
    bool is_withdrawn;      /* guarded by the lock                           */
    bool is_forgotten;      /* its owner is gone                             */
    _Atomic uint32_t users; /* connections; changed under the lock           */
};

enum state { ASKING, SENDING, USING };

struct service_connection {
    int fd;
    enum state state;
    int64_t deadline_ms; /* of the present state; not for USING            */
    struct offer *offer; /* NULL while ASKING                              */
    uint32_t fd_next;    /* the first descriptor not sent yet              */
};

struct service {
    struct lock lock; /* RANK_SERVICE: offers, users                    */
    struct list offers;
    unsigned generation; /* of fork, when it was started                   */
    uint64_t hold_count; /* offers and other holders; under starting       */
    uint8_t name[WIRE_RANDOM_BYTES];
    int listener, wake;
    pthread_t thread;
    atomic_bool is_ending;
    /* The thread's alone. */
    uint32_t connection_count;
    int64_t accept_at_ms; /* when to accept again                           */
    struct service_connection connections[CONNECTIONS_MAX];
    struct pollfd polls[AT_CONNECTIONS + CONNECTIONS_MAX];
};

/* The service of this process, and the lock under which it starts and ends. */
static struct lock starting = LOCK_INITIALIZER(RANK_SERVICE, "service");
static struct service *current;

/* A child has neither the thread nor the connections, and finds the lock as some
 * other thread of its parent left it. */
static void in_child(void)
{
    lock_init(&starting, RANK_SERVICE, "service");
    current = NULL;
}

FORK_HANDLER(service_fork, NULL, NULL, in_child);

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- Connections: the thread's own work ----------------------------------------- */

/* Ends connection number i; the last one takes its place. */
static void connection_end(struct service *service, uint32_t i)
{
    struct service_connection *connection = &service->connections[i];
    struct offer *offer = connection->offer, *gone = NULL;

    fork_fd_close(connection->fd);
    if (offer) {
        lock_take(&service->lock);
        if (atomic_fetch_sub_explicit(&offer->users, 1, memory_order_release) == 1 &&
            offer->is_forgotten)
            gone = offer;
        lock_drop(&service->lock);
        heap_free(gone);
    }
    *connection = service->connections[--service->connection_count];
}

/* The offer of a token, with one user more; NULL: none. */
static struct offer *offer_enter(struct service *service, const uint8_t *token)
{
    struct offer *found = NULL;

    lock_take(&service->lock);
    LIST_FOR_EACH(link, &service->offers) {
        struct offer *offer = CONTAINER_OF(link, struct offer, link);

        if (memcmp(offer->token, token, WIRE_RANDOM_BYTES) == 0)
            found = offer;
    }
    if (found)
        atomic_fetch_add_explicit(&found->users, 1, memory_order_relaxed);
    lock_drop(&service->lock);
    return found;
}

static void service_refuse(const struct service_connection *connection, enum wire_answer answer)
{
    struct wire_reply reply;

    reply_write(&reply, answer);
    socket_send(connection->fd, &reply, sizeof reply, NULL, 0);
}

/* Makes the descriptors of the next batch; the count, or -1. */
static int batch_make(struct service *service, struct service_connection *connection,
                      int fds[WIRE_BATCH])
{
    struct offer *offer = connection->offer;
    uint32_t left = offer->terms.fd_total - connection->fd_next;
    int count = (int)(left < WIRE_BATCH ? left : WIRE_BATCH), made = 0;

    lock_take(&service->lock);
    while (made < count && !offer->is_withdrawn &&
           offer->terms.fd_at(offer->terms.arg, connection->fd_next + (uint32_t)made, &fds[made]) ==
               ACRE_OK)
        made++;
    lock_drop(&service->lock);
    if (made == count)
        return count;
    while (made > 0)
        close(fds[--made]);
    return -1;
}

/* Sends as many replies as the socket takes. False: the connection ends. */
static bool connection_send(struct service *service, struct service_connection *connection)
{
    const struct offer_terms *terms = &connection->offer->terms;
    struct wire_reply reply;
    int fds[WIRE_BATCH];

    do {
        int count = batch_make(service, connection, fds);
        if (count < 0) {
            service_refuse(connection, WIRE_FAILED);
            return false;
        }
        reply_write(&reply, WIRE_GIVEN);
        reply.fd_total = terms->fd_total;
        reply.fd_first = connection->fd_next;
        reply.fd_count = (uint32_t)count;
        reply.note_bytes = terms->note_bytes;
        memcpy(reply.note, terms->note, sizeof reply.note);
        int error = socket_send(connection->fd, &reply, sizeof reply, fds, count);
        for (int i = 0; i < count; i++)
            close(fds[i]);
        if (error)
            return error == EAGAIN;
        connection->fd_next += (uint32_t)count;
        connection->deadline_ms = now_ms() + STEP_MS;
    } while (connection->fd_next < terms->fd_total);
    connection->state = USING;
    return true;
}

/* Reads what came. The only thing a peer may say is its one request. */
static bool connection_receive(struct service *service, struct service_connection *connection)
{
    struct wire_request request;
    ssize_t bytes = recv(connection->fd, &request, sizeof request, MSG_TRUNC);

    if (bytes < 0)
        return errno == EAGAIN || errno == EINTR;
    if (connection->state != ASKING || !request_is_sound(&request, (size_t)bytes))
        return false;
    connection->offer = offer_enter(service, request.token);
    if (!connection->offer) {
        service_refuse(connection, WIRE_UNKNOWN);
        return false;
    }
    connection->state = SENDING;
    connection->deadline_ms = now_ms() + STEP_MS;
    return connection_send(service, connection);
}

static bool connection_serve(struct service *service, struct service_connection *connection,
                             short events, int64_t now)
{
    bool goes_on = true;

    if (connection->state == SENDING && (events & POLLOUT))
        goes_on = connection_send(service, connection);
    else if (events & (POLLIN | POLLHUP | POLLERR))
        goes_on = connection_receive(service, connection);
    return goes_on && (connection->state == USING || now < connection->deadline_ms);
}

/* Takes in who is waiting, except strangers, of whom there may be a flood. */
static void connections_accept(struct service *service, int64_t now)
{
    for (int i = 0; i < ACCEPT_MAX && service->connection_count < CONNECTIONS_MAX; i++) {
        int fd = accept4(service->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
                service->accept_at_ms = now + ACCEPT_MS;
            return;
        }
        if (!socket_is_own_user(fd) || fork_fd_note(fd) != ACRE_OK) {
            fork_fd_close(fd);
            continue;
        }
        service->connections[service->connection_count++] =
            (struct service_connection){.fd = fd, .state = ASKING, .deadline_ms = now + STEP_MS};
    }
}

/* ---- The thread ------------------------------------------------------------------- */

/* Fills polls; gives how long to wait, in ms, -1 for ever. */
static int polls_fill(struct service *service, int64_t now)
{
    bool may_accept = service->connection_count < CONNECTIONS_MAX && now >= service->accept_at_ms;
    int64_t first = may_accept ? INT64_MAX : now + ACCEPT_MS;

    service->polls[AT_WAKE] = (struct pollfd){.fd = service->wake, .events = POLLIN};
    service->polls[AT_LISTEN] =
        (struct pollfd){.fd = may_accept ? service->listener : -1, .events = POLLIN};
    for (uint32_t i = 0; i < service->connection_count; i++) {
        const struct service_connection *connection = &service->connections[i];

        service->polls[AT_CONNECTIONS + i] = (struct pollfd){
            .fd = connection->fd,
            .events = (short)(POLLIN | (connection->state == SENDING ? POLLOUT : 0))};
        if (connection->state != USING && connection->deadline_ms < first)
            first = connection->deadline_ms;
    }
    if (first == INT64_MAX)
        return -1;
    return first > now ? (int)(first - now) : 0;
}

static void *service_main(void *arg)
{
    struct service *service = arg;

    while (!atomic_load(&service->is_ending)) {
        int wait = polls_fill(service, now_ms());

        if (poll(service->polls, AT_CONNECTIONS + service->connection_count, wait) < 0) {
            /* The limit of descriptors may have been lowered below what is open. */
            nanosleep(&(struct timespec){0, ACCEPT_MS * 1000000}, NULL);
            continue;
        }
        int64_t now = now_ms();
        /* From the last: ending one moves the last into its place. */
        for (uint32_t i = service->connection_count; i-- > 0;)
            if (!connection_serve(service, &service->connections[i],
                                  service->polls[AT_CONNECTIONS + i].revents, now))
                connection_end(service, i);
        if (service->polls[AT_LISTEN].revents)
            connections_accept(service, now);
    }
    while (service->connection_count)
        connection_end(service, service->connection_count - 1);
    return NULL;
}

static acre_status service_thread(struct service *service)
{
    int code = thread_start(&service->thread, service_main, service);

    if (code)
        return status_fail_native(ACRE_ERR_LIMIT, code, "no thread for sharing memory: %s",
                                  strerror(code));
    return ACRE_OK;
}

/* ---- Life ---------------------------------------------------------------------------- */

static acre_status service_start(struct service **out)
{
    struct service *service = heap_zalloc(sizeof *service);
    acre_status status;

    if (!service)
        return ACRE_ERR_HOST_MEMORY;
    lock_init(&service->lock, RANK_SERVICE_OFFERS, "offers");
    list_init(&service->offers);
    service->listener = service->wake = -1;
    service->generation = fork_generation();
    status = wire_random(service->name, sizeof service->name);
    if (status == ACRE_OK)
        status = socket_listen(service->name, &service->listener);
    if (status == ACRE_OK)
        status = fork_fd_note(service->listener);
    if (status != ACRE_OK)
        goto close_all;
    service->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (service->wake < 0) {
        status = status_fail_native(ACRE_ERR_LIMIT, errno,
                                    "no descriptor for sharing memory: raise ulimit -n");
        goto close_all;
    }
    status = service_thread(service);
    if (status != ACRE_OK)
        goto close_all;
    *out = service;
    return ACRE_OK;

close_all:
    if (service->wake >= 0)
        close(service->wake);
    fork_fd_close(service->listener);
    lock_fini(&service->lock);
    heap_free(service);
    return status;
}

/* Ends the thread, which closes the connections. */
static void service_end(struct service *service)
{
    uint64_t one = 1;

    atomic_store(&service->is_ending, true);
    ssize_t written = write(service->wake, &one, sizeof one);
    CHECK(written == (ssize_t)sizeof one);
    (void)written;
    pthread_join(service->thread, NULL);
    CHECK(list_empty(&service->offers));
    close(service->wake);
    fork_fd_close(service->listener);
    lock_fini(&service->lock);
    heap_free(service);
}

acre_status service_hold(struct service **out)
{
    acre_status status = ACRE_OK;

    lock_take(&starting);
    if (!current)
        status = service_start(&current);
    if (status == ACRE_OK) {
        current->hold_count++;
        *out = current;
    }
    lock_drop(&starting);
    return status;
}

/* Whether it was started by whom we are a child of. */
static bool is_inherited(const struct service *service)
{
    return service->generation != fork_generation();
}

void service_release(struct service *service)
{
    struct service *ended = NULL;

    if (!service || is_inherited(service))
        return;
    lock_take(&starting);
    if (--service->hold_count == 0) {
        ended = service;
        current = NULL;
    }
    lock_drop(&starting);
    if (ended)
        service_end(ended);
}

/* ---- Offers ------------------------------------------------------------------------------ */

acre_status offer_create(const struct offer_terms *terms, struct offer **out)
{
    struct offer *offer = heap_zalloc(sizeof *offer);
    acre_status status;

    CHECK(terms->fd_total <= WIRE_FDS_MAX && terms->note_bytes <= WIRE_NOTE_BYTES);
    if (!offer)
        return ACRE_ERR_HOST_MEMORY;
    offer->terms = *terms;
    list_init(&offer->link);
    status = wire_random(offer->token, sizeof offer->token);
    if (status == ACRE_OK)
        status = service_hold(&offer->service);
    if (status != ACRE_OK) {
        heap_free(offer);
        return status;
    }
    lock_take(&offer->service->lock);
    list_push_back(&offer->service->offers, &offer->link);
    lock_drop(&offer->service->lock);
    *out = offer;
    return ACRE_OK;
}

void offer_ticket(const struct offer *offer, uint8_t out[WIRE_TICKET_BYTES])
{
    struct ticket ticket;

    memcpy(ticket.service, offer->service->name, WIRE_RANDOM_BYTES);
    memcpy(ticket.token, offer->token, WIRE_RANDOM_BYTES);
    ticket_write(&ticket, out);
}

void offer_withdraw(struct offer *offer)
{
    if (is_inherited(offer->service))
        return;
    lock_take(&offer->service->lock);
    offer->is_withdrawn = true;
    list_remove(&offer->link);
    lock_drop(&offer->service->lock);
}

uint32_t offer_users(const struct offer *offer)
{
    if (is_inherited(offer->service))
        return 0;
    return atomic_load_explicit(&offer->users, memory_order_acquire);
}

void offer_destroy(struct offer *offer)
{
    struct service *service;

    if (!offer || is_inherited(offer->service))
        return;
    offer_withdraw(offer);
    service = offer->service;
    lock_take(&service->lock);
    offer->is_forgotten = true;
    bool is_used = atomic_load(&offer->users) != 0;
    lock_drop(&service->lock);
    if (!is_used)
        heap_free(offer);
    service_release(service);
}
