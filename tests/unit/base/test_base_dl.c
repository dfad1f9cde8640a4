/* SPDX-License-Identifier: MIT */
#include "base/dl.h"

#include "tests/support/t.h"

struct entries {
    double (*cos)(double);
    double (*other)(double);
    double (*missing)(double);
};

static const struct dl_symbol symbols[] = {
    {"cos", NULL, offsetof(struct entries, cos), false},
    {"no_such_name", "floor", offsetof(struct entries, other), false},
    {"no_such_call", NULL, offsetof(struct entries, missing), true},
};

TEST(takes_the_first_name_that_loads)
{
    const char *names[] = {"libno-such-library.so.9", "libm.so.6", NULL};
    struct entries entries;
    void *library = NULL;

    memset(&entries, 0x5a, sizeof entries);
    REQUIRE_OK(dl_open(names, symbols, 3, &entries, &library));
    EXPECT(library != NULL);
    EXPECT(entries.cos(0) == 1.0);
    EXPECT(entries.other(1.5) == 1.0);
    EXPECT(!entries.missing);
    dl_close(library);
    dl_close(NULL);
}

TEST(says_what_failed_for_each_name)
{
    const char *names[] = {"libno-such-a.so", "libno-such-b.so", NULL};
    struct entries entries;
    void *library = &entries;

    EXPECT_EQ(dl_open(names, symbols, 3, &entries, &library), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "libno-such-a.so is not there; libno-such-b.so is not there");
    EXPECT_PTR_EQ(library, &entries);
    EXPECT(!entries.cos && !entries.other && !entries.missing);
    names[1] = "/dev/null";
    EXPECT_EQ(dl_open(names, symbols, 3, &entries, &library), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "libno-such-a.so is not there; /dev/null: ");
    EXPECT_EQ(dl_open(names + 2, symbols, 3, &entries, &library), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "no name was given");
}

TEST(a_missing_required_symbol_fails_the_whole)
{
    static const struct dl_symbol more[] = {
        {"cos", NULL, offsetof(struct entries, cos), false},
        {"no_such_name", "nor_this", offsetof(struct entries, other), false},
    };
    const char *names[] = {"libm.so.6", NULL};
    struct entries entries;
    void *library = NULL;

    EXPECT_EQ(dl_open(names, more, 2, &entries, &library), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "libm.so.6 has no no_such_name or nor_this");
    EXPECT(!library && !entries.cos && !entries.other);
}

T_MAIN()
