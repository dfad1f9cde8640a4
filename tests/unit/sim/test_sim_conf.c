/* SPDX-License-Identifier: MIT */
#include "sim/sim_conf.h"

#include "base/bits.h"
#include "tests/support/t.h"

static acre_sim_config parsed(const char *text)
{
    acre_sim_config config = {.struct_size = sizeof config};

    REQUIRE_OK(acre_sim_parse(text, &config));
    return config;
}

TEST(every_key_fills_its_field)
{
    acre_sim_config config = parsed("devices:3, memory:80GiB, page:64KiB, dry:1, peers:ring, "
                                    "call_ns:5, byte_ps:6, limit:7MiB");

    EXPECT_EQ(config.devices, 3);
    EXPECT_EQ(config.memory_bytes, 80 * GIB);
    EXPECT_EQ(config.page_bytes, 64 * KIB);
    EXPECT_EQ(config.dry, 1);
    EXPECT_EQ(config.peers, ACRE_SIM_PEERS_RING);
    EXPECT_EQ(config.call_ns, 5);
    EXPECT_EQ(config.byte_ps, 6);
    EXPECT_EQ(config.limit_bytes, 7 * MIB);
    EXPECT_EQ(config.fault_count, 0);
    EXPECT_EQ(parsed("dry:False").dry, 0);
    EXPECT_EQ(parsed("dry:True").dry, 1);
    EXPECT_EQ(parsed("open:1").open, 1);
    EXPECT_EQ(parsed("open:0").open, 0);
}

TEST(faults_add_up)
{
    acre_sim_config config = parsed("fail:alloc@3,fail:map%1000/7,late:copy=1000000,"
                                    "fail:create>=4MiB=oom,fail:any,late:free@2%5>=1=9");

    REQUIRE_EQ(config.fault_count, 6);
    EXPECT_EQ(config.faults[0].call, ACRE_SIM_ALLOC);
    EXPECT_EQ(config.faults[0].nth, 3);
    EXPECT_EQ(config.faults[0].status, ACRE_ERR_DEVICE);
    EXPECT_EQ(config.faults[1].call, ACRE_SIM_MAP);
    EXPECT_EQ(config.faults[1].probability_ppm, 1000);
    EXPECT_EQ(config.faults[1].seed, 7);
    EXPECT_EQ(config.faults[2].call, ACRE_SIM_COPY);
    EXPECT_EQ(config.faults[2].is_delay, 1);
    EXPECT_EQ(config.faults[2].delay_ns, 1000000);
    EXPECT_EQ(config.faults[3].call, ACRE_SIM_CREATE);
    EXPECT_EQ(config.faults[3].bytes_min, 4 * MIB);
    EXPECT_EQ(config.faults[3].status, ACRE_ERR_DEVICE_MEMORY);
    EXPECT_EQ(config.faults[4].call, ACRE_SIM_ANY);
    EXPECT_EQ(config.faults[5].nth, 2);
    EXPECT_EQ(config.faults[5].probability_ppm, 5);
    EXPECT_EQ(config.faults[5].bytes_min, 1);
    EXPECT_EQ(config.faults[5].delay_ns, 9);
}

TEST(a_bad_string_changes_nothing_and_is_named)
{
    static const char *const bad[] = {
        "devices:0", "devices:65", "devices:-1", "devices:2x", "devices", "devices,2", "memory:0",
        "memory:1TB2", "page:3MiB", "page:1KiB", "dry:2", "peers:some", "call_ns:", "nothing:1",
        "open:2", "fail:", "fail:nothing@1", "fail:alloc@0", "fail:alloc@x", "fail:alloc%0",
        "fail:alloc%1000001", "fail:alloc%5/x", "fail:alloc/5", "fail:alloc>5", "fail:alloc=what",
        "fail:alloc@1@2", "late:alloc", "late:alloc=", "late:alloc=5x", "fail:[alloc]",
        "devices:[2]",
    };

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        acre_sim_config config = {.struct_size = sizeof config, .devices = 5}, before = config;
        char text[100];

        snprintf(text, sizeof text, "memory:1GiB,fail:free@1,%s", bad[i]);
        if (acre_sim_parse(text, &config) != ACRE_ERR_CONFIG)
            t_fail(__FILE__, __LINE__, "\"%s\" was accepted", text);
        EXPECT_HAS(acre_last_error(), "ACRE_SIM");
        EXPECT(memcmp(&before, &config, sizeof config) == 0);
    }
    acre_sim_config config = {.struct_size = 3};
    EXPECT_EQ(acre_sim_parse("dry:1", &config), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_sim_parse(NULL, &config), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_sim_parse("", NULL), ACRE_ERR_INVALID);
}

TEST(zero_means_default)
{
    acre_sim_config config, empty = {.struct_size = sizeof empty};

    for (int i = 0; i < 2; i++) {
        memset(&config, 0xff, sizeof config);
        REQUIRE_OK(sim_conf_complete(i ? &empty : NULL, &config));
        EXPECT_EQ(config.devices, 2);
        EXPECT_EQ(config.memory_bytes, 8 * GIB);
        EXPECT_EQ(config.page_bytes, 2 * MIB);
        EXPECT_EQ(config.type, ACRE_DEVICE_PRIVATE);
        EXPECT_EQ(config.limit_bytes, 0);
    }
    /* A program of before a field was added gives a shorter struct. */
    empty.devices = 4;
    empty.dry = 1;
    empty.struct_size = offsetof(acre_sim_config, dry);
    REQUIRE_OK(sim_conf_complete(&empty, &config));
    EXPECT_EQ(config.devices, 4);
    EXPECT_EQ(config.dry, 0);
}

TEST(structs_are_checked)
{
    const acre_sim_config bad[] = {
        {.devices = 65},
        {.memory_bytes = UINT64_MAX}, {.page_bytes = 3 * MIB}, {.page_bytes = 512},
        {.page_bytes = (uint64_t)1 << 40}, {.dry = 2}, {.peers = (acre_sim_topology)4},
        {.type = (acre_device_type)ACRE_DEVICE_TYPE_COUNT}, {.codec = 2}, {.fault_count = 33},
    };
    acre_sim_config out = {.devices = 77};

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        acre_sim_config config = bad[i];

        config.struct_size = sizeof config;
        EXPECT_EQ(sim_conf_complete(&config, &out), ACRE_ERR_CONFIG);
        EXPECT_EQ(out.devices, 77);
    }
    acre_sim_config unset = {.devices = 1};
    EXPECT_EQ(sim_conf_complete(&unset, &out), ACRE_ERR_INVALID);
    struct {
        acre_sim_config known;
        uint64_t later;
    } newer = {{.struct_size = sizeof newer}, 1};
    EXPECT_EQ(sim_conf_complete(&newer.known, &out), ACRE_ERR_INVALID);
    EXPECT_EQ(out.devices, 77);
}

T_MAIN()
