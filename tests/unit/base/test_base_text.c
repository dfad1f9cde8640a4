/* SPDX-License-Identifier: MIT */
#include "base/text.h"

#include "base/bits.h"
#include "tests/support/t.h"

#include <acre/base.h>

#include <locale.h>

static uint64_t bytes_of(const char *text)
{
    uint64_t value = 77;

    EXPECT(text_parse_bytes(text, strlen(text), &value));
    return value;
}

TEST(reads_sizes_with_units)
{
    EXPECT_EQ(bytes_of("4096"), 4096);
    EXPECT_EQ(bytes_of("0"), 0);
    EXPECT_EQ(bytes_of("12B"), 12);
    EXPECT_EQ(bytes_of("3K"), 3 * KIB);
    EXPECT_EQ(bytes_of("3kb"), 3 * KIB);
    EXPECT_EQ(bytes_of("512MiB"), 512 * MIB);
    EXPECT_EQ(bytes_of("24G"), 24 * GIB);
    EXPECT_EQ(bytes_of("80GiB"), 80 * GIB);
    EXPECT_EQ(bytes_of("2t"), 2048 * GIB);
    EXPECT_EQ(bytes_of("18446744073709551615"), UINT64_MAX);
    EXPECT_EQ(bytes_of("16777215T"), (uint64_t)16777215 << 40);
}

TEST(refuses_what_is_not_a_size)
{
    static const char *const bad[] = {"", "G", "-1", "+1", "1.5G", "1 G", "1Gi", "1GiBs", "0x10",
        "1E", "bytes", "18446744073709551616", "16777216T", "99999999999999999999", "1K1"};
    uint64_t value = 77;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (text_parse_bytes(bad[i], strlen(bad[i]), &value))
            t_fail(__FILE__, __LINE__, "\"%s\" was read", bad[i]);
    EXPECT_EQ(value, 77);
}

TEST(reads_only_the_given_length)
{
    uint64_t value = 0;

    EXPECT(text_parse_unsigned("1234", 2, &value));
    EXPECT_EQ(value, 12);
    EXPECT(text_parse_bytes("8GiBxyz", 4, &value));
    EXPECT_EQ(value, 8 * GIB);
}

TEST(reads_fractions_whatever_the_locale)
{
    double value = 0;

    setlocale(LC_ALL, "de_DE.UTF-8");
    EXPECT(text_parse_fraction("0.8", 3, &value));
    EXPECT(value == 0.8);
    EXPECT(text_parse_fraction("1e-9", 4, &value));
    EXPECT(value == 1e-9);
    setlocale(LC_ALL, "C");
}

TEST(refuses_what_is_not_a_fraction)
{
    static const char *const bad[] = {"", "nan", "inf", "-0.5", "+1", "0x1p3", "0.5x", "1e", ".",
                                      "0,5", "1-2", "e5"};
    double value = 3;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (text_parse_fraction(bad[i], strlen(bad[i]), &value))
            t_fail(__FILE__, __LINE__, "\"%s\" was read", bad[i]);
    EXPECT(value == 3);
    char huge[100];
    memset(huge, '1', sizeof huge);
    EXPECT(!text_parse_fraction(huge, sizeof huge, &value));
}

TEST(writes_sizes_as_reports_do)
{
    char buffer[TEXT_BYTES_MAX];

    EXPECT_STR_EQ(text_bytes(buffer, 0), "0 bytes");
    EXPECT_STR_EQ(text_bytes(buffer, 1024), "1024 bytes");
    EXPECT_STR_EQ(text_bytes(buffer, 1025), "1.00 KiB");
    EXPECT_STR_EQ(text_bytes(buffer, MIB), "1024.00 KiB");
    EXPECT_STR_EQ(text_bytes(buffer, MIB + 1), "1.00 MiB");
    EXPECT_STR_EQ(text_bytes(buffer, 102 * MIB), "102.00 MiB");
    EXPECT_STR_EQ(text_bytes(buffer, GIB), "1024.00 MiB");
    EXPECT_STR_EQ(text_bytes(buffer, GIB + GIB / 2), "1.50 GiB");
    EXPECT_STR_EQ(text_bytes(buffer, ((uint64_t)1 << 60) - 1), "1073741824.00 GiB");
    EXPECT_STR_EQ(text_bytes(buffer, UINT64_MAX), "17179869184.00 GiB");
}

TEST(a_text_never_outgrows_its_buffer)
{
    char buffer[10] = "xxxxxxxxx";
    struct text text;

    text_init(&text, buffer, 8);
    EXPECT_STR_EQ(buffer, "");
    text_add(&text, "%d-", 12);
    text_add_bytes(&text, 3);
    EXPECT_STR_EQ(buffer, "12-3 by");
    EXPECT(text.is_cut);
    EXPECT_EQ(text.length, 7);
    text_add(&text, "more");
    EXPECT_STR_EQ(buffer, "12-3 by");
    EXPECT_EQ(buffer[8], 'x');
}

TEST(a_text_that_just_fits_is_not_cut)
{
    char buffer[4];
    struct text text;

    text_init(&text, buffer, sizeof buffer);
    text_add(&text, "abc");
    EXPECT(!text.is_cut);
    EXPECT_EQ(text.length, 3);
}

static const char *tamed(const char *from)
{
    static char text[64];

    snprintf(text, sizeof text, "%s", from);
    text_tame(text);
    return text;
}

TEST(texts_are_tame_on_terminals)
{
    EXPECT_STR_EQ(tamed("plain\ttext\n"), "plain\ttext\n");
    EXPECT_STR_EQ(tamed("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80"),
                  "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80");
    EXPECT_STR_EQ(tamed("\x1b[2J\r\b\x7f"), "?[2J???");
    EXPECT_STR_EQ(tamed("\xc2\x9b" "31m"), "?31m");          /* C1 control as UTF-8 */
    EXPECT_STR_EQ(tamed("\x9b" "31m\xff\xc3"), "?31m??");     /* no UTF-8            */
    EXPECT_STR_EQ(tamed("a\xe2\x80\xae" "b"), "a?b");        /* right to left       */
    EXPECT_STR_EQ(tamed("a\xd8\x9c\xf3\xa0\x81\x81" "b"), "a??b"); /* a mark, a tag   */
    EXPECT_STR_EQ(tamed("\xc1\x81\xed\xa0\x80"), "???");    /* too long, surrogate */
    EXPECT_STR_EQ(tamed(""), "");
}

TEST(sizes_beside_each_other_differ_when_they_do)
{
    char buffer[64];
    struct text text;

    memset(buffer, 'x', sizeof buffer);
    text_init(&text, buffer, sizeof buffer);
    text_add_bytes_beside(&text, 3 << 20, 3 << 20); /* the same: no reason for more digits */
    EXPECT_STR_EQ(buffer, "3.00 MiB");
    text_init(&text, buffer, sizeof buffer);
    text_add_bytes_beside(&text, (3 << 20) + 1, 3 << 20);
    EXPECT_STR_EQ(buffer, "3145729 bytes");
    text_init(&text, buffer, sizeof buffer);
    text_add_bytes_beside(&text, 0, 0);
    EXPECT_STR_EQ(buffer, "0 bytes");
    text_init(&text, buffer, sizeof buffer);
    text_add_bytes_beside(&text, 3 << 20, 4 << 20);
    EXPECT_STR_EQ(buffer, "3.00 MiB");
}

TEST(a_count_of_one_has_no_ending)
{
    EXPECT_STR_EQ(text_plural(0), "s");
    EXPECT_STR_EQ(text_plural(1), "");
    EXPECT_STR_EQ(text_plural(2), "s");
    EXPECT_STR_EQ(text_plural(UINT64_MAX), "s");
}

T_MAIN()
