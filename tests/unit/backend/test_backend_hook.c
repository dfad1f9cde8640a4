/* SPDX-License-Identifier: MIT */
/* What frameworks ask of a type: D75. */
#include "tests/support/sim_pair.h"

#define TYPE ACRE_DEVICE_PRIVATE

TEST(D75_pinned_memory_and_device_of_a_pointer)
{
    acre_backend *backend = sim_pair("hooks", TYPE, ACRE_STREAM_CODEC_REFERENCE);
    acre_device_id id = {ACRE_DEVICE_CPU, -7};
    acre_device *second;
    char *pinned, *memory, ordinary[16];

    REQUIRE_OK(acre_device_get(TYPE, 1, &second));
    REQUIRE_OK(acre_host_alloc(second, 10000, (void **)&pinned));
    REQUIRE_OK(acre_device_alloc(second, 10000, (void **)&memory));
    EXPECT(acre_hook_is_pinned(TYPE, pinned));
    EXPECT(acre_hook_is_pinned(TYPE, pinned + 9999));
    EXPECT(!acre_hook_is_pinned(TYPE, ordinary));
    EXPECT(!acre_hook_is_pinned(TYPE, memory));
    EXPECT(!acre_hook_is_pinned(TYPE, NULL));
    EXPECT_EQ(acre_hook_device_of_pointer(TYPE, pinned, &id), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "page-locked");
    EXPECT_EQ(acre_hook_device_of_pointer(TYPE, ordinary, &id), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_hook_device_of_pointer(TYPE, NULL, &id), ACRE_ERR_INVALID);
    EXPECT_EQ(id.index, -7);
    REQUIRE_OK(acre_hook_device_of_pointer(TYPE, memory + 5000, &id));
    EXPECT_EQ(id.type, TYPE);
    EXPECT_EQ(id.index, 1);
    EXPECT_EQ(acre_hook_device_of_pointer(TYPE, memory, NULL), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_host_free(second, pinned));
    REQUIRE_OK(acre_device_free(second, memory));
    acre_backend_unregister(backend);
}

TEST(types_tell_whether_they_are_there)
{
    acre_backend *backend = sim_pair("hooks", TYPE, ACRE_STREAM_CODEC_REFERENCE);

    EXPECT(acre_hook_is_built(TYPE));
    EXPECT(acre_hook_is_built(ACRE_DEVICE_CPU));
    EXPECT(!acre_hook_is_built((acre_device_type)3));
    EXPECT(!acre_hook_is_built((acre_device_type)-1));
    EXPECT(acre_hook_is_available(TYPE));
    EXPECT(!acre_hook_is_available((acre_device_type)3));
    EXPECT(acre_hook_has_primary_context(TYPE, 1));
    EXPECT(!acre_hook_has_primary_context(TYPE, 2));
    EXPECT(!acre_hook_has_primary_context(TYPE, -1));
    acre_backend_unregister(backend);
}

T_MAIN()
