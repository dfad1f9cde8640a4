/* SPDX-License-Identifier: MIT */
#include "replay/recorded.h"

#include "base/text.h"
#include "replay/past.h"

#include <string.h>

static void add_option(struct text *text, const char *name)
{
    text_add(text, "%s%s:", text->length ? "," : "", name);
}

/* Divisions of powers of two as the list that sets them again. */
static void add_divisions(const struct snapshot *snapshot, struct text *text)
{
    const struct snap_value *table = snapshot_setting(snapshot, "roundup_power2_divisions");
    bool is_used = false;
    int count = 0;

    if (!table || table->kind != SNAP_DICT)
        return;
    for (uint32_t at = table->as.child; at != SNAP_NONE; at = snapshot->values[at].next)
        is_used |= snapshot->values[at].kind == SNAP_INTEGER && snapshot->values[at].as.integer > 1;
    if (!is_used)
        return;
    add_option(text, "roundup_power2_divisions");
    for (uint32_t at = table->as.child; at != SNAP_NONE; at = snapshot->values[at].next)
        if (snapshot->values[at].kind == SNAP_INTEGER)
            text_add(text, "%s%s:%lld", count++ ? "," : "[",
                     snapshot_string(snapshot, snapshot->values[at].key, NULL),
                     (long long)snapshot->values[at].as.integer);
    text_add(text, "]");
}

/* Options that only the string of the environment tells. */
static void add_from_string(const struct snapshot *snapshot, struct text *text)
{
    static const char *const names[] = {"large_segment_size_mb", "max_non_split_rounding_mb"};
    const struct snap_value *value = snapshot_setting(snapshot, "PYTORCH_CUDA_ALLOC_CONF");

    if (!value || value->kind != SNAP_STRING)
        return;
    const char *whole = snapshot_string(snapshot, value->as.string, NULL);
    for (int i = 0; i < 2; i++) {
        const char *found = strstr(whole, names[i]);
        size_t length = strlen(names[i]);
        if (found && found[length] == ':') {
            add_option(text, names[i]);
            text_add(text, "%.*s", (int)strspn(found + length + 1, "0123456789"),
                     found + length + 1);
        }
    }
}

/* Whether segments could grow. The setting is told as it was at the end, and not by every
 * version; a segment of mapped pages proves that it was on. */
static bool was_expandable(const struct snapshot *snapshot)
{
    const struct snap_value *setting = snapshot_setting(snapshot, "expandable_segments");
    bool is_set = setting && setting->kind == SNAP_BOOL && setting->as.integer;

    for (size_t i = 0; i < snapshot->segment_count && !is_set; i++)
        is_set = snapshot->segments[i].is_expandable;
    for (size_t i = 0; i < snapshot->entry_count && !is_set; i++)
        is_set = snapshot->entries[i].action == SNAP_SEGMENT_MAP;
    return is_set;
}

void recorded_conf(const struct snapshot *snapshot, char conf[RECORDED_CONF_MAX])
{
    const struct snap_value *split = snapshot_setting(snapshot, "max_split_size");
    struct text text;

    text_init(&text, conf, RECORDED_CONF_MAX);
    add_from_string(snapshot, &text);
    if (split && split->kind == SNAP_INTEGER && split->as.integer >= (int64_t)20 << 20 &&
        split->as.integer < INT64_MAX / 2) {
        add_option(&text, "max_split_size_mb");
        text_add(&text, "%lld", (long long)(split->as.integer >> 20));
    }
    add_divisions(snapshot, &text);
    if (was_expandable(snapshot)) {
        add_option(&text, "expandable_segments");
        text_add(&text, "True");
    }
    if (text.is_cut)
        conf[0] = '\0';
}

void recorded_measure(const struct snapshot *snapshot, uint32_t device, const struct past *past,
                      struct recorded_levels *out)
{
    const struct snap_device *trace = &snapshot->devices[device];
    uint64_t reserved = 0, requested = past->requested_bytes;

    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < past->segment_count; i++)
        reserved += past->segments[i].bytes;
    out->reserved_start = out->reserved_peak = reserved;
    out->requested_peak = requested;
    for (uint64_t i = 0; i < trace->entry_count; i++) {
        const struct snap_entry *entry = &snapshot->entries[trace->first_entry + i];
        uint64_t total, wanted;
        switch (entry->action) {
        case SNAP_SEGMENT_ALLOC:
        case SNAP_SEGMENT_MAP:
            reserved += entry->bytes;
            break;
        case SNAP_SEGMENT_FREE:
        case SNAP_SEGMENT_UNMAP:
            reserved -= entry->bytes < reserved ? entry->bytes : reserved;
            break;
        case SNAP_ALLOC:
            requested += entry->bytes;
            break;
        case SNAP_FREE_REQUESTED:
        case SNAP_FREE_COMPLETED:
            if ((entry->action == SNAP_FREE_COMPLETED) == past->has_completed)
                requested -= entry->bytes < requested ? entry->bytes : requested;
            break;
        case SNAP_OOM:
            total = reserved + entry->address;
            if (__builtin_add_overflow(requested, entry->bytes, &wanted))
                wanted = UINT64_MAX; /* a size computed wrongly, as jobs do ask for */
            out->wanted_peak = wanted > out->wanted_peak ? wanted : out->wanted_peak;
            out->device_total = total > out->device_total ? total : out->device_total;
            break;
        default:
            break;
        }
        if (reserved > out->reserved_peak)
            out->reserved_peak = reserved;
        if (requested > out->requested_peak) {
            out->requested_peak = requested;
            out->requested_peak_entry = i + 1;
        }
    }
}
