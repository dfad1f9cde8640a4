/* SPDX-License-Identifier: MIT */
/* Why memory ran out, or what held it when most was live. */
#include <acre/explain.h>

#include "base/heap.h"
#include "base/status.h"
#include "base/struct_size.h"
#include "base/text.h"
#include "explain/growth.h"
#include "explain/device_state.h"
#include "explain/shares.h"

#define TOP_MAX 20

/* The result and what it points at. */
struct whole {
    acre_why why; /* first: the user holds its address */
    struct notes notes;
    char text[4096];
};

/* ---- Which device, which moment ----------------------------------------------------------- */

/* The last request that failed on a device; false: none did. */
static bool find_oom(const struct snapshot *snapshot, uint32_t device, uint64_t *out_event)
{
    const struct snap_device *trace = &snapshot->devices[device];

    for (uint64_t i = trace->entry_count; i-- > 0;)
        if (snapshot->entries[trace->first_entry + i].action == SNAP_OOM) {
            *out_event = i;
            return true;
        }
    return false;
}

static uint64_t reserved_of(const struct snapshot *snapshot, uint32_t device)
{
    uint64_t bytes = 0;

    for (size_t i = 0; i < snapshot->segment_count; i++)
        if (snapshot->segments[i].device == device)
            bytes += snapshot->segments[i].bytes;
    return bytes;
}

static acre_status choose_device(const struct snapshot *snapshot, int32_t wanted, uint32_t *out)
{
    uint64_t most = 0, event;

    if (wanted >= 0 && (size_t)wanted < snapshot->device_count) {
        *out = (uint32_t)wanted;
        return ACRE_OK;
    }
    if (wanted >= 0 || snapshot->device_count == 0)
        return status_fail(ACRE_ERR_NOT_FOUND, "there is no device %d in the snapshot; it has %zu",
                           wanted, snapshot->device_count);
    *out = 0;
    for (uint32_t i = 0; i < snapshot->device_count; i++) {
        if (find_oom(snapshot, i, &event)) {
            *out = i;
            return ACRE_OK;
        }
        if (reserved_of(snapshot, i) > most) {
            most = reserved_of(snapshot, i);
            *out = i;
        }
    }
    return ACRE_OK;
}

/* ---- Verdict --------------------------------------------------------------------------------- */

static acre_verdict why_judge(const acre_why *why, const struct device_state *device_state)
{
    uint64_t can = why->oom_device_free_bytes + device_state->free_whole_bytes;
    uint64_t other = device_state->free_split_bytes - device_state->free_stream_bytes;

    if (!why->has_oom)
        return ACRE_VERDICT_NONE;
    if (why->oom_requested_bytes <= can + device_state->free_stream_bytes)
        return ACRE_VERDICT_FRAGMENTATION;
    can += device_state->free_stream_bytes + other + device_state->waiting_bytes;
    if (why->oom_requested_bytes <= can)
        return ACRE_VERDICT_STREAMS;
    if (why->oom_requested_bytes <= can + device_state->private_free_bytes)
        return ACRE_VERDICT_POOLS;
    return ACRE_VERDICT_SHORTAGE;
}

static void add_bytes(struct text *text, const char *before, uint64_t bytes, const char *after)
{
    text_add(text, "%s", before);
    text_add_bytes(text, bytes);
    text_add(text, "%s", after);
}

static void tell_request(struct text *text, const acre_why *why)
{
    add_bytes(text, "A request of ", why->oom_requested_bytes, " failed");
    add_bytes(text, ". The device had ", why->oom_device_free_bytes, " free; ");
    add_bytes(text, "the allocator held ", why->reserved_bytes, ", of which ");
    add_bytes(text, "", why->allocated_bytes, " were in use");
    add_bytes(text, " and ", why->free_split_bytes, " free between blocks in use, ");
    add_bytes(text, "at most ", why->largest_free_bytes, " in one piece. ");
}

static void tell_remedy(struct text *text, const acre_why *why)
{
    const acre_share *share;

    switch (why->verdict) {
    case ACRE_VERDICT_FRAGMENTATION:
        text_add(text,
                 "Enough was free, but not in one piece: fragmentation. Try "
                 "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True; \"acre advise\" compares the "
                 "settings on this recording.");
        break;
    case ACRE_VERDICT_STREAMS:
        add_bytes(text, "What was free belonged to other streams, or waited for them (",
                  why->waiting_bytes,
                  "): synchronise the streams that used it before this "
                  "point, or allocate on the stream that frees.");
        break;
    case ACRE_VERDICT_POOLS:
        add_bytes(text, "What was free belonged to private pools, which hold ",
                  why->private_pool_bytes,
                  ": free graphs and pools that are not needed any "
                  "more, or let them share one pool.");
        break;
    case ACRE_VERDICT_SHORTAGE:
        text_add(text, "All that was free together was not enough: a true shortage, which no "
                       "setting cures. Less has to be live at this point");
        share = shares_first_known(why->top, why->top_count);
        if (share)
            add_bytes(text, "; the largest share, ", share->bytes, ", is of ");
        text_add(text, "%s.", share ? share->text : "");
        break;
    case ACRE_VERDICT_NONE:
        break;
    }
}

static void tell_peak(struct text *text, const acre_why *why)
{
    text_add(text,
             why->has_history ? "No request failed. When most was live, after event %llu, "
                              : "No history was recorded; when the snapshot was taken, ",
             (unsigned long long)why->event);
    add_bytes(text, "the allocator held ", why->reserved_bytes, ", of which ");
    add_bytes(text, "", why->allocated_bytes, " were in use");
    add_bytes(text, " and ", why->free_split_bytes, " free between blocks in use. ");
    const acre_share *share = shares_first_known(why->top, why->top_count);
    if (share)
        add_bytes(text, "The largest share with a stack, ", share->bytes, ", is of ");
    if (share)
        text_add(text, "%s. ", share->text);
    if (why->reserved_bytes && why->free_split_bytes > why->reserved_bytes / 5)
        text_add(text, "More than a fifth of what is held is free but split: \"acre advise\" may "
                       "find a setting that needs less.");
}

static void why_tell(struct whole *whole)
{
    acre_why *why = &whole->why;
    struct text text;

    text_init(&text, whole->text, sizeof whole->text);
    if (why->has_oom)
        tell_request(&text, why);
    else
        tell_peak(&text, why);
    if (why->has_oom)
        tell_remedy(&text, why);
    if (why->outside_bytes > (int64_t)1 << 30)
        add_bytes(&text, " Outside the allocator ", (uint64_t)why->outside_bytes,
                  " of the device "
                  "are in use: other processes, communication buffers, the driver.");
    if (why->growth_count)
        text_add(&text,
                 " Memory of %llu stack%s grows from iteration to iteration, the most by "
                 "%s: look for tensors that are kept.",
                 (unsigned long long)why->growth_count, why->growth_count > 1 ? "s" : "",
                 why->growth[0].text);
    why->text = whole->text;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static acre_status add_growth(const struct snapshot *snapshot, struct whole *whole)
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

static void why_fill(struct whole *whole, const struct device_state *device_state,
                     uint64_t device_bytes)
{
    acre_why *why = &whole->why;

    why->allocated_bytes = device_state->allocated_bytes;
    why->requested_bytes = device_state->requested_bytes;
    why->reserved_bytes = device_state->reserved_bytes;
    why->largest_free_bytes = device_state->largest_free_bytes;
    why->free_split_bytes = device_state->free_split_bytes;
    why->waiting_bytes = device_state->waiting_bytes;
    why->private_pool_bytes = device_state->private_bytes;
    why->outside_bytes = -1;
    if (device_bytes && why->has_oom) {
        uint64_t known = why->oom_device_free_bytes + why->reserved_bytes;
        why->outside_bytes = device_bytes > known ? (int64_t)(device_bytes - known) : 0;
    }
    why->verdict = why_judge(why, device_state);
}

static acre_status why_explain(const struct snapshot *snapshot, const acre_why_config *config,
                               struct whole *whole)
{
    acre_why *why = &whole->why;
    struct device_state *device_state = NULL;
    uint64_t stream = 0;
    acre_status status = choose_device(snapshot, config->device, &why->device);

    if (status != ACRE_OK)
        return status;
    const struct snap_device *trace = &snapshot->devices[why->device];
    why->has_history = trace->entry_count > 1;
    why->has_oom = find_oom(snapshot, why->device, &why->event);
    if (why->has_oom) {
        const struct snap_entry *entry = &snapshot->entries[trace->first_entry + why->event];
        why->oom_requested_bytes = entry->bytes;
        why->oom_device_free_bytes = entry->address;
        stream = entry->stream;
    } else {
        status = device_state_of_peak(snapshot, why->device, &why->event);
    }
    if (status == ACRE_OK)
        status = device_state_create(snapshot, why->device, why->event, stream, &device_state);
    if (status == ACRE_OK)
        status = shares_of_stacks(snapshot, device_state, TOP_MAX, &whole->notes, &why->top,
                                  &why->top_count);
    if (status == ACRE_OK)
        status = shares_of_sizes(device_state, &whole->notes, &why->sizes, &why->size_count);
    if (status == ACRE_OK)
        status = add_growth(snapshot, whole);
    if (status == ACRE_OK) {
        why_fill(whole, device_state, config->device_bytes);
        why_tell(whole);
    }
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
    struct whole *whole = heap_zalloc(sizeof *whole);
    if (!whole)
        return ACRE_ERR_HOST_MEMORY;
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
    struct whole *whole = (struct whole *)why;

    if (!whole)
        return;
    notes_fini(&whole->notes);
    heap_free(whole);
}
