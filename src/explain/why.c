/* SPDX-License-Identifier: MIT */
/* Why memory ran out, or what held it when most was live. */
#include <acre/explain.h>

#include "base/heap.h"
#include "base/status.h"
#include "base/struct_size.h"
#include "base/text.h"
#include "explain/growth.h"
#include "explain/device_state.h"
#include "explain/remedies.h"
#include "explain/shares.h"
#include "format/snapshot/facts.h"
#include "replay/recorded.h"

#include <stdlib.h>
#include <string.h>

#define FRAGMENTED " were fragmented (free inside partly used segments)"

#define TOP_MAX 20
#define MIB     ((uint64_t)1 << 20)

/* The result and what it points at. */
struct why_whole {
    acre_why why;                 /* first: the user holds its address */
    uint64_t large_segment_bytes; /* as recorded: large_segment_size_mb */
    uint64_t allocs_after;        /* in the history behind the failure  */
    bool lacks_segments;          /* the history needs some, and the file has none */
    struct notes notes;
    char text[4096];
};

/* ---- Verdict --------------------------------------------------------------------------------- */

/* The segment that a request makes necessary, by PyTorch's rule: 2 MiB up to 1 MiB, a large
 * segment below 10 MiB, else whole 2 MiB; segments that grow do so by pages, of 2 MiB for small
 * requests and of a large segment for others. */
static uint64_t segment_bytes(const struct why_whole *whole)
{
    uint64_t request = whole->why.oom_requested_bytes, large = whole->large_segment_bytes;
    uint64_t unit = whole->why.is_expandable ? large : 2 * MIB;

    if (request <= MIB)
        return 2 * MIB;
    if (request < 10 * MIB)
        return large;
    return request > UINT64_MAX - unit ? request : (request + unit - 1) / unit * unit;
}

/* large_segment_size_mb of recorded settings, or its default. */
static uint64_t large_segment_of(const char *conf)
{
    static const char option[] = "large_segment_size_mb:";
    const char *found = strstr(conf, option);
    unsigned long long mib = found ? strtoull(found + sizeof option - 1, NULL, 10) : 0;

    return mib > 0 && mib < UINT64_MAX / MIB ? mib * MIB : 20 * MIB;
}

/* Adds up what might have served the request, the nearest first, until it is enough. */
static acre_verdict why_judge(struct why_whole *whole, const struct device_state *device_state,
                              bool is_private)
{
    acre_why *why = &whole->why;
    uint64_t request = why->oom_requested_bytes;
    uint64_t can = why->oom_device_free_bytes + device_state->free_whole_bytes;
    uint64_t shared_own = is_private ? 0 : device_state->own_free_bytes;

    if (!why->has_oom)
        return ACRE_VERDICT_NONE;
    why->missing_bytes = request > can ? request - can : 0;
    if (!whole->lacks_segments && device_state->own_largest_bytes >= request)
        return ACRE_VERDICT_UNUSED;
    if (why->oom_device_free_bytes >= segment_bytes(whole))
        return ACRE_VERDICT_LIMIT;
    if (whole->lacks_segments)
        return ACRE_VERDICT_UNKNOWN;
    can += device_state->own_free_bytes;
    if (request <= can)
        return ACRE_VERDICT_FRAGMENTATION;
    can += device_state->free_split_bytes - shared_own + device_state->waiting_bytes;
    if (request <= can)
        return ACRE_VERDICT_STREAMS;
    can += device_state->private_free_bytes - (device_state->own_free_bytes - shared_own);
    return request <= can ? ACRE_VERDICT_POOLS : ACRE_VERDICT_SHORTAGE;
}

/* ---- Text ------------------------------------------------------------------------------------ */

static void add_bytes(struct text *text, const char *before, uint64_t bytes, const char *after)
{
    text_add(text, "%s", before);
    text_add_bytes(text, bytes);
    text_add(text, "%s", after);
}

/* The parts of what was held, those of nothing left out: they add up. */
static void tell_parts(struct text *text, const acre_why *why)
{
    const struct {
        uint64_t bytes;
        const char *after;
    } parts[] = {{why->waiting_bytes, " waited for other streams"},
                 {why->free_split_bytes, FRAGMENTED},
                 {why->free_whole_bytes, " were free in whole segments"},
                 {why->private_free_bytes, " were free in private pools"}};
    size_t left = 0;

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        left += parts[i].bytes > 0;
    text_add(text, ", of which ");
    text_add_bytes_beside(text, why->allocated_bytes, why->reserved_bytes);
    text_add(text, " were in use");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].bytes)
            add_bytes(text, --left ? ", " : " and ", parts[i].bytes, parts[i].after);
}

/* What was held, and what of it was in use. A history that begins before the snapshot, or one
 * without its segments, may tell of more than is there. */
static void tell_held(struct text *text, const struct why_whole *whole)
{
    const acre_why *why = &whole->why;
    uint64_t live = why->allocated_bytes + why->waiting_bytes;

    if (whole->lacks_segments) {
        add_bytes(text,
                  "what the allocator held is not known, for the file has no segments; by its "
                  "history ",
                  live, " or more were in use");
        return;
    }
    if (live > why->reserved_bytes) {
        add_bytes(text, "the history tells of ", live, " in use, more than the ");
        text_add_bytes_beside(text, why->reserved_bytes, live);
        text_add(text, " in the segments of the snapshot, which is not whole");
        return;
    }
    text_add(text, why->reserved_bytes ? "the allocator held " : "the allocator held nothing");
    if (why->reserved_bytes)
        text_add_bytes(text, why->reserved_bytes);
    if (why->reserved_bytes && why->allocated_bytes == why->reserved_bytes)
        text_add(text, ", all of it in use");
    else if (why->reserved_bytes)
        tell_parts(text, why);
}

static void tell_request(struct text *text, const struct why_whole *whole)
{
    const acre_why *why = &whole->why;

    add_bytes(text, "A request of ", why->oom_requested_bytes, " failed");
    if (*why->oom_stack)
        text_add(text, ", made by %s", why->oom_stack);
    add_bytes(text, ". The device had ", why->oom_device_free_bytes, " free; ");
    tell_held(text, whole);
    if (why->largest_free_bytes && !whole->lacks_segments)
        add_bytes(text, ", at most ", why->largest_free_bytes, " in one piece");
    text_add(text, ". ");
}

/* A request that is larger than all there is: a mistake in a shape more often than not. */
static bool is_oversized(const acre_why *why)
{
    uint64_t all = why->reserved_bytes + why->oom_device_free_bytes;

    return why->oom_requested_bytes > all && all >= why->reserved_bytes;
}

static void tell_shortage(struct text *text, const acre_why *why)
{
    const acre_share *share = shares_first_known(why->top, why->top_count);

    if (is_oversized(why)) {
        add_bytes(text, "The request alone is larger than all the memory there is, ",
                  why->reserved_bytes + why->oom_device_free_bytes,
                  ": a true shortage, which no setting cures. Look at the shapes in that line "
                  "first.");
        return;
    }
    add_bytes(text,
              "All that was free together was not enough: a true shortage, which no setting "
              "cures. ",
              why->missing_bytes, " more had to be free. Less has to be live at this point");
    if (share)
        add_bytes(text, "; the largest share, ", share->bytes, ", is of ");
    text_add(text, "%s.", share ? share->text : "");
}

/* The variable of the environment that holds the allocator's settings. */
static const char *why_variable(const acre_why *why)
{
    return why->allocator[0] == 't' ? "PYTORCH_NPU_ALLOC_CONF" : "PYTORCH_CUDA_ALLOC_CONF";
}

static void tell_verdict(struct text *text, const acre_why *why)
{
    switch (why->verdict) {
    case ACRE_VERDICT_FRAGMENTATION:
        text_add(text, "Enough was free, but not in one piece: fragmentation.");
        if (!why->is_expandable)
            text_add(text, " %s=expandable_segments:True may help%s.", why_variable(why),
                     why->has_history ? "; \"acre advise\" compares the settings on this recording"
                                      : "");
        break;
    case ACRE_VERDICT_STREAMS:
        add_bytes(text, "What was free belonged to other streams, or waited for them (",
                  why->waiting_bytes, ").");
        break;
    case ACRE_VERDICT_POOLS:
        add_bytes(text, "What was free belonged to private pools, which hold ",
                  why->private_pool_bytes, ".");
        break;
    case ACRE_VERDICT_LIMIT:
        text_add(text,
                 "The device itself had enough free, so neither fragmentation nor a shortage is "
                 "the reason: look for torch.cuda.set_per_process_memory_fraction(), for a limit "
                 "of a container, or for another process that held memory at that moment.");
        break;
    case ACRE_VERDICT_UNUSED:
        text_add(text,
                 "A free piece of the stream was large enough, so this is not fragmentation: the "
                 "request came from a private pool or a graph capture, which may not use it, or "
                 "max_split_size_mb forbids to split the piece, or memory was freed between the "
                 "failure and the snapshot.");
        break;
    case ACRE_VERDICT_SHORTAGE:
        tell_shortage(text, why);
        break;
    case ACRE_VERDICT_UNKNOWN:
        text_add(text,
                 "Whether too much was live or what was free lay in pieces cannot be told without "
                 "the segments: dump the whole snapshot, with torch.cuda.memory._dump_snapshot(), "
                 "when the request fails.");
        break;
    case ACRE_VERDICT_NONE:
        break;
    }
}

static void tell_peak(struct text *text, const struct why_whole *whole)
{
    const acre_why *why = &whole->why;

    text_add(text,
             why->has_history ? "No request failed. When most was live, after event %llu, "
                              : "No history was recorded; when the snapshot was taken, ",
             (unsigned long long)why->event);
    tell_held(text, whole);
    text_add(text, ".");
    const acre_share *share = shares_first_known(why->top, why->top_count);
    if (share)
        add_bytes(text, " The largest share with a stack, ", share->bytes, ", is of ");
    if (share)
        text_add(text, "%s.", share->text);
    if (why->reserved_bytes && why->free_split_bytes > why->reserved_bytes / 5)
        text_add(text,
                 why->has_history
                     ? " More than a fifth of what is held is free but split: \"acre advise\" "
                       "may find a setting that needs less."
                     : " More than a fifth of what is held is free but split.");
}

/* What is not known, and how to record it the next time. */
static void tell_gaps(struct text *text, const acre_why *why)
{
    uint64_t live = why->allocated_bytes + why->waiting_bytes;

    if (why->stackless_bytes <= live / 2 || live == 0)
        return;
    add_bytes(text, " ", why->stackless_bytes,
              " of what is live has no stack: it was allocated "
              "before recording began, or stacks were off. ");
    text_add(text, why->has_history
                       ? "Start recording before the model is made: "
                         "torch.cuda.memory._record_memory_history(stacks=\"all\")"
                       : "Record with torch.cuda.memory._record_memory_history(stacks=\"all\") "
                         "before the model is made, and dump the snapshot with "
                         "torch.cuda.memory._dump_snapshot(\"job.pickle\")");
    text_add(text, "; a cache of Acre records them with record_history(stacks=\"all\") in Python, "
                   "acre_history_config.level in C.");
}

static void tell_growth(struct text *text, const acre_why *why)
{
    if (why->growth_count == 1)
        text_add(text, " What is allocated by %s", why->growth[0].text);
    else
        text_add(text, " What is allocated by %llu stacks, the most of it by %s,",
                 (unsigned long long)why->growth_count, why->growth[0].text);
    text_add(text, " grows from iteration to iteration: look for tensors that are kept.");
}

/* Whether a failure was caught: the job allocated on, beyond what an exception handler does. */
static void tell_rest(struct text *text, const struct why_whole *whole)
{
    if (whole->allocs_after > 16)
        text_add(text, " The job caught this failure and made %llu more allocations.",
                 (unsigned long long)whole->allocs_after);
}

static void why_tell(struct why_whole *whole)
{
    acre_why *why = &whole->why;
    struct text text;

    text_init(&text, whole->text, sizeof whole->text);
    if (why->has_oom) {
        tell_request(&text, whole);
        tell_verdict(&text, why);
        tell_rest(&text, whole);
    } else {
        tell_peak(&text, whole);
    }
    if (why->outside_bytes > (int64_t)1 << 30)
        add_bytes(&text, " Outside the allocator ", (uint64_t)why->outside_bytes,
                  " of the device "
                  "are in use: other processes, communication buffers, the driver.");
    if (why->growth_count)
        tell_growth(&text, why);
    tell_gaps(&text, why);
    if (why->allocator[0] != 'P')
        text_add(&text,
                 " The snapshot is of Ascend's torch_npu, whose blocks hold 32 bytes more than "
                 "was asked for; its settings go into %s.",
                 why_variable(why));
    why->text = whole->text;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static acre_status add_growth(const struct snapshot *snapshot, struct why_whole *whole)
{
    struct growth found[GROWTH_MAX];
    char text[STACK_TEXT_MAX];
    size_t count;
    acre_status status = growth_find(snapshot, whole->why.device, found, &count);

    if (status != ACRE_OK)
        return status;
    acre_growth *growth = notes_take(&whole->notes, (count + 1) * sizeof *growth);
    for (size_t i = 0; growth && i < count; i++) {
        growth[i] = (acre_growth){.bytes_from = found[i].bytes_from,
                                  .bytes_to = found[i].bytes_to,
                                  .count_from = found[i].count_from,
                                  .count_to = found[i].count_to};
        growth[i].text =
            notes_text(&whole->notes, "%s",
                       device_state_stack_text(snapshot, found[i].stack, text, sizeof text));
        if (!growth[i].text)
            return ACRE_ERR_HOST_MEMORY;
    }
    whole->why.growth = growth;
    whole->why.growth_count = count;
    return growth ? ACRE_OK : ACRE_ERR_HOST_MEMORY;
}

static bool request_is_private(const struct snapshot *snapshot, const struct snap_entry *request)
{
    uint32_t pool = request ? snapshot_origin(snapshot, request)->pool : SNAP_NONE;

    return pool != SNAP_NONE && (snapshot->pools[pool].id[0] || snapshot->pools[pool].id[1]);
}

static void why_fill(acre_why *why, const struct device_state *device_state, uint64_t device_bytes)
{
    why->allocated_bytes = device_state->allocated_bytes;
    why->requested_bytes = device_state->requested_bytes;
    why->reserved_bytes = device_state->reserved_bytes;
    why->largest_free_bytes = device_state->largest_free_bytes;
    why->free_split_bytes = device_state->free_split_bytes;
    why->free_whole_bytes = device_state->free_whole_bytes;
    why->waiting_bytes = device_state->waiting_bytes;
    why->private_pool_bytes = device_state->private_bytes;
    why->private_free_bytes = device_state->private_free_bytes;
    why->stackless_bytes = device_state->stackless_bytes;
    why->outside_bytes = -1;
    if (device_bytes && why->has_oom) {
        uint64_t known = why->oom_device_free_bytes + why->reserved_bytes;
        why->outside_bytes = device_bytes > known ? (int64_t)(device_bytes - known) : 0;
    }
}

/* Finds the moment: the last request that failed, else when most was live. */
static acre_status why_begin(const struct snapshot *snapshot, struct why_whole *whole,
                             const struct snap_entry **out_request)
{
    acre_why *why = &whole->why;
    char text[STACK_TEXT_MAX], conf[RECORDED_CONF_MAX];

    recorded_conf(snapshot, conf);
    why->is_expandable = strstr(conf, "expandable_segments:True") != NULL;
    whole->large_segment_bytes = large_segment_of(conf);
    why->device_count = (uint32_t)snapshot->device_count;
    why->allocator = facts_padding(snapshot) ? "torch_npu" : "PyTorch";
    why->has_history = facts_has_history(snapshot, why->device);
    why->has_oom = facts_last_oom(snapshot, why->device, &why->event);
    why->oom_stack = "";
    *out_request = NULL;
    if (!why->has_oom)
        return device_state_of_peak(snapshot, why->device, &why->event);
    const struct snap_entry *entry = &snapshot_history(snapshot, why->device)[why->event];
    for (uint64_t i = why->event; i < snapshot->devices[why->device].entry_count; i++)
        whole->allocs_after += entry[i - why->event].action == SNAP_ALLOC;
    why->oom_requested_bytes = entry->bytes;
    why->oom_device_free_bytes = entry->address;
    *out_request = entry;
    if (entry->stack != SNAP_NONE)
        why->oom_stack =
            notes_text(&whole->notes, "%s",
                       device_state_stack_text(snapshot, entry->stack, text, sizeof text));
    return why->oom_stack ? ACRE_OK : ACRE_ERR_HOST_MEMORY;
}

static acre_status why_explain(const struct snapshot *snapshot, const acre_why_config *config,
                               struct why_whole *whole)
{
    acre_why *why = &whole->why;
    struct device_state *device_state = NULL;
    const struct snap_entry *request;
    struct savings savings;
    uint32_t wanted = config->device < 0 ? FACTS_CHOOSE : (uint32_t)config->device;
    acre_status status =
        facts_device(snapshot, wanted, FACTS_STATE, &why->device, &why->device_reason);

    if (status == ACRE_OK)
        status = why_begin(snapshot, whole, &request);
    if (status == ACRE_OK)
        status = device_state_create(snapshot, why->device, why->event, request, &device_state);
    if (status == ACRE_OK)
        status = shares_of_stacks(snapshot, device_state, TOP_MAX, &whole->notes, &why->top,
                                  &why->top_count);
    if (status == ACRE_OK)
        status = shares_of_sizes(device_state, &whole->notes, &why->sizes, &why->size_count);
    if (status == ACRE_OK)
        status = shares_of_categories(device_state, &whole->notes, &why->categories,
                                      &why->category_count);
    if (status == ACRE_OK)
        status = add_growth(snapshot, whole);
    if (status == ACRE_OK) {
        whole->lacks_segments = device_state->past.lacks_segments;
        why_fill(why, device_state, config->device_bytes);
        why->verdict = why_judge(whole, device_state, request_is_private(snapshot, request));
        status = savings_compute(snapshot, why->device, device_state, &whole->notes, &savings);
    }
    if (status == ACRE_OK)
        status = remedies_find(device_state, &savings, &whole->notes, why);
    if (status == ACRE_OK)
        why_tell(whole);
    device_state_destroy(device_state);
    return status;
}

acre_status acre_why_create(const acre_snapshot *snapshot, const acre_why_config *config,
                            acre_why **out)
{
    acre_why_config own = {.struct_size = sizeof own, .device = -1};
    acre_status status = ACRE_OK;

    if (!snapshot || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_why_create: %s is NULL",
                           snapshot ? "out" : "snapshot");
    if (config)
        status = STRUCT_TAKE("acre_why_create", acre_why_config, config, &own);
    if (status != ACRE_OK)
        return status;
    struct why_whole *whole = heap_zalloc(sizeof *whole);
    if (!whole)
        return ACRE_ERR_HOST_MEMORY;
    whole->why.struct_size = sizeof whole->why;
    status = why_explain((const struct snapshot *)snapshot, &own, whole);
    if (status != ACRE_OK) {
        acre_why_destroy(&whole->why);
        return status;
    }
    *out = &whole->why;
    return ACRE_OK;
}

void acre_why_destroy(acre_why *why)
{
    struct why_whole *whole = (struct why_whole *)why;

    if (!whole)
        return;
    notes_fini(&whole->notes);
    heap_free(whole);
}
