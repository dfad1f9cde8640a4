/* SPDX-License-Identifier: MIT */
/* One thread in each process serves the others; requests are answered in order. */
#include "tests/support/wire.h"

#include "symm/far/far.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define REGIONS 256

struct request {
    uint32_t kind;
    uint64_t address, bytes, compare, value;
};

static struct {
    int rank, count;
    pid_t parent;
    int listener;
    int to[RANKS_MAX]; /* connections on which this rank asks */
    pthread_mutex_t lock;
    struct {
        char *base;
        size_t bytes;
    } regions[REGIONS]; /* under lock */
} wire = {.lock = PTHREAD_MUTEX_INITIALIZER};

static socklen_t address_of(int rank, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    int length = snprintf(out->sun_path + 1, sizeof out->sun_path - 1, "acre-wire-%d-%d",
                          (int)wire.parent, rank);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

static bool read_all(int fd, void *data, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        ssize_t got = recv(fd, (char *)data + at, bytes - at, 0);
        if (got <= 0 && !(got < 0 && errno == EINTR))
            return false;
        at += got > 0 ? (size_t)got : 0;
    }
    return true;
}

static bool write_all(int fd, const void *data, size_t bytes)
{
    for (size_t at = 0; at < bytes;) {
        ssize_t sent = send(fd, (const char *)data + at, bytes - at, MSG_NOSIGNAL);
        if (sent <= 0 && !(sent < 0 && errno == EINTR))
            return false;
        at += sent > 0 ? (size_t)sent : 0;
    }
    return true;
}

/* ---- Serving ---------------------------------------------------------------------- */

static bool is_attached(uint64_t address, uint64_t bytes)
{
    bool is_inside = false;

    pthread_mutex_lock(&wire.lock);
    for (int i = 0; i < REGIONS; i++) {
        uint64_t base = (uint64_t)(uintptr_t)wire.regions[i].base;
        is_inside |= base && address >= base && address + bytes <= base + wire.regions[i].bytes;
    }
    pthread_mutex_unlock(&wire.lock);
    return is_inside;
}

/* Words are written at once, as other threads look at them. */
static void put(void *to, const void *from, size_t bytes)
{
    uint64_t eight;
    uint32_t four;

    if (bytes == 8 && (uintptr_t)to % 8 == 0) {
        memcpy(&eight, from, 8);
        atomic_store((_Atomic uint64_t *)to, eight);
    } else if (bytes == 4 && (uintptr_t)to % 4 == 0) {
        memcpy(&four, from, 4);
        atomic_store((_Atomic uint32_t *)to, four);
    } else {
        memcpy(to, from, bytes);
    }
}

static void swap(const struct request *request, void *out)
{
    void *at = (void *)(uintptr_t)request->address;

    if (request->bytes == 8) {
        uint64_t seen = request->compare;
        atomic_compare_exchange_strong((_Atomic uint64_t *)at, &seen, request->value);
        memcpy(out, &seen, 8);
    } else {
        uint32_t seen = (uint32_t)request->compare;
        atomic_compare_exchange_strong((_Atomic uint32_t *)at, &seen, (uint32_t)request->value);
        memcpy(out, &seen, 4);
    }
}

/* Answers one request; false: the connection is over. */
static bool serve_one(int fd)
{
    static char data[WIRE_PIECE_MAX];
    struct request request;

    if (!read_all(fd, &request, sizeof request) || request.bytes > sizeof data ||
        (request.kind == WIRE_PUT && !read_all(fd, data, request.bytes)))
        return false;
    uint32_t is_good = is_attached(request.address, request.bytes);
    void *here = (void *)(uintptr_t)request.address;
    if (is_good && request.kind == WIRE_PUT)
        put(here, data, request.bytes);
    else if (is_good && request.kind == WIRE_GET)
        memcpy(data, here, request.bytes);
    else if (is_good)
        swap(&request, data);
    return write_all(fd, &is_good, sizeof is_good) &&
           (request.kind == WIRE_PUT || write_all(fd, data, request.bytes));
}

static void *serve(void *arg)
{
    struct pollfd polls[RANKS_MAX + 1] = {{wire.listener, POLLIN, 0}};
    nfds_t count = 1;

    for (;;) {
        if (poll(polls, count, -1) < 0)
            continue;
        if (polls[0].revents && count <= RANKS_MAX) {
            int fd = accept(wire.listener, NULL, NULL);
            if (fd >= 0)
                polls[count++] = (struct pollfd){fd, POLLIN, 0};
            continue;
        }
        for (nfds_t i = 1; i < count; i++)
            if (polls[i].revents && !serve_one(polls[i].fd)) {
                close(polls[i].fd);
                polls[i--] = polls[--count];
            }
    }
    return arg;
}

/* ---- Asking ----------------------------------------------------------------------- */

static acre_status wire_open(void *self, int *out_rank, int *out_count,
                             struct wire_error *error)
{
    (void)self;
    (void)error;
    for (int i = 0; i < wire.count; i++) {
        struct sockaddr_un address;
        socklen_t length = address_of(i, &address);
        wire.to[i] = -1;
        for (int tries = 0; i != wire.rank && wire.to[i] < 0; tries++) {
            int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
            if (fd >= 0 && connect(fd, (struct sockaddr *)&address, length) == 0)
                wire.to[i] = fd;
            else if (fd >= 0)
                close(fd);
            if (tries == 20000)
                return ACRE_ERR_PEER;
            if (wire.to[i] < 0)
                usleep(1000);
        }
    }
    *out_rank = wire.rank;
    *out_count = wire.count;
    return ACRE_OK;
}

static acre_status wire_attach(void *self, void *base, size_t bytes, uint64_t *out_address,
                               struct wire_error *error)
{
    bool is_in = false;

    (void)self;
    pthread_mutex_lock(&wire.lock);
    for (int i = 0; i < REGIONS && !is_in; i++)
        if (!wire.regions[i].base) {
            wire.regions[i].base = base;
            wire.regions[i].bytes = bytes;
            is_in = true;
        }
    pthread_mutex_unlock(&wire.lock);
    *out_address = (uint64_t)(uintptr_t)base;
    snprintf(error->text, sizeof error->text, "too many regions");
    return is_in ? ACRE_OK : ACRE_ERR_LIMIT;
}

static void wire_detach(void *self, void *base)
{
    (void)self;
    pthread_mutex_lock(&wire.lock);
    for (int i = 0; i < REGIONS; i++)
        if (wire.regions[i].base == base)
            wire.regions[i].base = NULL;
    pthread_mutex_unlock(&wire.lock);
}

static acre_status wire_run(void *self, const struct wire_op *ops, size_t count,
                            struct wire_error *error)
{
    (void)self;
    for (size_t i = 0; i < count; i++) {
        struct request request = {(uint32_t)ops[i].kind, ops[i].address, ops[i].bytes,
                                  ops[i].compare, ops[i].value};
        int fd = wire.to[ops[i].rank];
        uint32_t is_good = 0;
        error->rank = ops[i].rank;
        snprintf(error->text, sizeof error->text, "no answer of rank %d", ops[i].rank);
        if (!write_all(fd, &request, sizeof request) ||
            (ops[i].kind == WIRE_PUT && !write_all(fd, ops[i].here, ops[i].bytes)) ||
            !read_all(fd, &is_good, sizeof is_good) ||
            (ops[i].kind != WIRE_PUT && !read_all(fd, ops[i].here, ops[i].bytes)))
            return ACRE_ERR_PEER;
        snprintf(error->text, sizeof error->text, "rank %d has no such memory", ops[i].rank);
        if (!is_good)
            return ACRE_ERR_REJECTED;
    }
    return ACRE_OK;
}

static bool wire_is_dead(void *self, int rank)
{
    struct pollfd poll_fd = {wire.to[rank], POLLRDHUP, 0};

    (void)self;
    return rank != wire.rank && poll(&poll_fd, 1, 0) > 0;
}

static void wire_close(void *self)
{
    (void)self;
}

void wire_begin(const struct rank *me, int host)
{
    static const struct wire_ops ops = {
        .version = WIRE_VERSION, .name = "test", .open = wire_open, .attach = wire_attach,
        .detach = wire_detach, .run = wire_run, .is_dead = wire_is_dead, .close = wire_close};
    struct sockaddr_un address;
    pthread_t thread;
    char text[16];

    wire.rank = me->rank;
    wire.count = me->count;
    wire.parent = getppid();
    snprintf(text, sizeof text, "host%d", host);
    setenv("ACRE_SYMM_HOST", text, 1);
    socklen_t length = address_of(me->rank, &address);
    wire.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    REQUIRE(wire.listener >= 0);
    REQUIRE(bind(wire.listener, (struct sockaddr *)&address, length) == 0);
    REQUIRE(listen(wire.listener, RANKS_MAX) == 0);
    REQUIRE(pthread_create(&thread, NULL, serve, NULL) == 0);
    pthread_detach(thread);
    far_use(&ops, NULL);
}
