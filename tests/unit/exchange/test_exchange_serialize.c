/* SPDX-License-Identifier: MIT */
/* The map that is saved with a tensor, and the tag that says where it was. */
#include <acre/serialize.h>

#include "tests/support/t.h"

TEST(D76_metadata_is_saved_by_known_numbers_and_loaded_by_true_entries)
{
    const acre_metadata both = {1, 29}, first = {1, 5}, none = {-1, -1};
    acre_metadata_entry map[ACRE_METADATA_ENTRIES_MAX];
    acre_metadata loaded;
    size_t count;

    REQUIRE_OK(acre_metadata_save(&both, map, &count));
    REQUIRE_EQ(count, 2);
    EXPECT_STR_EQ(map[0].key, "version_number");
    EXPECT_STR_EQ(map[1].key, "format_number");
    REQUIRE_OK(acre_metadata_load(map, count, ACRE_DEVICE_PRIVATE, &loaded));
    EXPECT(loaded.version == 1 && loaded.format == 29);
    REQUIRE_OK(acre_metadata_load(map, count, ACRE_DEVICE_CPU, &loaded));
    EXPECT(loaded.version == -1 && loaded.format == -1);
    REQUIRE_OK(acre_metadata_save(&first, map, &count));
    REQUIRE_EQ(count, 1);
    EXPECT_STR_EQ(map[0].key, "version_number");
    REQUIRE_OK(acre_metadata_load(map, count, ACRE_DEVICE_PRIVATE, &loaded));
    EXPECT(loaded.version == 1 && loaded.format == -1);
    map[0].value = false;
    REQUIRE_OK(acre_metadata_load(map, count, ACRE_DEVICE_PRIVATE, &loaded));
    EXPECT_EQ(loaded.version, -1);
    REQUIRE_OK(acre_metadata_save(&none, map, &count));
    EXPECT_EQ(count, 0);
    REQUIRE_OK(acre_metadata_save(NULL, map, &count));
    EXPECT_EQ(count, 0);
    REQUIRE_OK(acre_metadata_load(NULL, 0, ACRE_DEVICE_PRIVATE, &loaded));
    EXPECT(loaded.version == -1 && loaded.format == -1);
}

TEST(unknown_keys_are_passed_over)
{
    const acre_metadata_entry map[] = {{"colour", true}, {ACRE_METADATA_FORMAT_KEY, true}};
    const acre_metadata_entry nameless = {NULL, true};
    acre_metadata loaded;
    size_t count;

    REQUIRE_OK(acre_metadata_load(map, 2, ACRE_DEVICE_CUDA, &loaded));
    EXPECT(loaded.version == -1 && loaded.format == 29);
    EXPECT_EQ(acre_metadata_load(&nameless, 1, ACRE_DEVICE_CUDA, &loaded), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_metadata_load(NULL, 1, ACRE_DEVICE_CUDA, &loaded), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_metadata_load(map, 2, ACRE_DEVICE_CUDA, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_metadata_save(NULL, NULL, &count), ACRE_ERR_INVALID);
}

TEST(tags_are_name_and_index)
{
    acre_device_id id;
    char text[32];

    REQUIRE_OK(acre_device_set(ACRE_DEVICE_PRIVATE, 1));
    EXPECT_EQ(acre_location_text((acre_device_id){ACRE_DEVICE_CUDA, 3}, text, sizeof text), 6);
    EXPECT_STR_EQ(text, "cuda:3");
    acre_location_text((acre_device_id){ACRE_DEVICE_PRIVATE, -1}, text, sizeof text);
    EXPECT_STR_EQ(text, "openreg:1");
    EXPECT_EQ(acre_location_text((acre_device_id){ACRE_DEVICE_CPU, -1}, NULL, 0), 3);
    REQUIRE_OK(acre_location_parse("openreg", &id));
    EXPECT(id.type == ACRE_DEVICE_PRIVATE && id.index == 1);
    REQUIRE_OK(acre_location_parse("hip:7", &id));
    EXPECT(id.type == ACRE_DEVICE_HIP && id.index == 7);
    REQUIRE_OK(acre_location_parse("cpu", &id));
    EXPECT_EQ(id.type, ACRE_DEVICE_CPU);
    REQUIRE_OK(acre_device_set(ACRE_DEVICE_PRIVATE, 0));
}

TEST(bad_tags_are_refused)
{
    const char *const bad[] = {"", ":", "cud:0", "cuda:", "cuda:-1", "cuda:1x", "cuda:128",
                               "cuda:99999999999999999999", "CUDA:0", "cuda 0"};
    acre_device_id id = {ACRE_DEVICE_HIP, 5};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        EXPECT_EQ(acre_location_parse(bad[i], &id), ACRE_ERR_FORMAT);
    EXPECT_EQ(acre_location_parse(NULL, &id), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_location_parse("cpu", NULL), ACRE_ERR_INVALID);
    EXPECT(id.type == ACRE_DEVICE_HIP && id.index == 5);
}

T_MAIN()
