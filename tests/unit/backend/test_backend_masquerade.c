/* SPDX-License-Identifier: MIT */
/* HIP shown as CUDA: D86 to D88, D90 to D93. The HIP library is a reference
 * device of that type. */
#include "backend/backend.h"
#include "tests/support/sim_pair.h"
#include "tests/support/small_backend.h"

#include <pthread.h>

static acre_backend *hip;

static void begin(acre_masquerade_form form)
{
    hip = sim_pair("fake-hip", ACRE_DEVICE_HIP, ACRE_STREAM_CODEC_CUDA);
    REQUIRE_OK(acre_masquerade_register(hip, ACRE_DEVICE_CUDA, form));
}

static void end(void)
{
    acre_backend_unregister(hip);
}

static acre_stream stream_of(int type, int index, int64_t id)
{
    return (acre_stream){.id = id, .index = index, .type = type};
}

static int same(acre_stream a, acre_stream b)
{
    return a.id == b.id && a.index == b.index && a.type == b.type;
}

TEST(D86_current_device_is_shown_as_cuda)
{
    acre_device_id shown;
    int index;

    begin(ACRE_MASQUERADE_TRANSLATE);
    for (int i = 0; i < 2; i++) {
        REQUIRE_OK(acre_device_set(ACRE_DEVICE_HIP, i));
        REQUIRE_OK(backend_current(hip, &shown));
        EXPECT_EQ(shown.type, ACRE_DEVICE_CUDA);
        EXPECT_EQ(shown.index, i);
        REQUIRE_OK(acre_device_current(ACRE_DEVICE_CUDA, &index));
        EXPECT_EQ(index, i);
    }
    REQUIRE_OK(acre_device_set(ACRE_DEVICE_CUDA, 0));
    REQUIRE_OK(acre_device_current(ACRE_DEVICE_HIP, &index));
    EXPECT_EQ(index, 0);
    end();
}

TEST(D87_wrapping_changes_the_type_alone)
{
    acre_stream inner, shown;

    begin(ACRE_MASQUERADE_TRANSLATE);
    REQUIRE_OK(acre_masquerade_wrap(hip, stream_of(ACRE_DEVICE_CUDA, 1, 37), false, &inner));
    EXPECT(same(inner, stream_of(ACRE_DEVICE_HIP, 1, 37)));
    REQUIRE_OK(acre_masquerade_unwrap(hip, inner, &shown));
    EXPECT(same(shown, stream_of(ACRE_DEVICE_CUDA, 1, 37)));
    /* Shown and inner streams are one stream, and one is current in both. */
    REQUIRE_OK(acre_stream_set_current(shown));
    REQUIRE_OK(acre_stream_current(ACRE_DEVICE_HIP, 1, &inner));
    EXPECT(same(inner, stream_of(ACRE_DEVICE_HIP, 1, 37)));
    end();
}

TEST(D88_checked_wrapping_refuses_other_types)
{
    static const int others[] = {ACRE_DEVICE_HIP, ACRE_DEVICE_CPU, ACRE_DEVICE_PRIVATE};
    acre_stream inner = stream_of(-7, -7, -7);

    begin(ACRE_MASQUERADE_TRANSLATE);
    for (int i = 0; i < 3; i++) {
        EXPECT_EQ(acre_masquerade_wrap(hip, stream_of(others[i], 0, 37), false, &inner),
                  ACRE_ERR_INVALID);
        EXPECT_HAS(acre_last_error(), "cuda");
        EXPECT_EQ(inner.type, -7);
    }
    for (int i = 0; i < 3; i++) {
        REQUIRE_OK(acre_masquerade_wrap(hip, stream_of(others[i], 1, 37), true, &inner));
        EXPECT(same(inner, stream_of(ACRE_DEVICE_HIP, 1, 37)));
    }
    EXPECT_EQ(acre_masquerade_wrap(hip, stream_of(99, 0, 37), true, &inner), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_masquerade_unwrap(hip, stream_of(ACRE_DEVICE_CUDA, 0, 37), &inner),
              ACRE_ERR_INVALID);
    EXPECT_EQ(acre_masquerade_wrap(NULL, inner, true, &inner), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_masquerade_wrap(hip, inner, true, NULL), ACRE_ERR_INVALID);
    end();
}

TEST(D90_the_masquerade_answers_for_cuda)
{
    acre_device *device;
    acre_backend *of_device;

    EXPECT_EQ(acre_device_get(ACRE_DEVICE_CUDA, 0, &device), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "cuda");
    begin(ACRE_MASQUERADE_TRANSLATE);
    REQUIRE_OK(acre_device_get(ACRE_DEVICE_CUDA, 1, &device));
    EXPECT_EQ(acre_device_id_of(device).type, ACRE_DEVICE_CUDA);
    EXPECT_EQ(acre_device_id_of(device).index, 1);
    REQUIRE_OK(acre_backend_find("fake-hip", &of_device));
    EXPECT_PTR_EQ(of_device, hip);
    EXPECT_EQ(acre_device_get(ACRE_DEVICE_OPENCL, 0, &device), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "opencl");
    end();
    EXPECT_EQ(acre_device_get(ACRE_DEVICE_CUDA, 0, &device), ACRE_ERR_UNSUPPORTED);
}

TEST(a_registered_backend_is_displaced_and_comes_back)
{
    struct small small = SMALL_INITIALIZER;
    acre_backend *real, *second;
    acre_device_info info = {.struct_size = sizeof info};
    acre_device *device;

    REQUIRE_OK(small_register("real-cuda", ACRE_DEVICE_CUDA, &small, &real));
    begin(ACRE_MASQUERADE_TRANSLATE);
    REQUIRE_OK(acre_device_get(ACRE_DEVICE_CUDA, 0, &device));
    REQUIRE_OK(acre_device_info_get(device, &info));
    EXPECT(strcmp(info.name, "small") != 0);
    /* Of two masquerades the later one is seen. */
    REQUIRE_OK(small_register("second", ACRE_DEVICE_OPENCL, &small, &second));
    REQUIRE_OK(acre_masquerade_register(second, ACRE_DEVICE_CUDA, ACRE_MASQUERADE_RENAME));
    REQUIRE_OK(acre_device_get(ACRE_DEVICE_CUDA, 0, &device));
    REQUIRE_OK(acre_device_info_get(device, &info));
    EXPECT_STR_EQ(info.name, "small");
    acre_backend_unregister(second);
    acre_masquerade_unregister(hip);
    REQUIRE_OK(acre_device_get(ACRE_DEVICE_CUDA, 0, &device));
    REQUIRE_OK(acre_device_info_get(device, &info));
    EXPECT_STR_EQ(info.name, "small");
    REQUIRE_OK(acre_device_get(ACRE_DEVICE_HIP, 0, &device));
    EXPECT_EQ(acre_device_id_of(device).type, ACRE_DEVICE_HIP);
    acre_masquerade_unregister(hip);
    acre_masquerade_unregister(NULL);
    end();
    acre_backend_unregister(real);
}

TEST(D91_renamed_hip_is_never_seen)
{
    acre_stream stream, inner;
    acre_device *device;
    acre_device_id id;
    acre_event *event;
    int index;

    begin(ACRE_MASQUERADE_RENAME);
    EXPECT_EQ(acre_device_get(ACRE_DEVICE_HIP, 0, &device), ACRE_ERR_UNSUPPORTED);
    EXPECT_EQ(acre_device_current(ACRE_DEVICE_HIP, &index), ACRE_ERR_UNSUPPORTED);
    EXPECT_EQ(acre_stream_default(ACRE_DEVICE_HIP, 0, &stream), ACRE_ERR_UNSUPPORTED);
    EXPECT_EQ(acre_masquerade_wrap(hip, stream_of(ACRE_DEVICE_HIP, 0, 3), false, &inner),
              ACRE_ERR_INVALID);
    REQUIRE_OK(acre_masquerade_wrap(hip, stream_of(ACRE_DEVICE_HIP, 0, 3), true, &inner));
    EXPECT_EQ(inner.type, ACRE_DEVICE_CUDA);
    REQUIRE_OK(acre_stream_from_pool(ACRE_DEVICE_CUDA, 1, 0, &stream));
    EXPECT_EQ(stream.type, ACRE_DEVICE_CUDA);
    REQUIRE_OK(acre_masquerade_wrap(hip, stream, false, &inner));
    EXPECT(same(inner, stream));
    REQUIRE_OK(acre_masquerade_unwrap(hip, inner, &inner));
    EXPECT(same(inner, stream));
    REQUIRE_OK(acre_stream_current(ACRE_DEVICE_CUDA, 1, &stream));
    EXPECT_EQ(stream.type, ACRE_DEVICE_CUDA);
    REQUIRE_OK(backend_current(hip, &id));
    EXPECT_EQ(id.type, ACRE_DEVICE_CUDA);
    REQUIRE_OK(acre_backend_device(hip, 0, &device));
    EXPECT_EQ(acre_device_id_of(device).type, ACRE_DEVICE_CUDA);
    REQUIRE_OK(acre_event_create(ACRE_DEVICE_CUDA, 0, &event));
    REQUIRE_OK(acre_event_record(event, stream));
    acre_event_destroy(event);
    end();
}

TEST(D92_equal_streams_hash_equal_and_text_has_the_suffix)
{
    char text[128];
    acre_stream shown = stream_of(ACRE_DEVICE_CUDA, 1, 37), again, inner;

    begin(ACRE_MASQUERADE_TRANSLATE);
    REQUIRE_OK(acre_masquerade_wrap(hip, shown, false, &inner));
    REQUIRE_OK(acre_masquerade_unwrap(hip, inner, &again));
    EXPECT(acre_stream_hash(shown) == acre_stream_hash(again));
    EXPECT(acre_stream_hash(again) == ((uint64_t)1 << 56 | (uint64_t)1 << 48 | 37));
    EXPECT_EQ(acre_masquerade_text(hip, shown, text, sizeof text), (int)strlen(text));
    EXPECT_STR_EQ(text, "stream 37 on device hip:1 (masquerading as cuda)");
    end();
    begin(ACRE_MASQUERADE_RENAME);
    acre_masquerade_text(hip, shown, text, sizeof text);
    EXPECT_STR_EQ(text, "stream 37 on device cuda:1 (masquerading as cuda)");
    end();
}

TEST(D93_guards_refuse_what_is_not_cuda)
{
    static const acre_masquerade_form forms[] = {ACRE_MASQUERADE_TRANSLATE,
                                                 ACRE_MASQUERADE_RENAME};
    acre_device_id previous, now;
    acre_guard guard;

    for (int i = 0; i < 2; i++) {
        previous.index = -7;
        begin(forms[i]);
        EXPECT_EQ(backend_set_current(hip, (acre_device_id){ACRE_DEVICE_HIP, 1}),
                  ACRE_ERR_INVALID);
        EXPECT_HAS(acre_last_error(), "hip:1");
        EXPECT_EQ(backend_exchange_current(hip, (acre_device_id){ACRE_DEVICE_CPU, 0},
                                                &previous), ACRE_ERR_INVALID);
        EXPECT_HAS(acre_last_error(), "cpu:0");
        EXPECT_EQ(previous.index, -7);
        REQUIRE_OK(backend_current(hip, &now));
        EXPECT_EQ(now.index, 0);
        REQUIRE_OK(backend_exchange_current(hip, (acre_device_id){ACRE_DEVICE_CUDA, 1},
                                                 &previous));
        EXPECT_EQ(previous.type, ACRE_DEVICE_CUDA);
        EXPECT_EQ(previous.index, 0);
        EXPECT_EQ(backend_set_current(hip, (acre_device_id){ACRE_DEVICE_CUDA, 2}),
                  ACRE_ERR_RANGE);
        /* A guard written for HIP takes a device shown as CUDA. */
        REQUIRE_OK(acre_guard_device_of(&guard, ACRE_DEVICE_HIP,
                                        (acre_device_id){ACRE_DEVICE_CUDA, 0}));
        acre_guard_end(&guard);
        REQUIRE_OK(backend_current(hip, &now));
        EXPECT_EQ(now.index, 1);
        end();
    }
}

/* A guard that goes from one face of a backend to the other restores. */
TEST(both_types_share_guards)
{
    acre_guard guard;
    int index;

    begin(ACRE_MASQUERADE_TRANSLATE);
    REQUIRE_OK(acre_guard_device(&guard, (acre_device_id){ACRE_DEVICE_HIP, 1}));
    REQUIRE_OK(acre_guard_reset_device(&guard, (acre_device_id){ACRE_DEVICE_CUDA, 1}));
    REQUIRE_OK(acre_device_current(ACRE_DEVICE_HIP, &index));
    EXPECT_EQ(index, 1);
    acre_guard_end(&guard);
    REQUIRE_OK(acre_device_current(ACRE_DEVICE_CUDA, &index));
    EXPECT_EQ(index, 0);
    end();
}

TEST(bad_masquerades_are_refused)
{
    acre_stream stream = stream_of(ACRE_DEVICE_HIP, 0, 3);
    acre_backend *backend = sim_pair("fake", ACRE_DEVICE_HIP, ACRE_STREAM_CODEC_CUDA);

    EXPECT_EQ(acre_masquerade_register(NULL, ACRE_DEVICE_CUDA, ACRE_MASQUERADE_RENAME),
              ACRE_ERR_INVALID);
    EXPECT_EQ(acre_masquerade_register(backend, ACRE_DEVICE_HIP, ACRE_MASQUERADE_RENAME),
              ACRE_ERR_INVALID);
    EXPECT_EQ(acre_masquerade_register(backend, (acre_device_type)50, ACRE_MASQUERADE_RENAME),
              ACRE_ERR_INVALID);
    EXPECT_EQ(acre_masquerade_register(backend, ACRE_DEVICE_CUDA, (acre_masquerade_form)3),
              ACRE_ERR_INVALID);
    EXPECT_EQ(acre_masquerade_wrap(backend, stream, true, &stream), ACRE_ERR_STATE);
    EXPECT_EQ(acre_masquerade_unwrap(backend, stream, &stream), ACRE_ERR_STATE);
    REQUIRE_OK(acre_masquerade_register(backend, ACRE_DEVICE_CUDA, ACRE_MASQUERADE_RENAME));
    EXPECT_EQ(acre_masquerade_register(backend, ACRE_DEVICE_CUDA, ACRE_MASQUERADE_TRANSLATE),
              ACRE_ERR_STATE);
    EXPECT_HAS(acre_last_error(), "cuda");
    acre_backend_unregister(backend);
}

/* ---- Two threads --------------------------------------------------------------------------- */

static acre_backend *contended;
static _Atomic int shown_count; /* threads that were told that it is shown as they want */
static _Atomic uint64_t wrong;

/* Shows the backend, unless somebody else does, and ends that. */
static void *show_often(void *arg)
{
    acre_device_type shown = (acre_device_type)(intptr_t)arg;

    for (uint64_t i = 0; i < t_count(1000000, 10000000) / t_slowness(); i++) {
        acre_status status =
            acre_masquerade_register(contended, shown, ACRE_MASQUERADE_TRANSLATE);
        if (status == ACRE_OK) {
            wrong += shown_count++ != 0 || contended->shown != (int)shown;
            shown_count--;
            acre_masquerade_unregister(contended);
        } else {
            wrong += status != ACRE_ERR_STATE;
        }
    }
    return NULL;
}

TEST(of_two_threads_that_show_one_backend_one_is_told_so)
{
    pthread_t thread;

    contended = sim_pair("fake", ACRE_DEVICE_HIP, ACRE_STREAM_CODEC_CUDA);
    REQUIRE(pthread_create(&thread, NULL, show_often, (void *)(intptr_t)ACRE_DEVICE_CUDA) == 0);
    show_often((void *)(intptr_t)ACRE_DEVICE_OPENCL);
    pthread_join(thread, NULL);
    EXPECT_EQ(wrong, 0);
    acre_backend_unregister(contended);
}

T_MAIN()
