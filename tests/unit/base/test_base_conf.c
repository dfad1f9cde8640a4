/* SPDX-License-Identifier: MIT */
/* Grammar, kinds of options, errors with their place, and that a bad string
 * changes nothing. */
#include "base/conf.h"

#include "base/bits.h"
#include "base/heap.h"
#include "base/status.h"
#include "tests/support/t.h"

struct target {
    uint8_t flag;
    uint16_t threads;
    uint32_t count;
    uint64_t memory, split;
    double fraction, share;
    uint32_t mode;
    uint32_t pairs[4][2], pair_count;
    char faults[64];
};

static const char *const modes[] = {"native", "async", NULL};

static acre_status parse_pairs(const struct conf_value *value, void *target)
{
    struct target *t = target;
    struct conf_word first, second;
    size_t at = 0;

    if (!value->is_list)
        return conf_fail(value, "write a list");
    t->pair_count = 0;
    while (conf_list_next(value, &at, &first, &second)) {
        uint64_t a = 1000, b = 1000;
        if (t->pair_count == 4)
            return conf_fail(value, "more than %d pairs", 4);
        if (!(first.length == 1 && *first.text == '>'))
            text_parse_unsigned(first.text, first.length, &a);
        if (second.length && !text_parse_unsigned(second.text, second.length, &b))
            return conf_fail(value, "\"%.*s\" is not a number", (int)second.length, second.text);
        t->pairs[t->pair_count][0] = (uint32_t)a;
        t->pairs[t->pair_count++][1] = (uint32_t)b;
    }
    return ACRE_OK;
}

static acre_status parse_fault(const struct conf_value *value, void *target)
{
    struct target *t = target;

    strncat(t->faults, value->text, 20);
    strncat(t->faults, ";", 2);
    return ACRE_OK;
}

static acre_status validate(void *target, uint64_t given)
{
    struct target *t = target;

    if ((given & 8) && t->split < t->memory)
        return status_fail(ACRE_ERR_CONFIG, "split below memory");
    return ACRE_OK;
}

static const struct conf_option options[] = {
    {.name = "flag", .alias = "banner", .kind = CONF_BOOL, CONF_FIELD(struct target, flag),
     .help = "A flag, default False."},
    {.name = "count", .kind = CONF_UNSIGNED, CONF_FIELD(struct target, count), .min = 2,
     .max = 64, .help = "How many, default 2."},
    {.name = "memory", .kind = CONF_BYTES, CONF_FIELD(struct target, memory), .help = "Size."},
    {.name = "split_mb", .kind = CONF_MIB, CONF_FIELD(struct target, split), .min = 20,
     .help = "Limit."},
    {.name = "threshold", .kind = CONF_FRACTION, CONF_FIELD(struct target, fraction),
     .fraction_min = 0, .fraction_max = 1, .flags = CONF_OPEN, .help = "Share."},
    {.name = "share", .kind = CONF_FRACTION, CONF_FIELD(struct target, share),
     .fraction_min = 0, .fraction_max = 1, .help = "Share."},
    {.name = "backend", .kind = CONF_WORD, CONF_FIELD(struct target, mode), .words = modes,
     .help = "Which."},
    {.name = "pairs", .kind = CONF_CUSTOM, .parse = parse_pairs, .help = "A list."},
    {.name = "fail", .kind = CONF_CUSTOM, .parse = parse_fault, .help = "May be repeated."},
    {.name = "threads", .kind = CONF_UNSIGNED, CONF_FIELD(struct target, threads), .min = 1,
     .max = 128, .flags = CONF_POWER_OF_TWO, .help = "Threads."},
};

static const struct conf_spec spec = {options, sizeof options / sizeof *options,
                                      sizeof(struct target), validate};

static void expect_refused(const char *text, const char *why)
{
    struct target before, after;
    uint64_t given = 99;

    memset(&before, 0x5a, sizeof before);
    memcpy(&after, &before, sizeof after);
    EXPECT_EQ(conf_parse(&spec, "ACRE_TEST", text, &after, &given), ACRE_ERR_CONFIG);
    EXPECT_HAS(acre_last_error(), why);
    EXPECT(memcmp(&before, &after, sizeof after) == 0);
    EXPECT_EQ(given, 99);
}

TEST(reads_every_kind)
{
    struct target t = {0};
    uint64_t given = 0;

    REQUIRE_OK(conf_parse(&spec, "X",
                          "flag:True,count:64,memory:8GiB,split_mb:8192,threshold:0.5,share:1,"
                          "backend:async,pairs:[256:1,512:2,>:8],threads:128",
                          &t, &given));
    EXPECT_EQ(t.flag, 1);
    EXPECT_EQ(t.count, 64);
    EXPECT_EQ(t.memory, 8 * GIB);
    EXPECT_EQ(t.split, 8 * GIB);
    EXPECT(t.fraction == 0.5 && t.share == 1.0);
    EXPECT_EQ(t.mode, 1);
    EXPECT_EQ(t.threads, 128);
    EXPECT_EQ(t.pair_count, 3);
    EXPECT_EQ(t.pairs[0][0], 256);
    EXPECT_EQ(t.pairs[2][0], 1000);
    EXPECT_EQ(t.pairs[2][1], 8);
    EXPECT_EQ(given, 0x2ff);
}

TEST(white_space_and_a_trailing_comma_are_ignored)
{
    struct target t = {0};

    REQUIRE_OK(conf_parse(&spec, "X", " co unt : 1 2 ,\tflag\n:True , ", &t, NULL));
    EXPECT_EQ(t.count, 12);
    EXPECT_EQ(t.flag, 1);
    REQUIRE_OK(conf_parse(&spec, "X", "", &t, NULL));
    REQUIRE_OK(conf_parse(&spec, "X", "  ", &t, NULL));
    EXPECT_EQ(t.count, 12);
}

TEST(an_alias_and_a_repeated_key_count)
{
    struct target t = {0};
    uint64_t given;

    REQUIRE_OK(conf_parse(&spec, "X", "banner:True,count:3,count:5,fail:alloc@3,fail:map%10/7",
                          &t, &given));
    EXPECT_EQ(t.flag, 1);
    EXPECT_EQ(t.count, 5);
    EXPECT_STR_EQ(t.faults, "alloc@3;map%10/7;");
    EXPECT_EQ(given, 0x103);
}

TEST(lists_may_hold_single_words)
{
    struct target t = {0};

    REQUIRE_OK(conf_parse(&spec, "X", "pairs:[5,6:7]", &t, NULL));
    EXPECT_EQ(t.pair_count, 2);
    EXPECT_EQ(t.pairs[0][1], 1000);
    EXPECT_EQ(t.pairs[1][1], 7);
}

TEST(separators_are_checked)
{
    expect_refused("count,40", "column 6: expected ':' after the key, found ','");
    expect_refused("count", "expected ':' after the key, found the end");
    expect_refused("count:", "expected a value, found the end");
    expect_refused("count:,", "expected a value, found ','");
    expect_refused("count:4:5", "expected ',' after the value, found ':'");
    expect_refused("count:4]", "found ']'");
    expect_refused(":4", "column 1: expected a key, found ':'");
    expect_refused(",", "expected a key, found ','");
    expect_refused("count:4,,", "column 9: expected a key, found ','");
    expect_refused(",count:4", "column 1: expected a key");
}

TEST(lists_are_checked)
{
    expect_refused("pairs:[", "expected a word in the list, found the end");
    expect_refused("pairs:[]", "expected a word in the list, found ']'");
    expect_refused("pairs:[1:2", "expected ',' or ']' in the list, found the end");
    expect_refused("pairs:[1:]", "expected a word after ':' in the list");
    expect_refused("pairs:[1:2,]", "expected a word in the list, found ']'");
    expect_refused("pairs:[1:2:3]", "expected ',' or ']' in the list, found ':'");
    expect_refused("pairs:[[1]]", "found '['");
    expect_refused("pairs:[1]x", "expected ',' after the value, found 'x'");
    expect_refused("count:[1]", "not a list");
    expect_refused("pairs:7", "write a list");
    expect_refused("pairs:[1:2,1:2,1:2,1:2,1:2]", "more than 4 pairs");
}

TEST(numbers_are_read_whole)
{
    expect_refused("count:-1", "column 7: count:-1 is not valid");
    expect_refused("count:+3", "digits only");
    expect_refused("count:40MB", "digits only");
    expect_refused("count:4.0", "digits only");
    expect_refused("count:99999999999999999999", "digits only");
    expect_refused("count:1", "between 2 and 64");
    expect_refused("count:65", "between 2 and 64");
    expect_refused("memory:-4GiB", "write a size");
    expect_refused("memory:4GiBx", "write a size");
    expect_refused("threads:0", "between 1 and 128");
    expect_refused("threads:3", "power of two");
    expect_refused("threads:256", "between 1 and 128");
    expect_refused("split_mb:19", "between 20 and");
}

TEST(mib_beyond_the_address_space_is_clamped)
{
    struct target t = {0};

    REQUIRE_OK(conf_parse(&spec, "X", "split_mb:18446744073709551615", &t, NULL));
    EXPECT_EQ(t.split, UINT64_MAX / MIB * MIB);
}

TEST(booleans_are_exact)
{
    struct target t = {.flag = 1};

    expect_refused("flag:true", "write True or False");
    expect_refused("flag:1", "write True or False");
    REQUIRE_OK(conf_parse(&spec, "X", "flag:False", &t, NULL));
    EXPECT_EQ(t.flag, 0);
}

TEST(fractions_keep_their_ends)
{
    struct target t = {0};

    expect_refused("threshold:0", "ends excluded");
    expect_refused("threshold:1", "ends excluded");
    expect_refused("threshold:1.0", "ends excluded");
    expect_refused("threshold:nan", "write a number");
    expect_refused("share:1.5", "ends included");
    expect_refused("share:-0.1", "write a number");
    REQUIRE_OK(conf_parse(&spec, "X", "threshold:1e-9,share:0", &t, NULL));
    EXPECT(t.fraction == 1e-9 && t.share == 0);
    REQUIRE_OK(conf_parse(&spec, "X", "threshold:0.999", &t, NULL));
}

TEST(unknown_words_and_keys_are_named)
{
    expect_refused("backend:other", "ACRE_TEST, column 9: backend:other is not valid: "
                                    "write one of native, async");
    expect_refused("flag:True, nokey:3", "column 12: there is no option nokey (value 3)");
}

TEST(a_late_error_changes_nothing)
{
    expect_refused("flag:True,count:5,memory:1GiB,pairs:[1:2],count:1", "between 2 and 64");
    expect_refused("memory:1TiB,split_mb:20", "split below memory");
}

TEST(an_option_may_be_read_before_the_others)
{
    struct conf_option ordered[2] = {options[8], options[8]};
    struct conf_spec in_order = {ordered, 2, sizeof(struct target), NULL};
    struct target t = {0};

    ordered[1].name = "early";
    ordered[1].flags = CONF_FIRST;
    REQUIRE_OK(conf_parse(&in_order, "X", "fail:a,early:b,fail:c,early:d", &t, NULL));
    EXPECT_STR_EQ(t.faults, "b;d;a;c;");
}

TEST(every_host_allocation_may_fail)
{
    struct target t = {.count = 9};

    for (unsigned nth = 1;; nth++) {
        uint64_t live = heap_live_count();
        heap_fail_nth(nth);
        acre_status status = conf_parse(&spec, "X", "count:5", &t, NULL);
        int failed = heap_fail_disarm();
        EXPECT_EQ(heap_live_count(), live);
        if (!failed) {
            EXPECT_EQ(status, ACRE_OK);
            EXPECT_EQ(t.count, 5);
            EXPECT_EQ(nth, 3);
            return;
        }
        EXPECT_EQ(status, ACRE_ERR_HOST_MEMORY);
        EXPECT_EQ(t.count, 9);
    }
}

TEST(help_names_every_option)
{
    char buffer[2048];
    struct text text;

    text_init(&text, buffer, sizeof buffer);
    conf_help(&spec, &text);
    EXPECT(!text.is_cut);
    EXPECT_HAS(buffer, "  flag:True|False (also banner)\n      A flag, default False.\n");
    EXPECT_HAS(buffer, "  backend:native|async\n");
    EXPECT_HAS(buffer, "  threshold:0..1\n");
    for (size_t i = 0; i < spec.option_count; i++)
        EXPECT_HAS(buffer, options[i].name);
}

T_MAIN()
