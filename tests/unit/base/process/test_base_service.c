/* SPDX-License-Identifier: MIT */
/* Both ends of sharing in one process: the service has a thread of its own. */
#include "base/process/service.h"

#include "base/process/client.h"
#include "base/process/fork_fd.h"
#include "base/heap.h"
#include "base/process/socket.h"
#include "base/status.h"
#include "tests/support/sim_bed.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct before {
    uint64_t heap;
    int fds, threads;
};

static struct before look(void)
{
    return (struct before){heap_live_count(), t_fd_count(), t_thread_count()};
}

static void expect_as(struct before before)
{
    EXPECT_EQ(heap_live_count(), before.heap);
    EXPECT_EQ(t_fd_count(), before.fds);
    if (!BED_SANITIZED) /* sanitizers have threads of their own */
        EXPECT_EQ(t_threads_left(before.threads), before.threads);
}

/* Gives a file with the number of the descriptor in it. */
static acre_status numbered(void *arg, uint32_t index, int *out_fd)
{
    int fd = memfd_create("number", MFD_CLOEXEC);

    (void)arg;
    if (fd < 0)
        return ACRE_ERR_LIMIT;
    if (write(fd, &index, sizeof index) != (ssize_t)sizeof index) {
        close(fd);
        return ACRE_ERR_IO;
    }
    *out_fd = fd;
    return ACRE_OK;
}

static struct offer *offer_numbers(uint32_t count, uint8_t ticket[WIRE_TICKET_BYTES])
{
    struct offer_terms terms = {.fd_total = count, .note_bytes = 5, .note = "hello",
                                .fd_at = numbered};
    struct offer *offer = NULL;

    REQUIRE_OK(offer_create(&terms, &offer));
    offer_ticket(offer, ticket);
    return offer;
}

/* Waits until an offer has so many users; the service hears of a closed one soon. */
static void expect_users(const struct offer *offer, uint32_t count)
{
    for (int i = 0; i < 20000 && offer_users(offer) != count; i++)
        usleep(500);
    EXPECT_EQ(offer_users(offer), count);
}

static uint32_t number_in(int fd)
{
    uint32_t number = UINT32_MAX;

    EXPECT_EQ(pread(fd, &number, sizeof number, 0), sizeof number);
    close(fd);
    return number;
}

TEST(descriptors_come_in_order_whatever_their_number)
{
    static const uint32_t counts[] = {0, 1, 63, 64, 65, 130};
    struct before before = look();
    uint8_t ticket[WIRE_TICKET_BYTES];

    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        struct offer *offer = offer_numbers(counts[c], ticket);
        struct client client;
        int fd;

        REQUIRE_OK(client_open(ticket, &client));
        EXPECT_EQ(client.fd_total, counts[c]);
        EXPECT_EQ(client.reply.note_bytes, 5);
        EXPECT(memcmp(client.reply.note, "hello", 5) == 0);
        for (uint32_t i = 0; i < counts[c]; i++) {
            REQUIRE_OK(client_next(&client, &fd));
            EXPECT_EQ(number_in(fd), i);
        }
        EXPECT_EQ(client_next(&client, &fd), ACRE_ERR_RANGE);
        EXPECT_EQ(offer_users(offer), 1);
        client_close(&client);
        expect_users(offer, 0);
        offer_destroy(offer);
    }
    expect_as(before);
}

TEST(descriptors_not_taken_are_closed)
{
    struct before before = look();
    uint8_t ticket[WIRE_TICKET_BYTES];
    struct offer *offer = offer_numbers(130, ticket);
    struct client client;
    int fd;

    REQUIRE_OK(client_open(ticket, &client));
    REQUIRE_OK(client_next(&client, &fd));
    close(fd);
    client_close(&client);
    client_close(&client);
    expect_users(offer, 0);
    offer_destroy(offer);
    expect_as(before);
}

TEST(an_offer_withdrawn_is_not_found_but_kept_by_its_users)
{
    struct before before = look();
    uint8_t ticket[WIRE_TICKET_BYTES];
    struct offer *offer = offer_numbers(1, ticket);
    struct client client, second;

    REQUIRE_OK(client_open(ticket, &client));
    offer_withdraw(offer);
    offer_withdraw(offer);
    EXPECT_EQ(client_open(ticket, &second), ACRE_ERR_NOT_FOUND);
    EXPECT_HAS(acre_last_error(), "freed");
    EXPECT_EQ(offer_users(offer), 1);
    client_close(&client);
    expect_users(offer, 0);
    offer_destroy(offer);
    EXPECT_EQ(client_open(ticket, &second), ACRE_ERR_PEER);
    expect_as(before);
}

TEST(a_made_up_token_is_not_found)
{
    uint8_t ticket[WIRE_TICKET_BYTES];
    struct offer *offer = offer_numbers(1, ticket);
    struct client client;

    for (int i = 0; i < WIRE_RANDOM_BYTES; i++) {
        ticket[8 + WIRE_RANDOM_BYTES + i] ^= 0x40;
        EXPECT_EQ(client_open(ticket, &client), ACRE_ERR_NOT_FOUND);
        ticket[8 + WIRE_RANDOM_BYTES + i] ^= 0x40;
    }
    REQUIRE_OK(client_open(ticket, &client));
    client_close(&client);
    offer_destroy(offer);
}

TEST(an_offer_forgotten_while_in_use_ends_with_its_user)
{
    struct before before = look();
    uint8_t ticket[WIRE_TICKET_BYTES], other_ticket[WIRE_TICKET_BYTES];
    struct offer *other = offer_numbers(1, other_ticket);
    struct offer *offer = offer_numbers(1, ticket);
    struct client client, second;

    REQUIRE_OK(client_open(ticket, &client));
    offer_destroy(offer); /* the service goes on: there is another one */
    REQUIRE_OK(client_open(other_ticket, &second));
    client_close(&client);
    client_close(&second);
    expect_users(other, 0);
    offer_destroy(other);
    expect_as(before);
}

static acre_status failing(void *arg, uint32_t index, int *out_fd)
{
    return index < 70 ? numbered(arg, index, out_fd)
                      : status_fail(ACRE_ERR_LIMIT, "no more");
}

TEST(an_exporter_that_cannot_go_on_says_so)
{
    struct before before = look();
    struct offer_terms terms = {.fd_total = 100, .fd_at = failing};
    uint8_t ticket[WIRE_TICKET_BYTES];
    struct offer *offer;
    struct client client;
    acre_status status = ACRE_OK;
    int fd;

    REQUIRE_OK(offer_create(&terms, &offer));
    offer_ticket(offer, ticket);
    REQUIRE_OK(client_open(ticket, &client));
    for (int i = 0; i < 100 && status == ACRE_OK; i++) {
        status = client_next(&client, &fd);
        if (status == ACRE_OK)
            close(fd);
    }
    EXPECT_EQ(status, ACRE_ERR_PEER);
    client_close(&client);
    offer_destroy(offer);
    expect_as(before);
}

/* Whoever connects and says rubbish is sent away, and nobody else notices. */
TEST(rubbish_ends_the_connection)
{
    struct before before = look();
    uint8_t bytes[WIRE_TICKET_BYTES], answer[4096];
    struct offer *offer = offer_numbers(1, bytes);
    uint64_t seed = t_seed();
    struct ticket ticket;

    REQUIRE_OK(ticket_read(bytes, &ticket));
    for (int i = 0; i < 200; i++) {
        struct wire_request request;
        size_t size = t_random(&seed) % (2 * sizeof request);
        char message[2 * sizeof request];
        int fd = -1;

        REQUIRE_OK(socket_connect(ticket.service, 10000, &fd));
        request_write(&request, ticket.token);
        memset(message, 0, sizeof message);
        memcpy(message, &request, sizeof request);
        message[t_random(&seed) % 16] ^= (char)(1 + t_random(&seed) % 255);
        socket_send(fd, message, size, &fd, i % 2);
        EXPECT_EQ(recv(fd, answer, sizeof answer, 0), 0);
        close(fd);
    }
    /* A second request on a connection is rubbish too. */
    struct client client;
    struct wire_request again;
    REQUIRE_OK(client_open(bytes, &client));
    request_write(&again, ticket.token);
    EXPECT_EQ(socket_send(client.fd, &again, sizeof again, NULL, 0), 0);
    EXPECT_EQ(recv(client.fd, answer, sizeof answer, 0), 0);
    expect_users(offer, 0);
    client_close(&client);
    offer_destroy(offer);
    expect_as(before);
}

enum { TICKS_MAX = 1000 }; /* at a millisecond each, where a tenth of a second is waited for */

static volatile sig_atomic_t ticks;

/* Lets a wait that signals keep up end, too. */
static void on_tick(int number)
{
    const struct itimerval never = {{0, 0}, {0, 0}};

    if (++ticks == TICKS_MAX)
        setitimer(ITIMER_REAL, &never, NULL);
    (void)number;
}

/* A timer of the application, as profilers have, does not make the wait for one endless. */
TEST(waiting_for_who_is_silent_ends_between_signals_too)
{
    const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_handler = on_tick}, was;
    const uint8_t name[WIRE_RANDOM_BYTES] = {1, 2, 3};
    int listener, fd, fds[WIRE_BATCH];
    size_t bytes = 0, count = 0;
    char message[8];

    REQUIRE_OK(socket_listen(name, &listener));
    REQUIRE_OK(socket_connect(name, 100, &fd));
    REQUIRE(sigaction(SIGALRM, &action, &was) == 0);
    REQUIRE(setitimer(ITIMER_REAL, &often, NULL) == 0);
    EXPECT_EQ(socket_receive(fd, message, sizeof message, &bytes, fds, &count), ACRE_ERR_TIMEOUT);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &was, NULL);
    EXPECT_LT(ticks, TICKS_MAX);
    close(fd);
    close(listener);
}

static void *opener(void *arg)
{
    for (int i = 0; i < 50; i++) {
        struct client client;
        int fd;

        EXPECT_EQ(client_open(arg, &client), ACRE_OK);
        EXPECT_EQ(client_next(&client, &fd), ACRE_OK);
        EXPECT_EQ(number_in(fd), 0);
        client_close(&client);
    }
    return NULL;
}

TEST(many_at_once_are_served)
{
    struct before before = look();
    uint8_t ticket[WIRE_TICKET_BYTES];
    struct offer *offer = offer_numbers(1, ticket);
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        REQUIRE(pthread_create(&threads[i], NULL, opener, ticket) == 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    expect_users(offer, 0);
    offer_destroy(offer);
    expect_as(before);
}

struct inherited {
    struct offer *offer;
    struct client *client;
    uint8_t *ticket;
};

/* A child neither serves nor keeps what its parent does, and can do the same. */
static void child(void *arg)
{
    struct inherited *inherited = arg;
    uint8_t own[WIRE_TICKET_BYTES];
    struct client client;

    EXPECT_EQ(offer_users(inherited->offer), 0);
    offer_withdraw(inherited->offer);
    offer_destroy(inherited->offer);
    REQUIRE_OK(client_open(inherited->ticket, &client)); /* the parent still serves */
    client_close(&client);
    struct offer *offer = offer_numbers(1, own);
    EXPECT(memcmp(own, inherited->ticket, sizeof own) != 0);
    REQUIRE_OK(client_open(own, &client));
    client_close(&client);
    offer_destroy(offer);
}

TEST(a_child_of_fork_has_no_part_in_it)
{
    T_NEEDS("fork beside threads");
    if (BED_SANITIZED)
        T_SKIP("sanitizers do not follow threads into a child of fork");
    struct before before = look();
    uint8_t ticket[WIRE_TICKET_BYTES];
    struct offer *offer = offer_numbers(1, ticket);
    struct client client;

    REQUIRE_OK(client_open(ticket, &client));
    struct inherited inherited = {offer, &client, ticket};
    EXPECT_EQ(t_child(child, &inherited), 0);
    expect_users(offer, 1); /* the parent's connection is still there */
    client_close(&client);
    expect_users(offer, 0);
    offer_destroy(offer);
    expect_as(before);
}

/* The importer's child does not keep the connection open. */
static void waits(void *arg)
{
    char byte;

    EXPECT_EQ(read(*(int *)arg, &byte, 1), 1);
}

static void *waits_in_child(void *arg)
{
    EXPECT_EQ(t_child(waits, arg), 0);
    return NULL;
}

TEST(a_child_of_the_importer_does_not_keep_it_open)
{
    uint8_t ticket[WIRE_TICKET_BYTES];
    struct offer *offer = offer_numbers(1, ticket);
    struct client client;
    pthread_t thread;
    int ends[2];

    REQUIRE(pipe(ends) == 0);
    REQUIRE_OK(client_open(ticket, &client));
    REQUIRE(pthread_create(&thread, NULL, waits_in_child, &ends[0]) == 0);
    client_close(&client);
    expect_users(offer, 0);
    EXPECT_EQ(write(ends[1], "x", 1), 1);
    pthread_join(thread, NULL);
    close(ends[0]);
    close(ends[1]);
    offer_destroy(offer);
}

/* A child forked between taking out and closing has the descriptor and does not know it. */
TEST(closing_ends_a_connection_that_a_child_holds)
{
    int ends[2];
    char byte;

    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    REQUIRE_OK(fork_fd_note(ends[0]));
    int childs = dup(ends[0]);
    REQUIRE(childs >= 0);
    EXPECT_EQ(recv(ends[1], &byte, 1, MSG_DONTWAIT), -1);
    fork_fd_close(ends[0]);
    EXPECT_EQ(recv(ends[1], &byte, 1, MSG_DONTWAIT), 0);
    close(childs);
    close(ends[1]);
}

/* Neither end deals with another user. */
static void stranger(void *arg)
{
    struct client client;

    REQUIRE(setresuid(65534, 65534, 65534) == 0);
    EXPECT_EQ(client_open(arg, &client), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "another user");
    /* Not even when it asks without looking who is there. */
    struct ticket ticket;
    struct wire_request request;
    char answer[4096];
    int fd = -1;
    REQUIRE_OK(ticket_read(arg, &ticket));
    REQUIRE_OK(socket_connect(ticket.service, 10000, &fd));
    request_write(&request, ticket.token);
    socket_send(fd, &request, sizeof request, NULL, 0);
    EXPECT(recv(fd, answer, sizeof answer, 0) <= 0);
    close(fd);
}

TEST(another_user_gets_nothing)
{
    uint8_t ticket[WIRE_TICKET_BYTES];

    if (geteuid() != 0)
        T_SKIP("only root can become another user");
    struct offer *offer = offer_numbers(1, ticket);
    EXPECT_EQ(t_child(stranger, ticket), 0);
    expect_users(offer, 0);
    offer_destroy(offer);
}

/* The service to which another user connects whenever it looks who has come; NULL: none. */
static _Atomic(const uint8_t *) flooded;

/* As the library calls it: another user has come again each time, faster than anybody is turned
 * away. The user is that of this thread alone, which only the system call itself can change. */
int accept4(int listener, struct sockaddr *address, socklen_t *bytes, int flags)
{
    const uint8_t *name = flooded;
    int fd;

    if (name && syscall(SYS_setresuid, -1, 65534, -1) == 0) {
        if (socket_connect(name, 10, &fd) == ACRE_OK)
            close(fd);
        REQUIRE(syscall(SYS_setresuid, -1, 0, -1) == 0);
    }
    return (int)syscall(SYS_accept4, listener, address, bytes, flags);
}

TEST(a_flood_from_another_user_holds_up_nobody)
{
    uint8_t ticket[WIRE_TICKET_BYTES];
    struct ticket read;
    struct client client, other;

    if (geteuid() != 0)
        T_SKIP("only root can become another user");
    struct offer *offer = offer_numbers(1, ticket);
    REQUIRE_OK(ticket_read(ticket, &read));
    REQUIRE_OK(client_open(ticket, &client));
    flooded = read.service;
    REQUIRE_OK(client_open(ticket, &other));
    client_close(&client);
    expect_users(offer, 1); /* it is heard that one has gone */
    client_close(&other);
    expect_users(offer, 0);
    flooded = NULL;
    offer_destroy(offer);
}

/* No more descriptors may be open than none, which poll(2) refuses. */
static void rest_without_descriptors(void *arg)
{
    uint8_t ticket[WIRE_TICKET_BYTES];
    struct offer *offer = offer_numbers(1, ticket);
    struct rlimit old, none;
    struct client client;

    (void)arg;
    REQUIRE_OK(client_open(ticket, &client));
    REQUIRE(getrlimit(RLIMIT_NOFILE, &old) == 0);
    none = old;
    none.rlim_cur = 0;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
    clock_t before = clock();
    client_close(&client); /* wakes the service */
    usleep(500000);
    EXPECT_LT(clock() - before, CLOCKS_PER_SEC / 10);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &old) == 0);
    expect_users(offer, 0);
    REQUIRE_OK(client_open(ticket, &client));
    client_close(&client);
    offer_destroy(offer);
}

TEST(without_descriptors_the_service_rests_and_serves_later)
{
    EXPECT_EQ(t_child(rest_without_descriptors, NULL), 0);
}

TEST(every_host_allocation_may_fail)
{
    struct before before = look();
    struct offer_terms terms = {.fd_total = 1, .fd_at = numbered};

    for (uint64_t nth = 1;; nth++) {
        struct offer *offer = NULL;

        heap_fail_nth(nth);
        acre_status status = offer_create(&terms, &offer);
        if (!heap_fail_disarm()) {
            EXPECT_EQ(status, ACRE_OK);
            offer_destroy(offer);
            break;
        }
        EXPECT_EQ(status, ACRE_ERR_HOST_MEMORY);
        expect_as(before);
    }
    expect_as(before);
}

T_MAIN()
