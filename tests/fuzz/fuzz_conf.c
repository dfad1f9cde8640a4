/* SPDX-License-Identifier: MIT */
/* Configuration strings of any bytes: never a crash or a leak; a refused one
 * changes nothing, an accepted one gives the same result twice. */
#include "base/conf.h"
#include "base/heap.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

struct target {
    uint8_t flag;
    uint32_t count, mode;
    uint64_t memory, split, sum;
    double fraction;
};

static const char *const modes[] = {"native", "async", NULL};

static acre_status parse_list(const struct conf_value *value, void *target)
{
    struct target *t = target;
    struct conf_word first, second;
    size_t at = 0;

    if (!value->is_list)
        return conf_fail(value, "write a list");
    while (conf_list_next(value, &at, &first, &second)) {
        FUZZ_EXPECT(first.length > 0);
        t->sum += first.length * 31 + (unsigned char)first.text[first.length - 1];
        t->sum += second.length ? (unsigned char)second.text[second.length - 1] : 0;
    }
    return ACRE_OK;
}

static const struct conf_option options[] = {
    {.name = "flag", .alias = "f", .kind = CONF_BOOL, CONF_FIELD(struct target, flag)},
    {.name = "count", .kind = CONF_UNSIGNED, CONF_FIELD(struct target, count), .max = 64},
    {.name = "memory", .kind = CONF_BYTES, CONF_FIELD(struct target, memory)},
    {.name = "split_mb", .kind = CONF_MIB, CONF_FIELD(struct target, split), .min = 20},
    {.name = "threshold", .kind = CONF_FRACTION, CONF_FIELD(struct target, fraction),
     .fraction_max = 1, .flags = CONF_FIRST},
    {.name = "backend", .kind = CONF_WORD, CONF_FIELD(struct target, mode), .words = modes},
    {.name = "list", .kind = CONF_CUSTOM, .parse = parse_list},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct conf_spec spec = {options, sizeof options / sizeof *options,
                                          sizeof(struct target), NULL};
    uint64_t live = heap_live_count();
    struct target first, second, before;
    char *text = malloc(size + 1);

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    memset(&before, 0x5a, sizeof before);
    memcpy(&first, &before, sizeof first);
    memcpy(&second, &before, sizeof second);
    acre_status status = conf_parse(&spec, "FUZZ", text, &first, NULL);
    FUZZ_EXPECT(status == ACRE_OK || status == ACRE_ERR_CONFIG);
    FUZZ_EXPECT(conf_parse(&spec, "FUZZ", text, &second, NULL) == status);
    FUZZ_EXPECT(memcmp(&first, &second, sizeof first) == 0);
    FUZZ_EXPECT(status == ACRE_OK || memcmp(&first, &before, sizeof first) == 0);
    FUZZ_EXPECT(heap_live_count() == live);
    free(text);
    return 0;
}
