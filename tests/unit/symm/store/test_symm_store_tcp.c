/* SPDX-License-Identifier: MIT */
/* Stores on a server: what clients see. */
#include "tests/unit/symm/store/store_suite.h"

#include <sys/resource.h>

static acre_store_server *server;

static void store_begin(void)
{
    REQUIRE_OK(acre_store_server_create(NULL, 0, "secret", &server));
}

static acre_store *store_open(void)
{
    acre_store *store;

    REQUIRE_OK(acre_store_connect("127.0.0.1", acre_store_server_port(server), "secret", 5000,
                                  &store));
    return store;
}

static void store_end(void)
{
    acre_store_server_destroy(server);
    EXPECT_EQ(heap_live_count(), 0);
}

TEST(S82_add_of_several_processes_sums_exactly)
{
    expect_processes_sum();
}

TEST(another_secret_is_refused)
{
    acre_store *store;

    store_begin();
    EXPECT_EQ(acre_store_connect("127.0.0.1", acre_store_server_port(server), "guess", 2000,
                                 &store), ACRE_ERR_REJECTED);
    EXPECT_HAS(acre_last_error(), "secret");
    EXPECT_EQ(acre_store_connect("127.0.0.1", acre_store_server_port(server), "", 2000,
                                 &store), ACRE_ERR_REJECTED);
    store_end();
}

TEST(a_server_that_is_gone_is_an_error_and_no_hang)
{
    acre_store *store;
    acre_blob blob;

    store_begin();
    store = store_open();
    uint16_t port = acre_store_server_port(server);
    set_text(store, "k", "v");
    acre_store_server_destroy(server);
    EXPECT_EQ(acre_store_get(store, "k", &blob), ACRE_ERR_PEER);
    acre_store_destroy(store);
    EXPECT_EQ(acre_store_connect("127.0.0.1", port, "secret", 50, &store), ACRE_ERR_TIMEOUT);
    EXPECT_EQ(heap_live_count(), 0);
}

TEST(large_values_travel)
{
    size_t bytes = 5 << 20;
    char *value = malloc(bytes);
    acre_blob blob;

    store_begin();
    acre_store *store = store_open();
    memset(value, 'x', bytes);
    REQUIRE_OK(acre_store_set(store, "large", value, bytes));
    REQUIRE_OK(acre_store_get(store, "large", &blob));
    EXPECT_EQ(blob.bytes, bytes);
    EXPECT(memcmp(blob.data, value, bytes) == 0);
    acre_blob_free(&blob);
    const char *keys[4] = {"large", "large", "large", "large"};
    acre_blob blobs[4];
    EXPECT_EQ(acre_store_multi_get(store, keys, 4, blobs), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "too large");
    free(value);
    acre_store_destroy(store);
    store_end();
}

TEST(open_understands_addresses)
{
    acre_store *store;

    EXPECT_EQ(acre_store_open("tcp:nowhere", &store), ACRE_ERR_CONFIG);
    EXPECT_EQ(acre_store_open("tcp:host:99999", &store), ACRE_ERR_CONFIG);
    EXPECT_EQ(acre_store_open("smoke:signals", &store), ACRE_ERR_CONFIG);
    REQUIRE_OK(acre_store_open("local", &store));
    acre_store_destroy(store);
}

static void without_descriptors(void *arg)
{
    struct rlimit none;
    acre_store *store;

    (void)arg;
    store_begin();
    REQUIRE(getrlimit(RLIMIT_NOFILE, &none) == 0);
    none.rlim_cur = 0;
    REQUIRE(setrlimit(RLIMIT_NOFILE, &none) == 0);
    EXPECT_EQ(acre_store_connect("127.0.0.1", acre_store_server_port(server), "secret", 60000,
                                 &store), ACRE_ERR_LIMIT);
    EXPECT_HAS(acre_last_error(), "Too many open files");
}

TEST(a_process_without_descriptors_is_told_so_at_once)
{
    EXPECT_EQ(t_child(without_descriptors, NULL), 0);
}

T_MAIN()
