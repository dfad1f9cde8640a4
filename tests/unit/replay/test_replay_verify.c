/* SPDX-License-Identifier: MIT */
/* Recorded jobs are reproduced to the address: from an empty start, and from any
 * later moment, whose state has to be recovered. */
#include "format/input.h"
#include "replay/history.h"
#include "replay/past.h"
#include "replay/recorded.h"
#include "replay/script.h"
#include "replay/verify.h"
#include "tests/support/recorder.h"
#include "tests/support/t.h"

#include <dirent.h>

static struct recorder recorder;

static struct snapshot *record(int steps, uint64_t largest, uint64_t seed)
{
    recorder_begin(&recorder, "", seed);
    recorder_run(&recorder, steps, largest);
    return recorder_end(&recorder);
}

TEST(a_job_from_the_start_is_exact)
{
    for (uint64_t round = 0; round < t_count(8, 200); round++) {
        struct snapshot *snapshot = record(800, (uint64_t)64 << 20, t_seed() + round);
        acre_verify_result result;
        REQUIRE_OK(snapshot_check(snapshot));
        REQUIRE_OK(verify_device(snapshot, 0, &result));
        if (!result.is_exact)
            t_fail(__FILE__, __LINE__, "event %lld: %s", (long long)result.first_difference,
                   result.text);
        EXPECT_EQ(result.ties_by_address, 0);
        EXPECT_EQ(result.agreed, result.compared);
        EXPECT_GT(result.compared, 300);
        EXPECT_EQ(result.contradictions, 0);
        snapshot_destroy(snapshot);
    }
}

/* What was live after the first count events, by the recording itself. */
static uint64_t live_after(const struct snapshot *snapshot, uint64_t count, uint64_t *out_bytes)
{
    uint64_t live = 0;

    *out_bytes = 0;
    for (uint64_t i = 0; i < count; i++) {
        const struct snap_entry *entry = &snapshot->entries[i];
        live += entry->action == SNAP_ALLOC;
        live -= entry->action == SNAP_FREE_COMPLETED;
        *out_bytes += entry->action == SNAP_ALLOC ? entry->bytes : 0;
        *out_bytes -= entry->action == SNAP_FREE_COMPLETED ? entry->bytes : 0;
    }
    return live;
}

TEST(the_state_at_any_moment_is_recovered)
{
    uint64_t exact = 0, rounds = t_count(16, 400);

    for (uint64_t round = 0; round < rounds; round++) {
        struct snapshot *snapshot = record(800, (uint64_t)64 << 20, t_seed() + round);
        uint64_t cut = 50 + round * 37 % 900, bytes;
        while (snapshot->entries[cut].action != SNAP_ALLOC)
            cut++;
        uint64_t live = live_after(snapshot, cut, &bytes);
        recorder_forget(snapshot, cut);
        struct past past;
        REQUIRE_OK(past_recover(snapshot, 0, &past));
        EXPECT_EQ(past.block_count, live);
        EXPECT_EQ(past.requested_bytes, bytes);
        EXPECT_EQ(past.contradictions, 0);
        past_fini(&past);
        acre_verify_result result;
        REQUIRE_OK(verify_device(snapshot, 0, &result));
        EXPECT_EQ(result.start_blocks, live);
        exact += result.is_exact;
        snapshot_destroy(snapshot);
    }
    /* The age of segments and some sizes are lost: not all can be exact. */
    printf("     %llu of %llu cut histories are exact\n", (unsigned long long)exact,
           (unsigned long long)rounds);
    EXPECT_GE(exact * 2, rounds);
}

/* A job with expandable segments, recorded by the cache itself. */
static struct snapshot *record_expandable(uint64_t seed)
{
    recorder_begin(&recorder, "expandable_segments:True", seed);
    acre_snapshot *snapshot = NULL;
    acre_history_config config = {.struct_size = sizeof config,
                                  .max_entries = ACRE_HISTORY_UNBOUNDED};
    void *live[64] = {NULL};

    REQUIRE_OK(acre_cache_history_start(recorder.cache, &config));
    for (int i = 0; i < 1500; i++) {
        uint64_t at = t_random(&recorder.state) % 64, bits = t_random(&recorder.state) % 27;
        void *stream = recorder.streams[t_random(&recorder.state) % 8 == 0];
        REQUIRE_OK(acre_cache_free(recorder.cache, live[at]));
        live[at] = NULL;
        if (t_random(&recorder.state) % 3)
            REQUIRE_OK(acre_cache_alloc(recorder.cache,
                                        1 + t_random(&recorder.state) % ((uint64_t)1 << bits),
                                        stream, &live[at]));
        if (t_random(&recorder.state) % 300 == 0)
            REQUIRE_OK(acre_cache_empty(recorder.cache));
    }
    REQUIRE_OK(acre_cache_snapshot(&recorder.cache, 1, NULL, &snapshot));
    snapshot_destroy(recorder_end(&recorder));
    return (struct snapshot *)snapshot;
}

TEST(expandable_segments_are_reproduced)
{
    uint64_t cut_exact = 0;

    for (uint64_t round = 0; round < t_count(4, 100); round++) {
        struct snapshot *snapshot = record_expandable(t_seed() + round);
        acre_verify_result result;
        uint64_t maps = 0;
        for (size_t i = 0; i < snapshot->entry_count; i++)
            maps += snapshot->entries[i].action == SNAP_SEGMENT_MAP;
        EXPECT_GT(maps, 5);
        REQUIRE_OK(verify_device(snapshot, 0, &result));
        if (!result.is_exact)
            t_fail(__FILE__, __LINE__, "event %lld: %s", (long long)result.first_difference,
                   result.text);
        EXPECT_STR_EQ(result.conf, "expandable_segments:True");
        /* The same from some later moment: holes between pages included. */
        recorder_forget(snapshot, 400 + round * 97 % 800);
        acre_status status = verify_device(snapshot, 0, &result);
        if (status != ACRE_OK)
            printf("     %s\n", acre_last_error());
        EXPECT(status == ACRE_OK || status == ACRE_ERR_UNSUPPORTED);
        cut_exact += status == ACRE_OK && result.is_exact;
        snapshot_destroy(snapshot);
    }
    printf("     %llu of %llu cut histories are exact\n", (unsigned long long)cut_exact,
           (unsigned long long)t_count(4, 100));
    EXPECT_GE(cut_exact, 1);
}

/* A job on a device that is too small, with a private pool: some requests fail, others
 * are served after idle segments were given back. */
static struct snapshot *record_short_of_memory(const char *conf, uint64_t seed)
{
    recorder.device_bytes = (uint64_t)130 << 20;
    recorder_begin(&recorder, conf, seed);
    acre_snapshot *snapshot = NULL;
    acre_pool_id pool = acre_pool_id_next();
    void *live[48] = {NULL};

    REQUIRE_OK(acre_pool_create(recorder.cache, pool, NULL));
    REQUIRE_OK(acre_cache_history_start(recorder.cache, NULL));
    for (int i = 0; i < 1200; i++) {
        uint64_t at = t_random(&recorder.state) % 48, bits = 10 + t_random(&recorder.state) % 16;
        bool is_private = t_random(&recorder.state) % 6 == 0;
        REQUIRE_OK(acre_cache_free(recorder.cache, live[at]));
        live[at] = NULL;
        if (is_private)
            REQUIRE_OK(acre_pool_begin(recorder.cache, pool, NULL));
        acre_status status = acre_cache_alloc(recorder.cache,
                                              1 + t_random(&recorder.state) % ((uint64_t)1 << bits),
                                              NULL, &live[at]);
        EXPECT(status == ACRE_OK || status == ACRE_ERR_DEVICE_MEMORY);
        if (is_private)
            REQUIRE_OK(acre_pool_end(recorder.cache, pool));
    }
    REQUIRE_OK(acre_cache_snapshot(&recorder.cache, 1, NULL, &snapshot));
    snapshot_destroy(recorder_end(&recorder));
    return (struct snapshot *)snapshot;
}

TEST(failures_and_private_pools_are_reproduced)
{
    static const char *const confs[] = {"", "expandable_segments:True", "max_split_size_mb:24"};
    uint64_t ooms = 0, frees = 0;

    for (uint64_t round = 0; round < 3 * t_count(2, 40); round++) {
        struct snapshot *snapshot = record_short_of_memory(confs[round % 3], t_seed() + round);
        acre_verify_result result;
        for (size_t i = 0; i < snapshot->entry_count; i++) {
            ooms += snapshot->entries[i].action == SNAP_OOM;
            frees += snapshot->entries[i].action == SNAP_SEGMENT_FREE;
        }
        REQUIRE_OK(verify_device(snapshot, 0, &result));
        if (!result.is_exact)
            t_fail(__FILE__, __LINE__, "\"%s\": event %lld of %llu: %s", confs[round % 3],
                   (long long)result.first_difference, (unsigned long long)result.events,
                   result.text);
        snapshot_destroy(snapshot);
    }
    EXPECT_GT(ooms, 0);
    EXPECT_GT(frees, 0);
}

TEST(a_wrong_address_is_found_where_it_stands)
{
    struct snapshot *snapshot = record(300, (uint64_t)4 << 20, 7);
    acre_verify_result result;
    uint64_t at = 100;

    while (snapshot->entries[at].action != SNAP_ALLOC)
        at++;
    uint64_t address = snapshot->entries[at].address;
    for (uint64_t i = at; i < snapshot->entry_count; i++)
        if (snapshot->entries[i].address == address &&
            snapshot->entries[i].action <= SNAP_FREE_COMPLETED)
            snapshot->entries[i].address += 512;
    REQUIRE_OK(verify_device(snapshot, 0, &result));
    EXPECT_EQ(result.is_exact, 0);
    EXPECT_EQ(result.first_difference, at);
    EXPECT_HAS(result.text, "the replay placed them at");
    EXPECT_LT(result.agreed, result.compared);
    snapshot_destroy(snapshot);
}

TEST(a_segment_at_address_zero_is_refused)
{
    struct snapshot *snapshot = record(300, (uint64_t)4 << 20, 7);
    acre_verify_result result;
    uint64_t at = 0;

    while (snapshot->entries[at].action != SNAP_SEGMENT_ALLOC)
        at++;
    snapshot->entries[at].address = 0;
    EXPECT_EQ(verify_device(snapshot, 0, &result), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "at address 0");
    snapshot_destroy(snapshot);
}

TEST(a_history_becomes_a_trace_that_is_consistent)
{
    struct snapshot *snapshot = record(600, (uint64_t)8 << 20, 11);
    struct trace_history *history;
    uint64_t live = 0, frees = 0;

    recorder_forget(snapshot, 200);
    REQUIRE_OK(history_create(snapshot, 0, true, &history));
    EXPECT_EQ(history->start_count, history->past.block_count);
    static uint64_t owner[4096];
    memset(owner, 0, sizeof owner);
    for (size_t i = 0; i < history->event_count; i++) {
        const acre_trace_event *event = &history->events[i];
        REQUIRE(event->slot < history->slot_count && event->slot < 4096);
        if (event->kind == ACRE_TRACE_ALLOC) {
            EXPECT_EQ(owner[event->slot], 0);
            owner[event->slot] = event->id + 1;
            EXPECT_LT(event->stream, 3);
            live++;
        } else if (event->kind == ACRE_TRACE_FREE) {
            EXPECT_EQ(owner[event->slot], event->id + 1);
            owner[event->slot] = 0;
            live--;
            frees++;
        }
    }
    EXPECT_GT(frees, 100);
    uint64_t active = 0;
    for (size_t i = 0; i < snapshot->block_count; i++)
        active += snapshot->blocks[i].state != SNAP_INACTIVE;
    EXPECT_EQ(live, active);
    history_destroy(history);
    snapshot_destroy(snapshot);
}

TEST(settings_are_told_as_a_configuration)
{
    struct snapshot *snapshot;
    uint32_t last = SNAP_NONE, key, child = SNAP_NONE, child_last = SNAP_NONE;
    char conf[RECORDED_CONF_MAX];

    REQUIRE_OK(snapshot_create(&snapshot));
    recorded_conf(snapshot, conf);
    EXPECT_STR_EQ(conf, "");
    REQUIRE_OK(snapshot_add_string(snapshot, "max_split_size", 14, &key));
    REQUIRE_OK(snapshot_add_value(snapshot, &snapshot->settings, &last,
                                  (struct snap_value){.key = key, .kind = SNAP_INTEGER,
                                                      .as.integer = (int64_t)128 << 20}));
    REQUIRE_OK(snapshot_add_string(snapshot, "4", 1, &key));
    REQUIRE_OK(snapshot_add_value(snapshot, &child, &child_last,
                                  (struct snap_value){.key = key, .kind = SNAP_INTEGER,
                                                      .as.integer = 8}));
    REQUIRE_OK(snapshot_add_string(snapshot, "roundup_power2_divisions", 24, &key));
    REQUIRE_OK(snapshot_add_value(snapshot, &snapshot->settings, &last,
                                  (struct snap_value){.key = key, .kind = SNAP_DICT,
                                                      .as.child = child}));
    recorded_conf(snapshot, conf);
    EXPECT_STR_EQ(conf, "max_split_size_mb:128,roundup_power2_divisions:[4:8]");
    snapshot_destroy(snapshot);
}

/* The number of files that are exact never falls. */
TEST(every_shared_snapshot_with_history_is_exact)
{
    const char *folder = t_shared("snapshots");
    struct dirent *item;
    int exact = 0, compared = 0, untrusted = 0, without = 0;
    char path[4096], base[2048];

    if (!folder)
        T_SKIP("no snapshots at hand");
    snprintf(base, sizeof base, "%s", folder);
    DIR *files = opendir(base);
    REQUIRE(files);
    while ((item = readdir(files))) {
        acre_verify_result result = {.struct_size = sizeof result};
        if (!strstr(item->d_name, ".pickle.gz"))
            continue;
        snprintf(path, sizeof path, "%s/%s", base, item->d_name);
        acre_status status = acre_replay_verify(path, 0, &result);
        untrusted += status == ACRE_ERR_STATE;
        without += status == ACRE_ERR_NOT_FOUND;
        compared += status == ACRE_OK;
        exact += status == ACRE_OK && result.is_exact;
    }
    closedir(files);
    printf("     %d of %d exact, %d without history, %d not trusted\n", exact, compared, without,
           untrusted);
    EXPECT_GE(exact, 8);
    EXPECT_EQ(compared, exact);
    EXPECT_EQ(untrusted, 1);
}

T_MAIN()
