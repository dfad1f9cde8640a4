/* SPDX-License-Identifier: MIT */
/* Verifying a file takes the device that its content tells. */
#include "tests/support/files.h"
#include "tests/support/t.h"

#include <acre/snapshot.h>
#include <acre/trace.h>

#include <string.h>

static const char text[] =
    "{\"segments\": [{\"device\": 1, \"address\": 2097152, \"total_size\": 2097152,"
    " \"allocated_size\": 512, \"active_size\": 512, \"stream\": 0, \"segment_type\": \"small\","
    " \"blocks\": [{\"size\": 512, \"requested_size\": 100, \"state\": \"active_allocated\"},"
    " {\"size\": 2096640, \"state\": \"inactive\"}]}],"
    " \"device_traces\": [[], [{\"action\": \"segment_alloc\", \"addr\": 2097152,"
    " \"size\": 2097152, \"stream\": 0}, {\"action\": \"alloc\", \"addr\": 2097152,"
    " \"size\": 100, \"stream\": 0}]]}";

TEST(the_device_is_chosen)
{
    const char *path = files_write("v.json", text, strlen(text));
    acre_verify_result result = {.struct_size = sizeof result};
    acre_replay_config config = {.struct_size = sizeof config, .device = ACRE_DEVICE_CHOOSE};
    acre_replay_result replayed = {.struct_size = sizeof replayed};

    REQUIRE_OK(acre_replay_verify(path, ACRE_DEVICE_CHOOSE, &result));
    EXPECT_EQ(result.device, 1);
    EXPECT_EQ(result.is_exact, 1);
    EXPECT_EQ(acre_replay_verify(path, 0, &result), ACRE_ERR_NOT_FOUND);
    REQUIRE_OK(acre_replay(path, &config, &replayed));
    EXPECT_EQ(replayed.device, 1);
    EXPECT_EQ(replayed.first.allocs, 1);
    EXPECT_EQ(acre_replay_verify(NULL, 0, &result), ACRE_ERR_INVALID);
}

T_MAIN()
