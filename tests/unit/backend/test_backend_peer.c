/* SPDX-License-Identifier: MIT */
/* Peer access is asked once: D101. */
#include "backend/peer.h"

#include "tests/support/fault_backend.h"
#include "tests/support/small_backend.h"
#include "tests/support/t.h"
#include "tests/support/tracing_backend.h"

#include <pthread.h>
#include <unistd.h>

#define TYPE ACRE_DEVICE_OPENCL

static acre_backend *ring(void)
{
    const acre_sim_config config = {
        .struct_size = sizeof config,
        .devices = 4,
        .memory_bytes = 16 << 20,
        .peers = ACRE_SIM_PEERS_RING,
        .name = "ring",
    };
    acre_backend *backend;

    REQUIRE_OK(acre_sim_create(&config, &backend));
    return backend;
}

TEST(D101_each_pair_is_asked_once)
{
    const struct wrap_config config = {.name = "asked", .type = TYPE};
    acre_backend *inner = ring(), *asked;
    bool can;

    REQUIRE_OK(tracing_create(inner, &config, &asked));
    for (int i = 0; i < 4; i++) {
        REQUIRE_OK(acre_peer_access(TYPE, i, i, &can));
        EXPECT(can);
    }
    EXPECT_EQ(tracing_count(asked, WRAP_peer_query), 0);
    EXPECT_EQ(tracing_count(asked, WRAP_peer_enable), 0);
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) {
                REQUIRE_OK(acre_peer_access(TYPE, i, j, &can));
                EXPECT_EQ(can, (i - j + 4) % 4 != 2);
            }
    EXPECT_EQ(tracing_count(asked, WRAP_peer_query), 12);
    EXPECT_EQ(tracing_count(asked, WRAP_peer_enable), 8);
    EXPECT_EQ(acre_peer_access(TYPE, 4, 0, &can), ACRE_ERR_RANGE);
    EXPECT_HAS(acre_last_error(), "[0, 4)");
    EXPECT_EQ(acre_peer_access(TYPE, 0, 4, &can), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_peer_access(TYPE, -1, 0, &can), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_peer_access(TYPE, 0, -1, &can), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_peer_access(TYPE, 0, 1, NULL), ACRE_ERR_INVALID);
    acre_backend_unregister(asked);
    acre_backend_unregister(inner);
}

TEST(devices_of_two_backends_are_no_peers)
{
    acre_backend *inner = ring();
    acre_device *mine, *cpu;
    bool can;

    REQUIRE_OK(acre_backend_device(inner, 0, &mine));
    REQUIRE_OK(acre_device_get(ACRE_DEVICE_CPU, 0, &cpu));
    EXPECT_EQ(acre_device_can_access_peer(mine, cpu, &can), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_device_can_access_peer(mine, NULL, &can), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_device_can_access_peer(NULL, mine, &can), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_device_can_access_peer(cpu, cpu, &can));
    EXPECT(can);
    acre_backend_unregister(inner);
}

TEST(without_the_group_only_oneself_is_reached)
{
    const struct wrap_config config = {
        .name = "alone", .type = TYPE, .without = ACRE_CAP_PEERS};
    acre_backend *inner = ring(), *alone;
    bool can = true;

    REQUIRE_OK(tracing_create(inner, &config, &alone));
    REQUIRE_OK(acre_peer_access(TYPE, 0, 1, &can));
    EXPECT(!can);
    REQUIRE_OK(acre_peer_access(TYPE, 1, 1, &can));
    EXPECT(can);
    acre_backend_unregister(alone);
    acre_backend_unregister(inner);
}

/* A failed question is not an answer: it is asked again. */
TEST(failures_are_not_remembered)
{
    const struct wrap_config config = {.name = "faulty", .type = TYPE};
    acre_backend *inner = ring(), *faulty;
    bool can = false;

    REQUIRE_OK(fault_create(inner, &config, &faulty));
    fault_arm(faulty, WRAP_peer_query, 1, ACRE_ERR_DEVICE);
    EXPECT_EQ(acre_peer_access(TYPE, 0, 1, &can), ACRE_ERR_DEVICE);
    fault_arm(faulty, WRAP_peer_enable, 1, ACRE_ERR_DEVICE);
    EXPECT_EQ(acre_peer_access(TYPE, 0, 1, &can), ACRE_ERR_DEVICE);
    EXPECT(!can);
    fault_disarm(faulty);
    REQUIRE_OK(acre_peer_access(TYPE, 0, 1, &can));
    EXPECT(can);
    acre_backend_unregister(faulty);
    acre_backend_unregister(inner);
}

static void *ask_all(void *unused)
{
    (void)unused;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++) {
            bool can = false;

            EXPECT_EQ(acre_peer_access(TYPE, i, j, &can), ACRE_OK);
            EXPECT_EQ(can, (i - j + 4) % 4 != 2);
        }
    return NULL;
}

TEST(threads_ask_once_together)
{
    const struct wrap_config config = {.name = "asked", .type = TYPE};
    acre_backend *inner = ring(), *asked;
    pthread_t threads[4];

    REQUIRE_OK(tracing_create(inner, &config, &asked));
    for (int i = 0; i < 4; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, ask_all, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    EXPECT_EQ(tracing_count(asked, WRAP_peer_query), 12);
    acre_backend_unregister(asked);
    acre_backend_unregister(inner);
}

/* ---- A child of fork, of a backend that works there ------------------------------------------ */

static _Atomic int is_asked, may_end;

static acre_status query_slowly(void *self, int device, int other, bool *out_can)
{
    (void)self;
    (void)device;
    (void)other;
    is_asked = 1;
    usleep(100000);
    *out_can = true;
    return ACRE_OK;
}

static acre_status enable(void *self, int device, int other)
{
    (void)self;
    (void)device;
    (void)other;
    return ACRE_OK;
}

/* Stays until the child is gone: ThreadSanitizer takes one that ends as the child starts for lost
 * there. */
static void *ask_one(void *unused)
{
    bool can;

    (void)unused;
    EXPECT_EQ(acre_peer_access(TYPE, 0, 1, &can), ACRE_OK);
    while (!may_end)
        usleep(100);
    return NULL;
}

static void child_asks(void *unused)
{
    bool can = false;

    (void)unused;
    alarm(20);
    REQUIRE_OK(acre_peer_access(TYPE, 1, 0, &can));
    EXPECT(can);
}

TEST(a_child_asks_although_its_parent_was_asking)
{
    struct small small = SMALL_INITIALIZER;
    acre_backend_desc desc = small_desc("slow", TYPE, &small);
    acre_backend_ops ops = *desc.ops;
    acre_backend *backend;
    pthread_t thread;

    ops.peer_query = query_slowly;
    ops.peer_enable = enable;
    desc.ops = &ops;
    desc.flags |= ACRE_BACKEND_FORK_SAFE;
    REQUIRE_OK(acre_backend_register(&desc, &backend));
    REQUIRE_EQ(pthread_create(&thread, NULL, ask_one, NULL), 0);
    while (!is_asked)
        usleep(100);
    EXPECT_EQ(t_child(child_asks, NULL), 0);
    may_end = 1;
    pthread_join(thread, NULL);
    acre_backend_unregister(backend);
}

T_MAIN()
