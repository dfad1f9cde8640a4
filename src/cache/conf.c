/* SPDX-License-Identifier: MIT */
#include "cache/conf.h"

#include "base/bits.h"
#include "base/conf.h"
#include "base/log.h"
#include "base/status.h"
#include "base/struct_size.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_LARGE_SEGMENT (20 * MIB)
#define LARGE_SEGMENT_MIN_MIB 11

/* Words of option policy; the index is an acre_policy. */
static const char *const policy_words[] = {"default", "torch", "acre", NULL};
static const char *const backend_words[] = {"native", "cudaMallocAsync", NULL};
/* The order is known to grow.c. */
static const char *const handle_words[] = {"unspecified", "posix_fd", "fabric", "none", NULL};
#define HANDLE_WORD_NONE 3

static acre_status parse_divisions(const struct conf_value *value, void *target);
static acre_status parse_path(const struct conf_value *value, void *target);
static acre_status parse_node(const struct conf_value *value, void *target);
static acre_status conf_validate(void *target, uint64_t given);

enum {
    USED_BY_TORCH = 1 << ACRE_POLICY_TORCH,
    USED_BY_ACRE = 1 << ACRE_POLICY_ACRE,
    USED_BY_BOTH = USED_BY_TORCH | USED_BY_ACRE,
    USED_BY_HOST = USED_BY_BOTH, /* options of the pinned-host cache: no policy's */
};

/* One line per option: name, alias, field, kind and bounds, who uses it, help. */
#define OPTIONS(X)                                                                                 \
    X("large_segment_size_mb", NULL, large_segment_bytes, USED_BY_TORCH, .kind = CONF_MIB,         \
      .flags = CONF_FIRST, .min = LARGE_SEGMENT_MIN_MIB,                                           \
      .help = "segment of requests in (1 MiB, 10 MiB); default 20")                                \
    X("max_split_size_mb", NULL, max_split_bytes, USED_BY_TORCH, .kind = CONF_MIB,                 \
      .help = "larger blocks stay whole; default: no limit")                                       \
    X("max_non_split_rounding_mb", NULL, max_non_split_rounding_bytes, USED_BY_TORCH,              \
      .kind = CONF_MIB,                                                                            \
      .help = "waste allowed in a block that stays whole; default: a "                             \
              "large segment")                                                                     \
    X("garbage_collection_threshold", NULL, gc_threshold, USED_BY_BOTH, .kind = CONF_FRACTION,     \
      .flags = CONF_OPEN, .fraction_min = 0, .fraction_max = 1,                                    \
      .help = "share of the limit above which idle memory is released; default off")               \
    X("roundup_power2_divisions", NULL, divisions, USED_BY_TORCH, .kind = CONF_CUSTOM,             \
      .parse = parse_divisions,                                                                    \
      .help = "steps between powers of two, or [MiB:steps,...,>:steps]; default off")              \
    X("expandable_segments", NULL, is_expandable, USED_BY_TORCH, .kind = CONF_BOOL,                \
      .help = "map pages into reserved addresses; default False")                                  \
    X("expandable_segments_handle_type", NULL, handle_choice, USED_BY_TORCH, .kind = CONF_WORD,    \
      .words = handle_words,                                                                       \
      .help = "how pages can be shared: unspecified (the best there is), posix_fd, "               \
              "fabric, none; default unspecified")                                                 \
    X("pinned_use_background_threads", NULL, pinned_uses_background_threads, USED_BY_HOST,         \
      .kind = CONF_BOOL, .help = "poll events of host memory in a thread; default False")          \
    X("pinned_max_round_threshold_mb", NULL, pinned_max_round_threshold_bytes, USED_BY_HOST,       \
      .kind = CONF_MIB, .help = "larger host requests are not rounded")                            \
    X("pinned_max_cached_size_mb", NULL, pinned_max_cached_bytes, USED_BY_HOST, .kind = CONF_MIB,  \
      .help = "larger host blocks are not cached")                                                 \
    X("backend", NULL, backend, USED_BY_BOTH, .kind = CONF_WORD, .words = backend_words,           \
      .help = "native; fixed when the cache is created")                                           \
    X("release_lock_on_cudamalloc", "release_lock_on_hipmalloc", drops_lock, USED_BY_BOTH,         \
      .kind = CONF_BOOL,                                                                           \
      .help = "other threads go on while the device is asked; "                                    \
              "default False")                                                                     \
    X("pinned_use_cuda_host_register", "pinned_use_hip_host_register", pinned_uses_register,       \
      USED_BY_HOST, .kind = CONF_BOOL,                                                             \
      .help = "register plain host memory instead; default False")                                 \
    X("pinned_num_register_threads", NULL, pinned_num_register_threads, USED_BY_HOST,              \
      .kind = CONF_UNSIGNED, .flags = CONF_POWER_OF_TWO, .min = 1, .max = 128,                     \
      .help = "threads that touch registered memory first; default 1")                             \
    X("pinned_reserve_segment_size_mb", NULL, pinned_reserve_segment_bytes, USED_BY_HOST,          \
      .kind = CONF_MIB, .min = 1, .help = "host memory obtained at once; default none")            \
    X("pinned_numa_node", NULL, pinned_numa_node, USED_BY_HOST, .kind = CONF_CUSTOM,               \
      .parse = parse_node,                                                                         \
      .help = "memory node of host memory: local (of the thread that "                             \
              "asks), off, or a number; default local")                                            \
    X("graph_capture_record_stream_reuse", NULL, reuses_in_capture, USED_BY_BOTH,                  \
      .kind = CONF_BOOL, .help = "reuse inside a capture once joined; default False")              \
    X("per_process_memory_fraction", NULL, memory_fraction, USED_BY_BOTH, .kind = CONF_FRACTION,   \
      .fraction_min = 0, .fraction_max = 1, .help = "share of the device at creation; default 1")  \
    X("pinned_free_catch_all", NULL, pinned_catches_all, USED_BY_HOST, .kind = CONF_BOOL,          \
      .help = "host frees never fail; default False")                                              \
    X("throw_on_cudamalloc_oom", NULL, is_rejecting, USED_BY_BOTH, .kind = CONF_BOOL,              \
      .help = "refuse ahead what per_process_memory_fraction forbids; default False")              \
    X("snapshot_on_oom", NULL, snapshot_path, USED_BY_BOTH, .kind = CONF_CUSTOM,                   \
      .parse = parse_path,                                                                         \
      .help = "write a snapshot to this path (.json, .gz; else a pickle) when a request "          \
              "fails; none: do not; default none")                                                 \
    X("policy", NULL, policy, USED_BY_BOTH, .kind = CONF_WORD, .words = policy_words,              \
      .help = "who decides where blocks go; default acre")                                         \
    X("cross_stream_reuse", NULL, reuses_across_streams, USED_BY_ACRE, .kind = CONF_BOOL,          \
      .help = "let one stream reuse what another freed; default True")                             \
    X("stitched_memory", NULL, is_stitched, USED_BY_ACRE, .kind = CONF_BOOL,                       \
      .help = "join free pages by virtual memory; fixed when the cache is created; "               \
              "default True")

static const struct conf_option options[] = {
#define OPTION_ROW(option, other, member, users, ...)                                              \
    {.name = option, .alias = other, CONF_FIELD(struct cache_conf, member), __VA_ARGS__},
    OPTIONS(OPTION_ROW)};

static const unsigned used_by[] = {
#define OPTION_USERS(option, other, member, users, ...) users,
    OPTIONS(OPTION_USERS)};

#define OPTION_COUNT (sizeof options / sizeof options[0])

static const struct conf_spec spec = {
    .options = options,
    .option_count = OPTION_COUNT,
    .target_bytes = sizeof(struct cache_conf),
    .validate = conf_validate,
};

static acre_status parse_path(const struct conf_value *value, void *target)
{
    struct cache_conf *conf = target;

    if (value->is_list || strlen(value->text) >= sizeof conf->snapshot_path)
        return conf_fail(value, "a path of at most %zu characters is expected",
                         sizeof conf->snapshot_path - 1);
    strcpy(conf->snapshot_path, strcmp(value->text, "none") == 0 ? "" : value->text);
    return ACRE_OK;
}

static acre_status parse_node(const struct conf_value *value, void *target)
{
    struct cache_conf *conf = target;
    uint64_t node = 0;

    if (strcmp(value->text, "local") == 0)
        conf->pinned_numa_node = UINT32_MAX;
    else if (strcmp(value->text, "off") == 0)
        conf->pinned_numa_node = UINT32_MAX - 1;
    else if (value->is_list || !text_parse_unsigned(value->text, strlen(value->text), &node) ||
             node >= 64)
        return conf_fail(value, "local, off or a node below 64 is expected");
    else
        conf->pinned_numa_node = (uint32_t)node;
    return ACRE_OK;
}

/* Returns to the defaults what PyTorch resets at each string. */
static void conf_reset(struct cache_conf *conf)
{
    conf->max_split_bytes = UINT64_MAX;
    conf->max_non_split_rounding_bytes = 0;
    conf->gc_threshold = 0;
    memset(conf->divisions, 0, sizeof conf->divisions);
}

void cache_conf_init(struct cache_conf *conf)
{
    *conf = (struct cache_conf){
        .large_segment_bytes = DEFAULT_LARGE_SEGMENT,
        .pinned_max_round_threshold_bytes = UINT64_MAX,
        .pinned_max_cached_bytes = UINT64_MAX,
        .pinned_num_register_threads = 1,
        .pinned_numa_node = UINT32_MAX,
        .memory_fraction = 1,
        .reuses_across_streams = true,
        .is_stitched = true,
    };
    conf_reset(conf);
}

static acre_status conf_validate(void *target, uint64_t given)
{
    struct cache_conf *conf = target;

    (void)given;
    if (conf->max_split_bytes < conf->large_segment_bytes)
        return status_fail(ACRE_ERR_CONFIG,
                           "max_split_size_mb:%llu is too small: it must be at least "
                           "large_segment_size_mb, %llu",
                           (unsigned long long)(conf->max_split_bytes / MIB),
                           (unsigned long long)(conf->large_segment_bytes / MIB));
    if (cache_conf_rounding(conf) < conf->large_segment_bytes)
        return status_fail(ACRE_ERR_CONFIG,
                           "max_non_split_rounding_mb:%llu is too small: it must be at least "
                           "large_segment_size_mb, %llu",
                           (unsigned long long)(conf->max_non_split_rounding_bytes / MIB),
                           (unsigned long long)(conf->large_segment_bytes / MIB));
    return ACRE_OK;
}

/* Sets entries [first, end) of the table. */
static void conf_fill(struct cache_conf *conf, unsigned first, unsigned end, uint64_t divisions)
{
    for (unsigned i = first; i < end; i++)
        conf->divisions[i] = (uint32_t)divisions;
}

static bool parse_power_of_two(struct conf_word word, uint64_t *out)
{
    return text_parse_unsigned(word.text, word.length, out) && is_power_of_two(*out) &&
           *out <= UINT32_MAX;
}

static acre_status parse_division_list(const struct conf_value *value, struct cache_conf *conf)
{
    struct conf_word size, steps;
    uint64_t mib, divisions;
    unsigned last = 0;
    bool is_first = true;

    for (size_t at = 0; conf_list_next(value, &at, &size, &steps);) {
        if (!text_parse_unsigned(steps.text, steps.length, &divisions) || divisions > UINT32_MAX ||
            (divisions && !is_power_of_two(divisions)))
            return conf_fail(value, "steps are 0 or a power of two");
        if (size.length == 1 && size.text[0] == '>') {
            conf_fill(conf, last + 1, CONF_DIVISION_COUNT, divisions);
            is_first = false;
            continue;
        }
        if (!parse_power_of_two(size, &mib))
            return conf_fail(value, "sizes are powers of two in MiB, or > for the rest");
        last = bit_high(mib) < CONF_DIVISION_COUNT ? bit_high(mib) : CONF_DIVISION_COUNT - 1;
        conf_fill(conf, is_first ? 0 : last, last + 1, divisions);
        is_first = false;
    }
    return ACRE_OK;
}

static acre_status parse_divisions(const struct conf_value *value, void *target)
{
    struct cache_conf *conf = target;
    struct conf_word word = {value->text, strlen(value->text)};
    uint64_t divisions;

    memset(conf->divisions, 0, sizeof conf->divisions);
    if (value->is_list)
        return parse_division_list(value, conf);
    if (!parse_power_of_two(word, &divisions))
        return conf_fail(value, "steps are a power of two, 1 for none");
    conf_fill(conf, 0, CONF_DIVISION_COUNT, divisions);
    return ACRE_OK;
}

acre_status cache_conf_read(struct cache_conf *conf, const char *source, const char *text,
                            uint64_t *out_given)
{
    struct cache_conf next = *conf;

    conf_reset(&next);
    acre_status status = conf_parse(&spec, source, text, &next, out_given);
    if (status != ACRE_OK)
        return status;
    if (next.backend != conf->backend || next.policy != conf->policy)
        return status_fail(ACRE_ERR_CONFIG,
                           "%s: backend and policy are fixed when the cache is created, here "
                           "backend:%s and policy:%s",
                           source, backend_words[conf->backend], policy_words[conf->policy]);
    *conf = next;
    return ACRE_OK;
}

/* The first variable of PyTorch's that is set. */
static const char *torch_variable(const char **out_text)
{
    static const char *const names[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF",
                                        "PYTORCH_ALLOC_CONF"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        *out_text = getenv(names[i]);
        if (*out_text)
            return names[i];
    }
    return NULL;
}

static acre_status check_fields(const acre_cache_config *config)
{
    bool is_fraction = config->memory_fraction >= 0 && config->memory_fraction <= 1;
    bool is_threshold = config->gc_threshold >= 0 && config->gc_threshold < 1;

    if (config->policy > ACRE_POLICY_ACRE)
        return status_fail(ACRE_ERR_INVALID, "acre_cache_config.policy %d names no policy",
                           (int)config->policy);
    if (!is_fraction || !is_threshold)
        return status_fail(ACRE_ERR_INVALID,
                           "acre_cache_config: memory_fraction is within [0, 1] and "
                           "gc_threshold within [0, 1), not %g and %g",
                           config->memory_fraction, config->gc_threshold);
    if (config->large_segment_bytes % MIB ||
        (config->large_segment_bytes && config->large_segment_bytes < LARGE_SEGMENT_MIN_MIB * MIB))
        return status_fail(ACRE_ERR_INVALID,
                           "acre_cache_config.large_segment_bytes is whole MiB, more than 10, "
                           "not %llu bytes",
                           (unsigned long long)config->large_segment_bytes);
    return ACRE_OK;
}

/* Applies the fields that are not 0. */
static acre_status apply_fields(struct cache_conf *conf, const acre_cache_config *config)
{
    acre_status status = check_fields(config);

    if (status != ACRE_OK)
        return status;
    if (config->policy)
        conf->policy = config->policy;
    if (config->large_segment_bytes)
        conf->large_segment_bytes = config->large_segment_bytes;
    if (config->max_split_bytes)
        conf->max_split_bytes = config->max_split_bytes;
    if (config->max_non_split_rounding_bytes)
        conf->max_non_split_rounding_bytes = config->max_non_split_rounding_bytes;
    if (config->memory_fraction > 0)
        conf->memory_fraction = config->memory_fraction;
    if (config->gc_threshold > 0)
        conf->gc_threshold = config->gc_threshold;
    conf->is_expandable |= (config->flags & ACRE_CACHE_EXPANDABLE) != 0;
    conf->is_rejecting |= (config->flags & ACRE_CACHE_REJECT_AHEAD) != 0;
    conf->drops_lock |= (config->flags & ACRE_CACHE_UNLOCKED_DEVICE) != 0;
    return conf_validate(conf, 0);
}

static acre_status apply_text(struct cache_conf *conf, const char *source, const char *text,
                              uint64_t *given, const char **out_text)
{
    uint64_t here = 0;
    acre_status status = text ? conf_parse(&spec, source, text, conf, &here) : ACRE_OK;

    if (text)
        *out_text = text;
    *given |= here;
    return status;
}

/* Whether PyTorch's switch says that pages need not be shareable. */
static bool ipc_is_off(void)
{
    const char *text = getenv("TORCH_CUDA_EXPANDABLE_SEGMENTS_IPC");

    return text && strcmp(text, "0") == 0;
}

/* All that a cache is configured by, in order. */
static acre_status conf_load(struct cache_conf *conf, const acre_cache_config *config,
                             const char **out_text, uint64_t *out_given)
{
    bool reads_environment = !config || !(config->flags & ACRE_CACHE_NO_ENVIRONMENT);
    const char *own = reads_environment ? getenv("ACRE_CONF") : NULL, *torch = NULL;
    const char *variable = reads_environment && !own ? torch_variable(&torch) : NULL;
    acre_status status;

    cache_conf_init(conf);
    *out_text = "";
    *out_given = 0;
    if (reads_environment && !own && ipc_is_off())
        conf->handle_choice = HANDLE_WORD_NONE;
    status = apply_text(conf, variable, variable ? torch : NULL, out_given, out_text);
    if (status == ACRE_OK && config)
        status = apply_fields(conf, config);
    if (status == ACRE_OK && config)
        status = apply_text(conf, "acre_cache_config.conf", config->conf, out_given, out_text);
    if (status == ACRE_OK)
        status = apply_text(conf, "ACRE_CONF", own, out_given, out_text);
    return status;
}

bool cache_conf_environment_is_async(void)
{
    struct cache_conf conf;
    const char *text;
    uint64_t given;

    return conf_load(&conf, NULL, &text, &given) == ACRE_OK && conf.backend != 0;
}

acre_status cache_conf_load(struct cache_conf *conf, const acre_cache_config *config,
                            const char **out_text, uint64_t *out_given)
{
    acre_status status = conf_load(conf, config, out_text, out_given);

    if (status != ACRE_OK)
        return status;
    if (conf->policy == ACRE_POLICY_DEFAULT)
        conf->policy = ACRE_POLICY_ACRE;
    if (conf->backend) {
        log_line(ACRE_LOG_WARN, "option backend:%s is not used: caches are native",
                 backend_words[conf->backend]);
        conf->backend = 0;
    }
    return ACRE_OK;
}

void cache_conf_report_unused(acre_policy policy, uint64_t given)
{
    static _Atomic uint64_t reported[ACRE_POLICY_ACRE + 1];

    for (size_t i = 0; i < OPTION_COUNT; i++) {
        uint64_t bit = (uint64_t)1 << i;
        if (!(given & bit) || used_by[i] & (1u << policy))
            continue;
        if (atomic_fetch_or(&reported[policy], bit) & bit)
            continue;
        log_line(ACRE_LOG_WARN, "option %s is not used by policy %s", options[i].name,
                 policy_words[policy]);
    }
}

bool cache_conf_environment_disables(void)
{
    static const char *const names[] = {"PYTORCH_NO_CUDA_MEMORY_CACHING",
                                        "PYTORCH_NO_HIP_MEMORY_CACHING"};
    bool disables = false;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *text = getenv(names[i]);
        if (!text)
            continue;
        if (strcmp(text, "1") == 0)
            disables = true;
        else if (strcmp(text, "0") != 0)
            log_line(ACRE_LOG_WARN, "%s is neither 0 nor 1 and is ignored", names[i]);
    }
    return disables;
}

int64_t cache_conf_signed(uint64_t value)
{
    return value > INT64_MAX ? -1 : (int64_t)value;
}

void cache_conf_print(const struct cache_conf *conf, struct text *out)
{
    text_add(out, "policy:%s", policy_words[conf->policy]);
    text_add(out, ",large_segment_size_mb:%llu",
             (unsigned long long)(conf->large_segment_bytes / MIB));
    if (conf->max_split_bytes != UINT64_MAX)
        text_add(out, ",max_split_size_mb:%llu,max_non_split_rounding_mb:%llu",
                 (unsigned long long)(conf->max_split_bytes / MIB),
                 (unsigned long long)(cache_conf_rounding(conf) / MIB));
    if (conf->gc_threshold > 0)
        text_add(out, ",garbage_collection_threshold:%g", conf->gc_threshold);
    text_add(out, ",per_process_memory_fraction:%g", conf->memory_fraction);
    text_add(out, ",expandable_segments:%s", conf->is_expandable ? "True" : "False");
}

/* What may be written as the value of an option. */
static const char *option_values(const struct conf_option *option)
{
    switch (option->kind) {
    case CONF_BOOL:
        return "True, False";
    case CONF_MIB:
        return "MiB";
    case CONF_FRACTION:
        return "0 to 1";
    case CONF_UNSIGNED:
        return "number";
    case CONF_WORD:
        return option->words == policy_words    ? "torch, acre"
               : option->words == backend_words ? "native, cudaMallocAsync"
                                                : "a word";
    default:
        return "see meaning";
    }
}

acre_status acre_cache_option_at(size_t index, acre_cache_option *out)
{
    acre_status status = STRUCT_CHECK("acre_cache_option_at", acre_cache_option, out);

    if (status != ACRE_OK)
        return status;
    if (index >= OPTION_COUNT)
        return status_fail(ACRE_ERR_NOT_FOUND, "there is no option %zu; there are %zu", index,
                           OPTION_COUNT);
    acre_cache_option found = {.struct_size = sizeof found,
                               .policies = used_by[index],
                               .name = options[index].name,
                               .alias = options[index].alias,
                               .values = option_values(&options[index]),
                               .help = options[index].help};
    STRUCT_GIVE(acre_cache_option, out, &found);
    return ACRE_OK;
}
