/* SPDX-License-Identifier: MIT */
/* Bad arguments, as in test_arguments.c: stream values, guards, events and masquerades of
 * device.h, sim.h and generator.h. */
#include "generator/generator.h"
#include "tests/unit/arguments.h"

/* ---- device.h: stream values, guards, events, masquerade -------------------------------- */

TEST(stream_values_refuse)
{
    const acre_device_type type = ACRE_DEVICE_PRIVATE, none = (acre_device_type)1000;
    const acre_stream null = {0, 0, 20}, far = {13, 99, 20}, foreign = {13, 0, 1000};
    const acre_stream bad_type = {5, 0, 20};
    acre_stream value;
    char text[8];
    void *out;

    begin();
    BAD(acre_stream_default(type, 0, NULL));
    BAD(acre_stream_default(type, 99, &value));
    BAD(acre_stream_default(none, 0, &value));
    BAD(acre_stream_current(type, 0, NULL));
    BAD(acre_stream_current(type, 99, &value));
    BAD(acre_stream_from_pool(type, 0, 0, NULL));
    BAD(acre_stream_from_pool(type, 99, 0, &value));
    BAD(acre_stream_from_pool_high(type, 0, true, NULL));
    BAD(acre_stream_from_pool_high(none, 0, true, &value));
    BAD(acre_stream_external(type, 0, stream, NULL));
    BAD(acre_stream_external(type, 99, stream, &value));
    BAD(acre_stream_external(type, 0, (char *)stream + 1, &value));
    const acre_stream bad[] = {far, foreign, bad_type};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        BAD(acre_stream_set_current(bad[i]));
        BAD(acre_stream_native(bad[i], &out));
        BAD(acre_stream_synchronize(bad[i]));
        BAD(acre_stream_priority(bad[i], &(int){0}));
        EXPECT(!acre_stream_query(bad[i]));
        EXPECT(acre_stream_text(bad[i], NULL, 0) > 0);
        acre_stream_hash(bad[i]);
    }
    BAD(acre_stream_synchronize(null));
    EXPECT(!acre_stream_query(null));
    REQUIRE_OK(acre_stream_default(type, 0, &value));
    BAD(acre_stream_native(value, NULL));
    BAD(acre_stream_priority(value, NULL));
    EXPECT(acre_stream_text(value, text, sizeof text) > (int)sizeof text);
    EXPECT_EQ(strlen(text), sizeof text - 1);
    EXPECT(acre_stream_text(value, NULL, 8) > 0);
    end();
}

TEST(guards_refuse)
{
    const acre_stream far = {13, 99, 20};
    const acre_device_id away = {ACRE_DEVICE_PRIVATE, 99};
    acre_stream value, originals[1];
    acre_guard guard = {0};

    begin();
    REQUIRE_OK(acre_stream_default(ACRE_DEVICE_PRIVATE, 0, &value));
    BAD(acre_guard_device(NULL, (acre_device_id){ACRE_DEVICE_PRIVATE, 0}));
    BAD(acre_guard_device(&guard, away));
    BAD(acre_guard_device(&guard, (acre_device_id){(acre_device_type)1000, 0}));
    BAD(acre_guard_device_of(NULL, ACRE_DEVICE_PRIVATE, (acre_device_id){ACRE_DEVICE_PRIVATE, 0}));
    BAD(acre_guard_device_of(&guard, ACRE_DEVICE_PRIVATE, (acre_device_id){ACRE_DEVICE_CPU, 0}));
    BAD(acre_guard_reset_device(NULL, away));
    BAD(acre_guard_stream(NULL, value));
    BAD(acre_guard_stream(&guard, far));
    BAD(acre_guard_reset_stream(NULL, value));
    REQUIRE_OK(acre_guard_device(&guard, (acre_device_id){ACRE_DEVICE_PRIVATE, 0}));
    BAD(acre_guard_reset_device(&guard, away));
    acre_guard_end(&guard);
    acre_guard_end(&guard);
    acre_guard_end(NULL);
    BAD(acre_guard_multi_begin(NULL, 1, originals));
    BAD(acre_guard_multi_begin(&value, 1, NULL));
    BAD(acre_guard_multi_begin(&value, -1, originals));
    BAD(acre_guard_multi_begin(&far, 1, originals));
    acre_guard_multi_end(NULL, 1);
    acre_guard_multi_end(originals, -1);
    end();
}

TEST(event_values_refuse)
{
    const acre_stream far = {13, 99, 20};
    acre_event *e, *out = NULL;
    acre_stream value;
    double ms;

    begin();
    REQUIRE_OK(acre_stream_default(ACRE_DEVICE_PRIVATE, 0, &value));
    BAD(acre_event_create(ACRE_DEVICE_PRIVATE, 0, NULL));
    BAD(acre_event_create((acre_device_type)1000, 0, &out));
    EXPECT_PTR_EQ(out, NULL);
    REQUIRE_OK(acre_event_create(ACRE_DEVICE_PRIVATE, ACRE_EVENT_TIMING, &e));
    BAD(acre_event_record(NULL, value));
    BAD(acre_event_record(e, far));
    BAD(acre_event_record_once(NULL, value));
    BAD(acre_event_record_once(e, far));
    BAD(acre_event_block(NULL, value));
    BAD(acre_event_synchronize(NULL));
    BAD(acre_event_elapsed(NULL, e, &ms));
    BAD(acre_event_elapsed(e, NULL, &ms));
    BAD(acre_event_elapsed(e, e, NULL));
    BAD(acre_event_elapsed(e, e, &ms));
    acre_event_query(NULL);
    EXPECT_EQ(acre_event_device_index(NULL), -1);
    EXPECT_EQ(acre_event_id(NULL), 0);
    acre_event_destroy(e);
    acre_event_destroy(NULL);
    end();
}

TEST(masquerades_refuse)
{
    const acre_stream value = {13, 0, 1};
    acre_stream out;

    begin();
    BAD(acre_masquerade_register(NULL, ACRE_DEVICE_CUDA, ACRE_MASQUERADE_RENAME));
    BAD(acre_masquerade_register(rig.backend, (acre_device_type)1000, ACRE_MASQUERADE_RENAME));
    BAD(acre_masquerade_register(rig.backend, ACRE_DEVICE_PRIVATE, ACRE_MASQUERADE_RENAME));
    BAD(acre_masquerade_register(rig.backend, ACRE_DEVICE_CUDA, (acre_masquerade_form)0));
    acre_masquerade_unregister(NULL);
    acre_masquerade_unregister(rig.backend);
    BAD(acre_masquerade_wrap(NULL, value, false, &out));
    BAD(acre_masquerade_wrap(rig.backend, value, false, &out));
    BAD(acre_masquerade_wrap(rig.backend, value, true, NULL));
    BAD(acre_masquerade_unwrap(NULL, value, &out));
    BAD(acre_masquerade_unwrap(rig.backend, value, &out));
    BAD(acre_masquerade_unwrap(rig.backend, value, NULL));
    acre_masquerade_text(NULL, value, NULL, 0);
    acre_masquerade_text(rig.backend, value, NULL, 8);
    end();
}

/* ---- sim.h ------------------------------------------------------------------------------ */

TEST(the_reference_device_refuses)
{
    acre_sim_config config = {.struct_size = sizeof config};
    acre_sim_fault fault = {.struct_size = sizeof fault, .call = (acre_sim_call)999};
    acre_backend *host_backend, *out = NULL;
    acre_sim_usage usage = {.struct_size = sizeof usage};

    begin();
    REQUIRE_OK(acre_backend_find("host", &host_backend));
    BAD(acre_sim_parse(NULL, &config));
    BAD(acre_sim_parse("devices:1", NULL));
    BAD(acre_sim_create(&config, NULL));
    config.devices = UINT32_MAX;
    BAD(acre_sim_create(&config, &out));
    config = (acre_sim_config){.struct_size = 3};
    BAD(acre_sim_create(&config, &out));
    config = (acre_sim_config){.struct_size = sizeof config, .page_bytes = 3};
    BAD(acre_sim_create(&config, &out));
    config = (acre_sim_config){.struct_size = sizeof config, .fault_count = UINT32_MAX};
    BAD(acre_sim_create(&config, &out));
    config = (acre_sim_config){.struct_size = sizeof config, .memory_bytes = UINT64_MAX};
    BAD(acre_sim_create(&config, &out));
    EXPECT_PTR_EQ(out, NULL);
    BAD(acre_sim_fault_arm(NULL, &fault));
    BAD(acre_sim_fault_arm(rig.backend, NULL));
    BAD(acre_sim_fault_arm(rig.backend, &fault));
    BAD(acre_sim_fault_arm(host_backend, &fault));
    EXPECT_EQ(acre_sim_fault_disarm(NULL), 0);
    EXPECT_EQ(acre_sim_fault_disarm(host_backend), 0);
    BAD(acre_sim_usage_get(NULL, &usage));
    BAD(acre_sim_usage_get(rig.backend, NULL));
    BAD(acre_sim_usage_get(host_backend, &usage));
    acre_backend_unregister(host_backend);
    end();
}

/* ---- generator.h -------------------------------------------------------------------------- */

TEST(the_raw_engine_takes_null)
{
    uint32_t words[4] = {1, 2, 3, 4};

    acre_philox_block(NULL, words, words);
    acre_philox_block(words, NULL, words);
    acre_philox_block(words, words, NULL);
    EXPECT_EQ(words[3], 4);
    acre_philox_init(NULL, 1, 2, 3);
    acre_philox_skip(NULL, 1);
    EXPECT_EQ(acre_philox_next(NULL), 0);
}

TEST(generators_refuse)
{
    const acre_device_id label = {ACRE_DEVICE_PRIVATE, 0};
    acre_generator *generator, *out = NULL;
    uint64_t number;
    uint32_t word;

    REQUIRE_OK(acre_generator_create(ACRE_GENERATOR_PHILOX, label, &generator));
    BAD(acre_generator_create((acre_generator_kind)0, label, &out));
    BAD(acre_generator_create(ACRE_GENERATOR_PHILOX, label, NULL));
    BAD(acre_generator_clone(NULL, &out));
    BAD(acre_generator_clone(generator, NULL));
    BAD(acre_generator_share(NULL, &out));
    BAD(acre_generator_share(generator, NULL));
    BAD(acre_generator_default(ACRE_DEVICE_CPU, 0, NULL));
    BAD(acre_generator_default((acre_device_type)1000, 0, &out));
    BAD(acre_generator_default(ACRE_DEVICE_CPU, 99, &out));
    EXPECT_PTR_EQ(out, NULL);
    EXPECT_EQ(generator_kind_of(NULL), 0);
    EXPECT_EQ(acre_generator_device(NULL).index, -1);
    EXPECT_EQ(acre_generator_state_bytes(NULL), 0);
    BAD(acre_generator_set_seed(NULL, 1));
    BAD(acre_generator_get_seed(NULL, &number));
    BAD(acre_generator_get_seed(generator, NULL));
    BAD(acre_generator_seed_random(NULL, &number));
    BAD(acre_generator_get_offset(NULL, &number));
    BAD(acre_generator_get_offset(generator, NULL));
    BAD(acre_generator_set_offset(NULL, 4));
    BAD(acre_generator_advance(NULL, 4, &number));
    BAD(acre_generator_advance(generator, 4, NULL));
    BAD(acre_generator_advance(generator, UINT64_MAX, &number));
    BAD(acre_generator_get_state(NULL, host, 16));
    BAD(acre_generator_get_state(generator, NULL, 16));
    BAD(acre_generator_get_state(generator, host, SIZE_MAX));
    BAD(acre_generator_set_state(NULL, host, 16));
    BAD(acre_generator_set_state(generator, NULL, 16));
    BAD(acre_generator_set_state(generator, host, SIZE_MAX));
    BAD(acre_generator_random32(NULL, &word, 1));
    BAD(acre_generator_random32(generator, NULL, 1));
    BAD(acre_generator_random64(NULL, &number, 1));
    BAD(acre_generator_random64(generator, NULL, 1));
    BAD(acre_generator_random64(generator, &number, SIZE_MAX));
    acre_generator_destroy(generator);
    acre_generator_destroy(NULL);
}

TEST(fills_refuse)
{
    const acre_device_id label = {ACRE_DEVICE_PRIVATE, 0};
    acre_generator_capture *capture = NULL;
    acre_generator *generator;

    begin();
    acre_fill good = {device, stream, memory, 4, ACRE_REAL_F32};
    acre_fill fills[6] = {good, good, good, good, good, good};
    fills[0].dst = (char *)memory + 1;
    fills[1].dst = NULL;
    fills[2].dst = host;
    fills[3].count = SIZE_MAX;
    fills[4].type = (acre_real_type)0;
    fills[5].stream = host;
    REQUIRE_OK(acre_generator_create(ACRE_GENERATOR_PHILOX, label, &generator));
    for (size_t i = 0; i < sizeof fills / sizeof *fills; i++) {
        BAD(acre_generator_uniform(generator, &fills[i], 0, 1));
        BAD(acre_generator_normal(generator, &fills[i], 0, 1));
    }
    BAD(acre_generator_uniform(NULL, &good, 0, 1));
    BAD(acre_generator_uniform(generator, NULL, 0, 1));
    BAD(acre_generator_uniform(generator, &good, 1, 0));
    BAD(acre_generator_normal(NULL, &good, 0, 1));
    BAD(acre_generator_normal(generator, NULL, 0, 1));
    BAD(acre_generator_normal(generator, &good, 0, -1));
    BAD(acre_generator_capture_begin(NULL, device, stream, &capture));
    BAD(acre_generator_capture_begin(generator, NULL, stream, &capture));
    BAD(acre_generator_capture_begin(generator, device, NULL, &capture));
    BAD(acre_generator_capture_begin(generator, device, stream, NULL));
    BAD(acre_generator_capture_begin(generator, device, stream, &capture));
    EXPECT_PTR_EQ(capture, NULL);
    BAD(acre_generator_capture_end(NULL, NULL));
    BAD(acre_generator_capture_replay(NULL, device, stream));
    acre_generator_capture_destroy(NULL);
    acre_generator_destroy(generator);
    end();
}

T_MAIN()
