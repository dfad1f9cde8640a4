/* SPDX-License-Identifier: MIT */
/* Traces become snapshots and snapshots traces, and nothing is lost on the way. */
#include "tests/support/files.h"
#include "tests/support/t.h"

#include <acre/snapshot.h>
#include <acre/trace.h>

static const char trace[] = "a 0 1000 0\na 1 3145728 1\nf 0\na 2 20971520 0\ne\nf 2\na 3 5 0\n";

TEST(a_trace_survives_all_formats)
{
    static const struct {
        const char *name;
        acre_convert_format format;
    } steps[] = {{"1.pickle", ACRE_CONVERT_PICKLE}, {"2.json", ACRE_CONVERT_JSON},
                 {"3.pickle", ACRE_CONVERT_PICKLE}, {"4.trace", ACRE_CONVERT_TRACE}};
    char from[512], to[512];

    snprintf(from, sizeof from, "%s", files_write("0.trace", trace, sizeof trace - 1));
    for (int i = 0; i < 4; i++) {
        snprintf(to, sizeof to, "%s", files_path(steps[i].name));
        REQUIRE_OK(acre_convert(from, to, steps[i].format, 0));
        memcpy(from, to, sizeof from);
    }
    const unsigned char *bytes;
    size_t count = files_read(from, &bytes);
    char text[4096];
    snprintf(text, sizeof text, "%.*s", (int)count, (const char *)bytes);
    /* The emptied cache is known by the segment it gave back. */
    EXPECT_HAS(text, "\na 0 1000 0\na 1 3145728 1\nf 0\na 2 20971520 0\ne\nf 2\na 3 5 0\n");
}

TEST(a_trace_is_copied_as_a_trace)
{
    const char *to = files_path("copy.trace");
    const unsigned char *bytes;

    REQUIRE_OK(acre_convert(files_write("0.trace", "a 7 5 2\nu 7 1\ns *\ns 3\nf 7\ne\n", 28), to,
                            ACRE_CONVERT_TRACE, 0));
    REQUIRE_EQ(files_read(to, &bytes), 28);
    EXPECT(memcmp(bytes, "a 7 5 2\nu 7 1\ns *\ns 3\nf 7\ne\n", 28) == 0);
}

TEST(refusals)
{
    const char *state = files_write("state.json", "{\"segments\":[]}", 15);
    static const char untrue[] =
        "{\"segments\":[{\"total_size\":5,\"address\":0,\"blocks\":[]}],\"device_traces\":[[{"
        "\"action\":\"alloc\",\"addr\":1,\"size\":1}]]}";
    const char *bad = files_write("bad.json", untrue, sizeof untrue - 1);

    EXPECT_EQ(acre_convert(NULL, "x", ACRE_CONVERT_JSON, 0), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_convert(state, "x", 9, 0), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_convert(state, files_path("no.trace"), ACRE_CONVERT_TRACE, 0),
              ACRE_ERR_NOT_FOUND);
    EXPECT_HAS(acre_last_error(), "has no history");
    EXPECT_EQ(acre_convert(bad, files_path("no.trace"), ACRE_CONVERT_TRACE, 0), ACRE_ERR_STATE);
    EXPECT_HAS(acre_last_error(), "is inconsistent");
    EXPECT_EQ(acre_convert("/nowhere", "x", ACRE_CONVERT_TRACE, 0), ACRE_ERR_IO);
}

T_MAIN()
