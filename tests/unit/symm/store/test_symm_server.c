/* SPDX-License-Identifier: MIT */
/* The server of TCP stores against clients that do not keep to the rules. */
#include "base/heap.h"
#include "symm/deadline.h"
#include "symm/store/frame.h"
#include "symm/store/net.h"

#include "tests/support/t.h"

#include <sys/socket.h>
#include <unistd.h>

static acre_store_server *server;
static acre_store *honest;

static void begin(void)
{
    REQUIRE_OK(acre_store_server_create(NULL, 0, "secret", &server));
    REQUIRE_OK(acre_store_connect("127.0.0.1", acre_store_server_port(server), "secret", 5000,
                                  &honest));
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

T_MAIN()
