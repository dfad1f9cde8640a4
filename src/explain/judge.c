/* SPDX-License-Identifier: MIT */
#include "explain/judge.h"

#include "base/text.h"
#include "explain/remedies.h"
#include "explain/shares.h"

#include <stdlib.h>
#include <string.h>

/* ---- Ranking ------------------------------------------------------------------------------- */

/* What a setting costs: what it reserves and what it needs, added up. */
static uint64_t setting_cost(const acre_setting *setting)
{
    return setting->min_capacity_bytes ? setting->min_capacity_bytes + setting->bytes_reserved_peak
                                       : UINT64_MAX;
}

/* How much there is to set: options, then characters. */
static size_t setting_weight(const acre_setting *setting)
{
    size_t options = *setting->conf ? 1 : 0;

    for (const char *at = setting->conf; *at; at++)
        options += *at == ',';
    return options * 1000 + strlen(setting->conf);
}

static int by_cost(const void *a, const void *b)
{
    const acre_setting *left = a, *right = b;
    uint64_t cost_left = setting_cost(left), cost_right = setting_cost(right);
    size_t weight_left = setting_weight(left), weight_right = setting_weight(right);
    uint32_t late_left = left->flags & ACRE_SETTING_UNTRIED;

    if (late_left != (right->flags & ACRE_SETTING_UNTRIED))
        return late_left ? 1 : -1;
    if (cost_left != cost_right)
        return cost_left < cost_right ? -1 : 1;
    if (weight_left != weight_right)
        return weight_left < weight_right ? -1 : 1;
    return left->policy != right->policy ? (int)left->policy - (int)right->policy
                                         : strcmp(left->conf, right->conf);
}

/* Whether a is smaller than b by at least 2 %. */
static bool is_gain(uint64_t a, uint64_t b)
{
    return a < b && b - a >= b / 50;
}

/* Whether PyTorch can be set to it, and it is another setting than the present one. */
static bool is_choice(const acre_setting *setting, const acre_setting *now)
{
    return setting->policy == ACRE_POLICY_TORCH && !(setting->flags & ACRE_SETTING_PLAN) &&
           setting->min_capacity_bytes && strcmp(setting->conf, now->conf) != 0;
}

/* Whether it gains something and loses nothing. */
static bool is_better(const acre_setting *setting, const acre_setting *now)
{
    return setting->min_capacity_bytes <= now->min_capacity_bytes &&
           setting->bytes_reserved_peak <= now->bytes_reserved_peak &&
           (is_gain(setting->min_capacity_bytes, now->min_capacity_bytes) ||
            is_gain(setting->bytes_reserved_peak, now->bytes_reserved_peak));
}

/* Which settings may be recommended, from the first wish to the last resort. */
enum wish { WISH_BETTER_FITS, WISH_FITS, WISH_BETTER, WISH_COUNT };

static bool wish_holds(enum wish wish, const acre_setting *setting, const acre_setting *now)
{
    if (!is_choice(setting, now))
        return false;
    switch (wish) {
    case WISH_BETTER_FITS:
        return setting->fits == 1 && is_better(setting, now);
    case WISH_FITS:
        return now->fits == 0 && setting->fits == 1;
    default:
        return is_better(setting, now);
    }
}

/* The simplest setting within 2 % of the cheapest; settings are sorted. -1: none. */
static int64_t choose_setting(const struct judgement *judgement, const acre_setting *now)
{
    for (int wish = 0; wish < WISH_COUNT; wish++) {
        const acre_setting *first = NULL;
        int64_t best = -1;
        for (uint64_t i = 0; i < judgement->advice->setting_count; i++) {
            const acre_setting *setting = &judgement->settings[i];
            if (!wish_holds((enum wish)wish, setting, now))
                continue;
            if (!first)
                first = setting;
            if (is_gain(setting_cost(first), setting_cost(setting)))
                break;
            if (best < 0 || setting_weight(setting) < setting_weight(&judgement->settings[best]))
                best = (int64_t)i;
        }
        if (best >= 0)
            return best;
    }
    return -1;
}

/* ---- Text ------------------------------------------------------------------------------------ */

static void add_bytes(struct text *text, const char *before, uint64_t bytes, const char *after)
{
    text_add(text, "%s", before);
    text_add_bytes(text, bytes);
    text_add(text, "%s", after);
}

static void tell_shortage(struct text *text, const acre_advice *advice)
{
    bool has_failed = advice->wanted_peak_bytes > advice->bytes_requested_peak;

    text_add(text, "A true shortage: ");
    text_add_bytes_beside(text, advice->wanted_peak_bytes, advice->device_bytes);
    text_add(text, has_failed
                       ? " are wanted at once, the request that failed included, more than the "
                       : " are live at the peak, more than the ");
    text_add_bytes_beside(text, advice->device_bytes, advice->wanted_peak_bytes);
    text_add(text, " there are, and no setting can help. Less has to be live at that point");
    const acre_share *share = shares_first_known(advice->top, advice->top_count);
    if (share)
        add_bytes(text, "; the largest share, ", share->bytes, ", is of ");
    text_add(text, "%s.", share ? share->text : "");
}

/* Settings for which there was no time. */
static uint64_t count_untried(const acre_advice *advice)
{
    uint64_t count = 0;

    for (uint64_t i = 0; i < advice->setting_count; i++)
        count += (advice->settings[i].flags & ACRE_SETTING_UNTRIED) != 0;
    return count;
}

static void tell_untried(struct text *text, const acre_advice *advice)
{
    uint64_t count = count_untried(advice);

    if (count)
        text_add(text,
                 "The time was over before %llu of %llu settings were tried; one of them may need "
                 "less, which more time tells. ",
                 (unsigned long long)count, (unsigned long long)advice->setting_count);
}

static const char *setting_variable(const acre_advice *advice)
{
    return advice->allocator[0] == 't' ? "PYTORCH_NPU_ALLOC_CONF" : "PYTORCH_CUDA_ALLOC_CONF";
}

/* What the recommended setting changes, for better or worse. */
static void tell_best(struct text *text, const acre_advice *advice, const acre_setting *now,
                      const acre_setting *best)
{
    add_bytes(text, "The present settings need a device of ", now->min_capacity_bytes,
              " and reserve ");
    add_bytes(text, "", now->bytes_reserved_peak, " in ample memory. ");
    if (advice->failed_bytes && now->fits == 0 && best->fits == 1 && !is_better(best, now) &&
        best->bytes_reserved_peak <= now->bytes_reserved_peak) {
        add_bytes(text,
                  "Fragmentation: with them the request that failed finds no room in one piece. "
                  "With the line below, which needs a device of ",
                  best->min_capacity_bytes, " and reserves ");
        add_bytes(text, "", best->bytes_reserved_peak, ", it does");
    } else if (best->bytes_reserved_peak <= now->bytes_reserved_peak) {
        add_bytes(text, "Fragmentation: with the line below ", advice->saves_bytes,
                  " less are needed");
        add_bytes(text, " and ", now->bytes_reserved_peak - best->bytes_reserved_peak,
                  " less reserved");
    } else {
        add_bytes(text, "The line below is the one that fits. It needs a device of ",
                  best->min_capacity_bytes, ", but reserves ");
        add_bytes(text, "", best->bytes_reserved_peak,
                  " in ample memory, which is more than now: it gives memory back only when the "
                  "device is full");
    }
    text_add(text, ":\n  export %s=%s\n", setting_variable(advice),
             *best->conf ? best->conf : "\"\"");
}

/* The job fails in the recording and does not in the replay of its own settings. */
static void tell_other_cause(struct text *text)
{
    text_add(text, "Replayed with the present settings the request that failed is served: they "
                   "are not what stood in its way. \"acre why\" tells what did: streams, private "
                   "pools, or a limit of the process.");
}

static void tell_setting(struct text *text, const struct judgement *judgement,
                         const acre_setting *now)
{
    const acre_advice *advice = judgement->advice;
    bool has_other_cause = advice->failed_bytes && now->fits == 1 && judgement->is_recorded_device;
    const acre_setting *best =
        advice->recommended < 0 ? NULL : &advice->settings[advice->recommended];
    const acre_setting *shown = best ? best : now;

    if (best)
        tell_best(text, advice, now, best);
    else
        add_bytes(text, "The present settings need a device of ", now->min_capacity_bytes,
                  count_untried(advice)
                      ? "; no other that was tried needs or reserves noticeably less. "
                      : "; no other setting of PyTorch needs or reserves noticeably less. ");
    if (has_other_cause) {
        tell_other_cause(text);
        return;
    }
    if (shown->fits >= 0)
        add_bytes(text,
                  shown->fits ? "It fits the device of " : "Even so it does not fit the device of ",
                  advice->device_bytes, advice->failed_bytes ? "" : ".");
    if (shown->fits >= 0 && advice->failed_bytes)
        add_bytes(text, shown->fits ? ", and the request of " : " together with the request of ",
                  advice->failed_bytes, shown->fits ? " that failed is served." : " that failed.");
    if (!best && now->fits == 0)
        text_add(text, " What is live has to shrink, or be placed better than PyTorch's settings "
                       "can: see the settings above that fit.");
}

/* ---- All of it ------------------------------------------------------------------------------- */

/* What else can be done when no setting of PyTorch fits. */
static acre_status find_remedies(struct judgement *judgement, const acre_setting *now)
{
    acre_advice *advice = judgement->advice;
    const acre_setting *best =
        advice->recommended < 0 ? now : &advice->settings[advice->recommended];
    acre_why why = {.verdict = ACRE_VERDICT_SHORTAGE, .outside_bytes = -1};

    if (!judgement->state || best->fits != 0)
        return ACRE_OK;
    uint64_t wanted = advice->is_shortage ? advice->wanted_peak_bytes : best->min_capacity_bytes;
    why.missing_bytes =
        wanted > advice->device_bytes ? wanted - advice->device_bytes : advice->failed_bytes;
    why.oom_requested_bytes = why.missing_bytes;
    why.waiting_bytes = judgement->state->waiting_bytes;
    why.private_free_bytes = judgement->state->private_free_bytes;
    acre_status status =
        remedies_find(judgement->state, judgement->savings, judgement->notes, &why);
    advice->remedies = why.remedies;
    advice->remedy_count = why.remedy_count;
    return status;
}

acre_status judge_settings(struct judgement *judgement)
{
    acre_advice *advice = judgement->advice;
    acre_setting now = judgement->settings[0];
    struct text text;

    qsort(judgement->settings, advice->setting_count, sizeof *judgement->settings, by_cost);
    advice->settings = judgement->settings;
    advice->is_shortage = advice->device_bytes && advice->wanted_peak_bytes > advice->device_bytes;
    advice->recommended = advice->is_shortage ? -1 : choose_setting(judgement, &now);
    if (advice->recommended >= 0) {
        uint64_t need = advice->settings[advice->recommended].min_capacity_bytes;
        advice->saves_bytes = need < now.min_capacity_bytes ? now.min_capacity_bytes - need : 0;
    }
    text_init(&text, judgement->text, judgement->text_bytes);
    if (advice->is_shortage)
        tell_shortage(&text, advice);
    else {
        tell_untried(&text, advice);
        tell_setting(&text, judgement, &now);
    }
    advice->why = judgement->text;
    return find_remedies(judgement, &now);
}
