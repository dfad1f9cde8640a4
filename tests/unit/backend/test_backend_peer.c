/* SPDX-License-Identifier: MIT */
/* Peer access is asked once: D101. */
#include "backend/peer.h"

#include "tests/support/fault_backend.h"
#include "tests/support/t.h"
#include "tests/support/tracing_backend.h"

#include <pthread.h>

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

T_MAIN()
