/* SPDX-License-Identifier: MIT */
/* The server of TCP stores against clients that do not keep to the rules. */
#include "base/heap.h"
#include "symm/deadline.h"
#include "symm/store/frame.h"
#include "symm/store/net.h"

#include "tests/support/t.h"

#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static acre_store_server *server;
static acre_store *honest;

static void begin(void)
{
    REQUIRE_OK(acre_store_server_create(NULL, 0, "secret", &server));
    REQUIRE_OK(
        acre_store_connect("127.0.0.1", acre_store_server_port(server), "secret", 5000, &honest));
}

static void end(void)
{
    uint64_t number = 0;

    REQUIRE_OK(acre_store_ping(honest, 12345, &number));
    EXPECT_EQ(number, 12345);
    acre_store_destroy(honest);
    acre_store_server_destroy(server);
    EXPECT_EQ(heap_live_count(), 0);
}

static int64_t soon(void)
{
    return deadline_in_ms(5000);
}

static int raw_connect(uint8_t hello[HELLO_BYTES])
{
    int fd;

    REQUIRE_OK(net_connect("127.0.0.1", acre_store_server_port(server), soon(), &fd));
    REQUIRE_OK(net_receive(fd, hello, HELLO_BYTES, soon()));
    EXPECT(memcmp(hello, FRAME_MAGIC, 8) == 0);
    return fd;
}

static void expect_hung_up(int fd)
{
    char byte;

    EXPECT_EQ(net_receive(fd, &byte, 1, soon()), ACRE_ERR_PEER);
    close(fd);
}

/* Greets with the right secret. */
static int raw_greet(struct session *session)
{
    uint8_t hello[HELLO_BYTES], answer[ANSWER_BYTES] = FRAME_MAGIC, proof[PROOF_BYTES], key[16];
    int fd = raw_connect(hello);

    secret_key("secret", key);
    REQUIRE_OK(nonce_make(answer + 8));
    greeting_proof(key, 'C', hello + 8, answer + 8, answer + 8 + NONCE_BYTES);
    REQUIRE_OK(net_send(fd, answer, sizeof answer, soon()));
    REQUIRE_OK(net_receive(fd, proof, sizeof proof, soon()));
    *session = (struct session){{0}, 0, 0};
    greeting_proof(key, 'K', hello + 8, answer + 8, session->key);
    return fd;
}

static acre_blob sealed_ping(struct session *session)
{
    acre_blob message, frame;

    REQUIRE_OK(message_encode(&(struct message){.verb = VERB_PING, .number = 7}, &message));
    REQUIRE_OK(frame_seal(session, SIDE_CLIENT, &message, &frame));
    acre_blob_free(&message);
    return frame;
}

TEST(S87_a_client_without_the_magic_is_dropped)
{
    uint8_t hello[HELLO_BYTES];
    char junk[ANSWER_BYTES] = "GET / HTTP/1.1";

    begin();
    int fd = raw_connect(hello);
    REQUIRE_OK(net_send(fd, junk, sizeof junk, soon()));
    expect_hung_up(fd);
    end();
}

TEST(S87_ping_echoes)
{
    begin();
    end();
}

TEST(a_frame_that_comes_twice_is_refused)
{
    struct session session;
    char reply[FRAME_HEAD + MESSAGE_HEAD + PROOF_BYTES];

    begin();
    int fd = raw_greet(&session);
    acre_blob frame = sealed_ping(&session);
    REQUIRE_OK(net_send(fd, frame.data, frame.bytes, soon()));
    REQUIRE_OK(net_receive(fd, reply, sizeof reply, soon()));
    REQUIRE_OK(net_send(fd, frame.data, frame.bytes, soon()));
    expect_hung_up(fd);
    acre_blob_free(&frame);
    end();
}

TEST(a_changed_frame_is_refused)
{
    struct session session;

    begin();
    for (size_t at = 0; at < FRAME_HEAD + MESSAGE_HEAD + PROOF_BYTES; at += 5) {
        int fd = raw_greet(&session);
        acre_blob frame = sealed_ping(&session);
        ((uint8_t *)frame.data)[at] ^= 0x40;
        REQUIRE_OK(net_send(fd, frame.data, frame.bytes, soon()));
        shutdown(fd, SHUT_WR);
        expect_hung_up(fd);
        acre_blob_free(&frame);
    }
    end();
}

TEST(a_client_that_hangs_up_in_the_middle_leaves_nothing)
{
    struct session session;

    begin();
    for (size_t bytes = 0; bytes < 40; bytes += 7) {
        int fd = raw_greet(&session);
        acre_blob frame = sealed_ping(&session);
        REQUIRE_OK(net_send(fd, frame.data, bytes, soon()));
        close(fd);
        acre_blob_free(&frame);
    }
    end();
}

TEST(a_proof_made_with_another_secret_is_refused)
{
    uint8_t hello[HELLO_BYTES], answer[ANSWER_BYTES] = FRAME_MAGIC, key[16];

    begin();
    int fd = raw_connect(hello);
    secret_key("wrong", key);
    greeting_proof(key, 'C', hello + 8, answer + 8, answer + 8 + NONCE_BYTES);
    REQUIRE_OK(net_send(fd, answer, sizeof answer, soon()));
    expect_hung_up(fd);
    end();
}

TEST(other_than_loopback_needs_a_secret)
{
    acre_store_server *open;

    EXPECT_EQ(acre_store_server_create("0.0.0.0", 0, NULL, &open), ACRE_ERR_REJECTED);
    EXPECT_EQ(heap_live_count(), 0);
}

static int64_t cpu_ns(void)
{
    struct timespec used;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

/* Connects without a descriptor left for the server's side of the connection. */
static void rest_with_limit(bool is_zero)
{
    enum { CLIENTS = 8 };
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct rlimit old, tight;
    uint8_t hello[HELLO_BYTES];
    int fds[CLIENTS];

    begin();
    in.sin_port = htons(acre_store_server_port(server));
    for (int i = 0; i < CLIENTS; i++)
        REQUIRE((fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) >= 0);
    REQUIRE(getrlimit(RLIMIT_NOFILE, &old) == 0);
    tight = old;
    int next = dup(fds[0]);
    close(next);
    tight.rlim_cur = is_zero ? 0 : (rlim_t)next; /* 0: poll(2) fails as well */
    REQUIRE(setrlimit(RLIMIT_NOFILE, &tight) == 0);
    for (int i = 0; i < CLIENTS; i++)
        REQUIRE(connect(fds[i], (struct sockaddr *)&in, sizeof in) == 0);
    int64_t before = cpu_ns();
    nanosleep(&(struct timespec){0, 500000000}, NULL);
    EXPECT_LT(cpu_ns() - before, 100000000);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &old) == 0);
    for (int i = 0; i < CLIENTS; i++) {
        REQUIRE_OK(net_receive(fds[i], hello, sizeof hello, soon()));
        close(fds[i]);
    }
    end();
}

static void at_the_limit(void *arg)
{
    (void)arg;
    rest_with_limit(false);
    rest_with_limit(true);
}

/* A request of a client, as a frame. */
static void raw_ask(int fd, struct session *session, const struct message *request)
{
    acre_blob message, frame;

    REQUIRE_OK(message_encode(request, &message));
    REQUIRE_OK(frame_seal(session, SIDE_CLIENT, &message, &frame));
    REQUIRE_OK(net_send(fd, frame.data, frame.bytes, soon()));
    acre_blob_free(&message);
    acre_blob_free(&frame);
}

TEST(a_waiting_client_that_says_more_and_ends_costs_nothing)
{
    struct bytes key = {"never", 5};
    struct session session;
    char byte;

    begin();
    int fd = raw_greet(&session);
    raw_ask(fd, &session, &(struct message){.verb = VERB_WAIT, .count = 1, .items = &key});
    nanosleep(&(struct timespec){0, 20000000}, NULL); /* now it waits */
    REQUIRE_OK(net_send(fd, "x", 1, soon()));
    REQUIRE(shutdown(fd, SHUT_WR) == 0);
    EXPECT_EQ(net_receive(fd, &byte, 1, soon()), ACRE_ERR_PEER);
    close(fd);
    end();
}

TEST(an_answer_that_cannot_travel_is_not_made)
{
    enum { KEYS = 200, VALUE = 1 << 20 };
    struct bytes keys[KEYS];
    struct session session;
    struct reply reply;
    uint8_t frame[4096];
    struct bytes message;
    char *value = calloc(1, VALUE);

    begin();
    REQUIRE_OK(acre_store_set(honest, "large", value, VALUE));
    int fd = raw_greet(&session);
    for (int i = 0; i < KEYS; i++)
        keys[i] = (struct bytes){"large", 5};
    raw_ask(fd, &session, &(struct message){.verb = VERB_GET, .count = KEYS, .items = keys});
    REQUIRE_OK(net_receive(fd, frame, FRAME_HEAD, soon()));
    size_t bytes = frame_length(frame);
    REQUIRE(bytes <= sizeof frame);
    REQUIRE_OK(net_receive(fd, frame + FRAME_HEAD, bytes - FRAME_HEAD, soon()));
    REQUIRE_OK(frame_open(&session, SIDE_SERVER, frame, bytes, &message));
    REQUIRE_OK(reply_decode(message.data, message.size, &reply));
    EXPECT_EQ(reply.status, ACRE_ERR_INVALID);
    EXPECT_HAS(reply.items[0].data, "ask for fewer keys");
    reply_fini(&reply);
    close(fd);
    free(value);
    end();
}

TEST(a_frame_that_says_it_is_too_long_is_refused_at_once)
{
    struct session session;
    uint8_t head[FRAME_HEAD] = {0};
    uint32_t bytes = htole32(MESSAGE_BYTES_MAX + 1);

    begin();
    int fd = raw_greet(&session);
    memcpy(head, &bytes, sizeof bytes);
    REQUIRE_OK(net_send(fd, head, sizeof head, soon()));
    expect_hung_up(fd);
    end();
}

/* ---- Strangers who say nothing ------------------------------------------------------- */

TEST(strangers_who_say_nothing_hold_a_bounded_number_of_descriptors)
{
    enum { STRANGERS = 350, HELD_MAX = 256 };
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    acre_store *store;
    int fds[STRANGERS];

    begin();
    in.sin_port = htons(acre_store_server_port(server));
    int before = t_fd_count();
    for (int i = 0; i < STRANGERS; i++) {
        REQUIRE((fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) >= 0);
        REQUIRE(connect(fds[i], (struct sockaddr *)&in, sizeof in) == 0);
    }
    /* It is served after all who connected before it, with a descriptor at each end. */
    REQUIRE_OK(
        acre_store_connect("127.0.0.1", acre_store_server_port(server), "secret", 60000, &store));
    EXPECT(t_fd_count() - before - STRANGERS - 2 <= HELD_MAX);
    acre_store_destroy(store);
    for (int i = 0; i < STRANGERS; i++)
        close(fds[i]);
    end();
}

/* Serves a store with few descriptors; stays until it is killed. */
static void serve_with_few(void *arg)
{
    struct rlimit limit;

    begin();
    uint16_t port = acre_store_server_port(server);
    REQUIRE(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    int next = dup(0);
    limit.rlim_cur = (rlim_t)next + 16;
    close(next);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    REQUIRE(write(*(int *)arg, &port, sizeof port) == sizeof port);
    pause();
}

TEST(strangers_who_say_nothing_keep_nobody_out)
{
    enum { STRANGERS = 40 };
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    acre_store *first, *late = NULL;
    int fds[STRANGERS], says[2];
    uint64_t number = 0;
    uint16_t port;

    REQUIRE(pipe(says) == 0);
    pid_t pid = t_start(serve_with_few, &says[1]);
    REQUIRE(read(says[0], &port, sizeof port) == sizeof port);
    REQUIRE_OK(acre_store_connect("127.0.0.1", port, "secret", 60000, &first));
    in.sin_port = htons(port);
    for (int i = 0; i < STRANGERS; i++) {
        REQUIRE((fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) >= 0);
        REQUIRE(connect(fds[i], (struct sockaddr *)&in, sizeof in) == 0);
    }
    /* Silent ones are let go after ten seconds anyway. */
    EXPECT_EQ(acre_store_connect("127.0.0.1", port, "secret", 7000, &late), ACRE_OK);
    EXPECT_EQ(acre_store_ping(first, 7, &number), ACRE_OK);
    acre_store_destroy(late);
    acre_store_destroy(first);
    REQUIRE(kill(pid, SIGKILL) == 0);
    t_join(pid);
    for (int i = 0; i < STRANGERS; i++)
        close(fds[i]);
    close(says[0]);
    close(says[1]);
}

static void *connect_late(void *port)
{
    acre_store *store = NULL;

    EXPECT_EQ(acre_store_connect("127.0.0.1", *(uint16_t *)port, "secret", 60000, &store), ACRE_OK);
    acre_store_destroy(store);
    return NULL;
}

TEST(a_client_whose_place_was_needed_comes_again)
{
    const struct linger at_once = {1, 0};
    pthread_t thread;
    bool is_loopback;
    int listener, fd;
    uint16_t port;

    REQUIRE_OK(net_listen(NULL, 0, &listener, &port, &is_loopback));
    REQUIRE(fcntl(listener, F_SETFL, 0) == 0);
    REQUIRE(pthread_create(&thread, NULL, connect_late, &port) == 0);
    REQUIRE((fd = accept(listener, NULL, NULL)) >= 0);
    REQUIRE(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0);
    close(listener);
    close(fd);
    REQUIRE_OK(acre_store_server_create(NULL, port, "secret", &server));
    pthread_join(thread, NULL);
    acre_store_server_destroy(server);
    EXPECT_EQ(heap_live_count(), 0);
}

/* ---- A server that is stopped --------------------------------------------------------- */

static void serve(void *arg)
{
    begin();
    uint16_t port = acre_store_server_port(server);
    REQUIRE(write(*(int *)arg, &port, sizeof port) == sizeof port);
    pause();
}

/* A call of 100 ms to a server that is stopped. A clock beside it lets the server go on after
 * three seconds, and the call would tell of the value then. */
TEST(a_server_that_is_stopped_ends_calls_at_their_deadline)
{
    acre_store *store;
    acre_blob value;
    uint16_t port;
    int says[2];

    REQUIRE(pipe(says) == 0);
    pid_t pid = t_start(serve, &says[1]);
    REQUIRE(read(says[0], &port, sizeof port) == sizeof port);
    REQUIRE_OK(acre_store_connect("127.0.0.1", port, "secret", 60000, &store));
    REQUIRE_OK(acre_store_set(store, "key", "value", 5));
    REQUIRE_OK(acre_store_set_timeout(store, 100));
    REQUIRE(kill(pid, SIGSTOP) == 0);
    REQUIRE(waitpid(pid, NULL, WUNTRACED) == pid);
    pid_t clock = fork();
    if (clock == 0) {
        nanosleep(&(struct timespec){3, 0}, NULL);
        kill(pid, SIGCONT);
        _exit(0);
    }
    EXPECT_EQ(acre_store_get(store, "key", &value), ACRE_ERR_TIMEOUT);
    kill(clock, SIGKILL);
    waitpid(clock, NULL, 0);
    REQUIRE(kill(pid, SIGKILL) == 0);
    t_join(pid);
    acre_store_destroy(store);
    close(says[0]);
    close(says[1]);
}

/* ---- Children of fork --------------------------------------------------------------- */

static int stay[2]; /* children of fork stay until its writing end is closed */
static int told[2]; /* a port, or that a child is there                      */

static void child_stays(void *arg)
{
    char byte;

    (void)arg;
    close(stay[1]);
    REQUIRE(write(told[1], "x", 1) == 1);
    EXPECT_EQ(read(stay[0], &byte, 1), 0);
}

/* What children have of the pipes ends with them. */
static void pipes_close(void)
{
    close(stay[0]);
    close(stay[1]);
    close(told[0]);
}

/* Serves a store, forks once somebody is connected, and is killed. */
static void serve_and_fork(void *arg)
{
    (void)arg;
    begin();
    uint16_t port = acre_store_server_port(server);
    REQUIRE(write(told[1], &port, sizeof port) == sizeof port);
    REQUIRE_OK(acre_store_wait(honest, (const char *[]){"go"}, 1, 10000));
    REQUIRE(t_start(child_stays, NULL) > 0);
    pause();
}

TEST(a_server_that_is_killed_is_gone_although_it_has_a_child)
{
    acre_store *store;
    uint16_t port;
    char byte;

    REQUIRE(pipe(stay) == 0 && pipe(told) == 0);
    pid_t pid = t_start(serve_and_fork, NULL);
    close(told[1]);
    REQUIRE(read(told[0], &port, sizeof port) == sizeof port);
    REQUIRE_OK(acre_store_connect("127.0.0.1", port, "secret", 5000, &store));
    REQUIRE_OK(acre_store_set(store, "go", "", 0));
    REQUIRE(read(told[0], &byte, 1) == 1);
    REQUIRE(kill(pid, SIGKILL) == 0);
    t_join(pid);
    EXPECT_EQ(acre_store_wait(store, (const char *[]){"never"}, 1, 1000), ACRE_ERR_PEER);
    acre_store_destroy(store);
    EXPECT_EQ(acre_store_connect("127.0.0.1", port, "secret", 100, &store), ACRE_ERR_TIMEOUT);
    EXPECT_HAS(acre_last_error(), "nobody answers");
    pipes_close();
}

struct popping {
    acre_store *store;
    _Atomic pid_t tid; /* of the thread that pops; 0: not there yet */
};

static void *wait_to_pop(void *arg)
{
    struct popping *popping = arg;
    acre_blob blob;

    atomic_store(&popping->tid, gettid());
    acre_store_pop(popping->store, "queue", &blob);
    return NULL;
}

/* Waits until that thread has sent its request: the answer is all it ever calls poll(2) for. */
static void await_request(struct popping *popping)
{
    char path[64];
    long number = -1;

    while (atomic_load(&popping->tid) == 0)
        sched_yield();
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)atomic_load(&popping->tid));
    while (number != SYS_ppoll
#ifdef SYS_poll
           && number != SYS_poll
#endif
    ) {
        FILE *file = fopen(path, "r");
        REQUIRE(file != NULL);
        if (fscanf(file, "%ld", &number) != 1)
            number = -1; /* it runs */
        fclose(file);
    }
}

/* Waits for a value of a queue, forks meanwhile, and is killed. */
static void pop_and_fork(void *port)
{
    struct popping popping = {.tid = 0};
    pthread_t thread;

    REQUIRE_OK(acre_store_connect("127.0.0.1", *(uint16_t *)port, "secret", 5000, &popping.store));
    REQUIRE(pthread_create(&thread, NULL, wait_to_pop, &popping) == 0);
    await_request(&popping);
    REQUIRE(t_start(child_stays, NULL) > 0);
    pause();
}

TEST(a_client_that_is_killed_takes_no_value_although_it_has_a_child)
{
    enum { TURNS = 4 };
    acre_blob blob = {NULL, 0};
    uint64_t number;
    char byte;

    T_NEEDS("fork beside threads");
    if (access("/proc/self/syscall", R_OK) != 0)
        T_SKIP("the system does not tell which system call a thread is in");
#if defined(__SANITIZE_THREAD__)
    T_SKIP("ThreadSanitizer does not start threads in children of processes with threads");
#endif
    REQUIRE(pipe(stay) == 0 && pipe(told) == 0);
    begin();
    uint16_t port = acre_store_server_port(server);
    pid_t pid = t_start(pop_and_fork, &port);
    close(told[1]);
    REQUIRE(read(told[0], &byte, 1) == 1);
    /* The server reads one part of each request that is there, then answers: head, rest. */
    for (int i = 0; i < TURNS; i++)
        REQUIRE_OK(acre_store_ping(honest, 1, &number));
    REQUIRE(kill(pid, SIGKILL) == 0);
    t_join(pid);
    REQUIRE_OK(acre_store_push(honest, "queue", "value", 5));
    REQUIRE_OK(acre_store_set_timeout(honest, 1000));
    EXPECT_EQ(acre_store_pop(honest, "queue", &blob), ACRE_OK);
    acre_blob_free(&blob);
    pipes_close();
    end();
}

TEST(without_descriptors_the_server_rests_and_serves_later)
{
    EXPECT_EQ(t_child(at_the_limit, NULL), 0);
}

T_MAIN()
