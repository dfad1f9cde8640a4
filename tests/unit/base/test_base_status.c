/* SPDX-License-Identifier: MIT */
#include "base/status.h"

#include "tests/support/t.h"

#include <pthread.h>

TEST(every_status_has_a_name_and_a_text)
{
#define CHECK_ENTRY(name, number, text)                                        \
    EXPECT_EQ(ACRE_##name, number);                                            \
    EXPECT_STR_EQ(acre_status_name(ACRE_##name), "ACRE_" #name);               \
    EXPECT_STR_EQ(acre_status_text(ACRE_##name), text);
    ACRE_STATUS_MAP(CHECK_ENTRY)
#undef CHECK_ENTRY
    EXPECT_STR_EQ(acre_status_name((acre_status)7777), "ACRE_ERR_?");
    EXPECT(*acre_status_text((acre_status)7777));
}

TEST(the_version_is_that_of_the_headers)
{
    char text[32];

    snprintf(text, sizeof text, "%d.%d.%d", ACRE_VERSION_MAJOR, ACRE_VERSION_MINOR,
             ACRE_VERSION_PATCH);
    EXPECT_STR_EQ(acre_version(), text);
}

TEST(a_failure_is_recorded_with_its_native_code)
{
    EXPECT_EQ(status_fail_native(ACRE_ERR_IO, 5, "reading %s", "x"), ACRE_ERR_IO);
    EXPECT_STR_EQ(acre_last_error(), "reading x");
    EXPECT_EQ(acre_last_native(), 5);
    EXPECT_EQ(status_fail(ACRE_ERR_RANGE, "%d", 9), ACRE_ERR_RANGE);
    EXPECT_STR_EQ(acre_last_error(), "9");
    EXPECT_EQ(acre_last_native(), 0);
}

TEST(a_long_text_is_cut)
{
    char text[5000];

    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    status_fail(ACRE_ERR_IO, "%s", text);
    EXPECT_EQ(strlen(acre_last_error()), sizeof((struct status_saved *)0)->text - 1);
}

static void *other_thread(void *arg)
{
    EXPECT_STR_EQ(acre_last_error(), "");
    EXPECT_EQ(acre_last_native(), 0);
    status_fail_native(ACRE_ERR_IO, 7, "of the other thread");
    return arg;
}

TEST(each_thread_has_its_own)
{
    pthread_t thread;

    status_fail_native(ACRE_ERR_IO, 3, "mine");
    pthread_create(&thread, NULL, other_thread, NULL);
    pthread_join(thread, NULL);
    EXPECT_STR_EQ(acre_last_error(), "mine");
    EXPECT_EQ(acre_last_native(), 3);
}

TEST(a_failure_can_be_put_aside)
{
    struct status_saved saved;

    status_fail_native(ACRE_ERR_IO, 3, "first");
    status_save(&saved);
    status_fail(ACRE_ERR_RANGE, "second");
    status_restore(&saved);
    EXPECT_STR_EQ(acre_last_error(), "first");
    EXPECT_EQ(acre_last_native(), 3);
}

T_MAIN()
