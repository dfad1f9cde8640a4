/* SPDX-License-Identifier: MIT */
#include "view/pack.h"

#include "base/heap.h"
#include "tests/support/t.h"

/* Reads a number back, as view/decode.js does. */
static uint64_t take(const struct pack *pack, size_t *at)
{
    uint64_t value = 0;

    for (unsigned shift = 0;; shift += 7) {
        unsigned char byte = pack->bytes[(*at)++];
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return value;
    }
}

static const uint64_t values[] = {0, 1, 127, 128, 300, 1u << 20, (uint64_t)1 << 40, UINT64_MAX, 5};
#define COUNT (sizeof values / sizeof *values)

TEST(numbers_come_back)
{
    struct pack pack = {0};
    size_t at = 0;

    for (size_t i = 0; i < COUNT; i++)
        pack_number(&pack, values[i]);
    EXPECT_EQ(pack.bytes[0], 0);
    EXPECT_EQ(pack.bytes[2], 127);
    for (size_t i = 0; i < COUNT; i++)
        EXPECT(take(&pack, &at) == values[i]);
    EXPECT_EQ(at, pack.count);
    pack_fini(&pack);
}

TEST(differences_come_back)
{
    struct pack pack = {0};
    uint64_t last = 0;
    size_t at = 0;

    for (size_t i = 0; i < COUNT; i++)
        pack_step(&pack, values[i]);
    for (size_t i = 0; i < COUNT; i++) {
        uint64_t folded = take(&pack, &at);
        last += folded >> 1 ^ (0 - (folded & 1));
        EXPECT(last == values[i]);
    }
    pack_clear(&pack);
    pack_step(&pack, 3); /* begins anew at 0 */
    EXPECT_EQ(pack.bytes[0], 6);
    pack_fini(&pack);
}

TEST(json_is_safe_inside_a_page)
{
    static const struct { const char *text, *json; } cases[] = {
        {"plain", "\"plain\""},
        {"</script><b>", "\"\\u003c/script\\u003e\\u003cb\\u003e\""},
        {"a\"b\\c\n", "\"a\\u0022b\\u005cc\\u000a\""},
        {"<!--", "\"\\u003c!--\""},
        {"\xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80",
         "\"\xc3\xbc \xe2\x82\xac \xf0\x9f\x98\x80\""},
        {"\xff\xc3", "\"\\ufffd\\ufffd\""},
        {"\xc0\xaf", "\"\\ufffd\\ufffd\""},
        {"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""},
        {"\xe0\x80\x80", "\"\\ufffd\\ufffd\\ufffd\""},
        {"\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pack pack = {0};
        pack_json(&pack, cases[i].text, strlen(cases[i].text));
        pack_bytes(&pack, "", 1);
        EXPECT_STR_EQ((const char *)pack.bytes, cases[i].json);
        pack_fini(&pack);
    }
}

TEST(lost_memory_is_told_once_at_the_end)
{
    struct pack pack = {0};

    heap_fail_nth(1);
    pack_number(&pack, 1);
    EXPECT(heap_fail_disarm());
    pack_number(&pack, 2);
    pack_text(&pack, "%d", 3);
    EXPECT_EQ(pack.count, 0);
    EXPECT_EQ(pack_status(&pack), ACRE_ERR_HOST_MEMORY);
    pack_fini(&pack);
}

T_MAIN()
