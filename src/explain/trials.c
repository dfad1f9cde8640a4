/* SPDX-License-Identifier: MIT */
#include "explain/trials.h"

#include <string.h>

#define MIB ((uint64_t)1 << 20)

/* What is tried besides the recorded settings. */
static const struct trial {
    const char *conf;
    acre_policy policy;
    uint32_t flags;
    const char *note;
} trials[] = {
    {"", ACRE_POLICY_TORCH, 0, "PyTorch's defaults"},
    {"expandable_segments:True", ACRE_POLICY_TORCH, 0, ""},
    {"max_split_size_mb:32", ACRE_POLICY_TORCH, 0, ""},
    {"max_split_size_mb:64", ACRE_POLICY_TORCH, 0, ""},
    {"max_split_size_mb:128", ACRE_POLICY_TORCH, 0, ""},
    {"max_split_size_mb:256", ACRE_POLICY_TORCH, 0, ""},
    {"max_split_size_mb:512", ACRE_POLICY_TORCH, 0, ""},
    {"roundup_power2_divisions:4", ACRE_POLICY_TORCH, 0, ""},
    {"roundup_power2_divisions:8", ACRE_POLICY_TORCH, 0, ""},
    {"roundup_power2_divisions:16", ACRE_POLICY_TORCH, 0, ""},
    {"garbage_collection_threshold:0.6,per_process_memory_fraction:0.98", ACRE_POLICY_TORCH, 0,
     "collects only below a memory fraction"},
    {"garbage_collection_threshold:0.8,per_process_memory_fraction:0.98", ACRE_POLICY_TORCH, 0,
     "collects only below a memory fraction"},
    {"max_split_size_mb:128,roundup_power2_divisions:8", ACRE_POLICY_TORCH, 0, ""},
    {"expandable_segments:True,roundup_power2_divisions:8", ACRE_POLICY_TORCH, 0, ""},
    {"expandable_segments:True,max_split_size_mb:128", ACRE_POLICY_TORCH, 0, ""},
    {"", ACRE_POLICY_ACRE, 0, "this library's own policy"},
    {"", ACRE_POLICY_DEFAULT, ACRE_SETTING_PLAN,
     "placed ahead, streams apart: for jobs that repeat exactly"},
};

/* Settings that decide as others do when no plain segment is as large as the option says. */
static const struct twin {
    const char *conf, *other;
    uint64_t whole_mib; /* segments from here on stay whole */
} twins[] = {
    {"max_split_size_mb:32", "", 32},
    {"max_split_size_mb:64", "", 64},
    {"max_split_size_mb:128", "", 128},
    {"max_split_size_mb:256", "", 256},
    {"max_split_size_mb:512", "", 512},
    {"max_split_size_mb:128,roundup_power2_divisions:8", "roundup_power2_divisions:8", 128},
};

_Static_assert(sizeof trials / sizeof *trials < TRIALS_MAX, "room for the recorded settings");

/* Whether keeping segments whole from so many MiB on concerns none: a segment is of 20 MiB, or
 * of one request in whole 2 MiB, to which eighths between powers of two add an eighth. */
static bool is_whole_for_none(uint64_t largest, uint64_t whole_mib)
{
    return largest < UINT64_MAX / 2 && whole_mib > 22 &&
           largest + largest / 8 < (whole_mib - 2) * MIB;
}

/* The setting of policy torch with these options, or NULL. */
static const acre_setting *trial_find(const acre_setting *settings, size_t count, const char *conf)
{
    for (size_t i = 0; i < count; i++)
        if (settings[i].policy == ACRE_POLICY_TORCH && strcmp(settings[i].conf, conf) == 0)
            return &settings[i];
    return NULL;
}

void trial_leave(acre_setting *setting)
{
    setting->flags |= ACRE_SETTING_UNTRIED;
    setting->note = "not tried: the time was over";
    setting->bytes_reserved_peak = setting->min_capacity_bytes = 0;
    setting->fits = -1;
}

size_t trials_list(const char *recorded, acre_setting settings[TRIALS_MAX])
{
    size_t count = 0;

    if (*recorded)
        settings[count++] = (acre_setting){.conf = recorded,
                                           .policy = ACRE_POLICY_TORCH,
                                           .note = "as recorded",
                                           .flags = ACRE_SETTING_RECORDED};
    for (size_t i = 0; i < sizeof trials / sizeof *trials; i++) {
        if (*recorded && trials[i].policy == ACRE_POLICY_TORCH &&
            strcmp(trials[i].conf, recorded) == 0)
            continue;
        settings[count++] = (acre_setting){.conf = trials[i].conf,
                                           .note = trials[i].note,
                                           .policy = trials[i].policy,
                                           .flags = trials[i].flags};
    }
    settings[0].flags |= ACRE_SETTING_RECORDED;
    return count;
}

void trials_find_alike(const acre_setting *settings, size_t count, uint64_t largest,
                       const acre_setting *alike[TRIALS_MAX])
{
    for (size_t i = 0; i < sizeof twins / sizeof *twins; i++) {
        const acre_setting *own = trial_find(settings, count, twins[i].conf);
        const acre_setting *other = trial_find(settings, count, twins[i].other);
        if (own && own != settings && other && is_whole_for_none(largest, twins[i].whole_mib))
            alike[own - settings] = other;
    }
}

void trials_copy_alike(acre_setting *settings, size_t count, const acre_setting *const *alike)
{
    for (size_t i = 0; i < count; i++) {
        if (!alike[i])
            continue;
        settings[i].bytes_reserved_peak = alike[i]->bytes_reserved_peak;
        settings[i].min_capacity_bytes = alike[i]->min_capacity_bytes;
        settings[i].fits = alike[i]->fits;
        if (alike[i]->flags & ACRE_SETTING_UNTRIED)
            trial_leave(&settings[i]);
    }
}
