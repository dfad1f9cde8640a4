/* SPDX-License-Identifier: MIT */
/* History under policy acre: lanes write notes without a lock, several threads at
 * once, and what is read is in order and complete as far as the bound goes. */
#include "cache/cache.h"
#include "format/snapshot/snapshot.h"
#include "tests/support/lab.h"

#include <acre/history.h>

#include <pthread.h>

enum { THREADS = 4, KEPT = 1000 };

static void open_acre(struct lab *lab)
{
    struct fake_config device = {.completes_at_once = true};
    acre_cache_config config = {.struct_size = sizeof config, .policy = ACRE_POLICY_ACRE,
                                .flags = ACRE_CACHE_NO_ENVIRONMENT};

    lab_open_with(lab, &device, &config);
}

static void start(struct lab *lab, uint64_t max)
{
    acre_history_config config = {.struct_size = sizeof config, .max_entries = max};

    REQUIRE_OK(acre_cache_history_start(lab->cache, &config));
}

/* Entries are in order of time, and of one address they alternate: alloc,
 * free_requested, free_completed, alloc. */
static void check_order(const acre_history *history, bool is_whole)
{
    for (uint64_t i = 0; i < history->entry_count; i++) {
        const acre_history_entry *entry = &history->entries[i];
        acre_action before = ACRE_ACTION_FREE_COMPLETED;
        bool is_known = is_whole && i < 400; /* so far back is looked for the one before */
        REQUIRE(i == 0 || history->entries[i - 1].time_us <= entry->time_us);
        if (entry->action > ACRE_ACTION_FREE_COMPLETED)
            continue;
        for (uint64_t k = i; k-- > 0 && i - k < 400;)
            if (history->entries[k].address == entry->address &&
                history->entries[k].action <= ACRE_ACTION_FREE_COMPLETED) {
                before = history->entries[k].action;
                is_known = true;
                break;
            }
        if (is_known)
            REQUIRE_EQ(entry->action, (before + 1) % 3);
    }
}

TEST(notes_of_one_thread_are_whole_and_in_order)
{
    struct lab lab;
    acre_history *history;

    open_acre(&lab);
    start(&lab, ACRE_HISTORY_UNBOUNDED);
    for (int i = 0; i < 3000; i++) {
        void *a = lab_alloc(&lab, 512 + (size_t)(i % 7) * 512);
        lab_free(&lab, a);
    }
    REQUIRE_OK(acre_cache_history_create(lab.cache, &history));
    uint64_t counts[ACRE_ACTION_COUNT] = {0};
    for (uint64_t i = 0; i < history->entry_count; i++)
        counts[history->entries[i].action]++;
    EXPECT_EQ(counts[ACRE_ACTION_ALLOC], 3000);
    EXPECT_EQ(counts[ACRE_ACTION_FREE_REQUESTED], 3000);
    EXPECT_EQ(counts[ACRE_ACTION_FREE_COMPLETED], 3000);
    EXPECT_GE(counts[ACRE_ACTION_SEGMENT_ALLOC] + counts[ACRE_ACTION_SEGMENT_MAP], 1);
    check_order(history, true);
    acre_history_destroy(history);
    lab_close(&lab);
}

TEST(the_newest_are_kept_exactly)
{
    struct lab lab;
    acre_history *history;

    open_acre(&lab);
    start(&lab, KEPT);
    for (uint64_t i = 0; i < 10000; i++)
        lab_free(&lab, lab_alloc(&lab, 512 + (i % 1000)));
    REQUIRE_OK(acre_cache_history_create(lab.cache, &history));
    REQUIRE_EQ(history->entry_count, KEPT);
    for (uint64_t i = 0; i < KEPT; i++) {
        /* Backwards: free_completed, free_requested, alloc of number 9999, then 9998. */
        const acre_history_entry *entry = &history->entries[KEPT - 1 - i];
        REQUIRE_EQ(entry->action, (uint64_t)ACRE_ACTION_FREE_COMPLETED - i % 3);
        REQUIRE_EQ(entry->bytes, 512 + (9999 - i / 3) % 1000);
    }
    acre_history_destroy(history);
    lab_close(&lab);
}

TEST(switching_stacks_on_and_off_loses_nothing)
{
    struct lab lab;
    acre_history *history;
    acre_history_config config = {.struct_size = sizeof config,
                                  .max_entries = ACRE_HISTORY_UNBOUNDED};

    open_acre(&lab);
    start(&lab, ACRE_HISTORY_UNBOUNDED);
    void *kept = lab_alloc(&lab, 1024);
    for (int i = 0; i < 60; i++) {
        config.level = i % 3 == 1 ? ACRE_CONTEXT_ALL : ACRE_CONTEXT_NEVER;
        REQUIRE_OK(acre_cache_history_start(lab.cache, &config));
        lab_free(&lab, lab_alloc(&lab, 512));
    }
    REQUIRE_OK(acre_cache_history_create(lab.cache, &history));
    uint64_t allocs = 0, stacks = 0;
    for (uint64_t i = 0; i < history->entry_count; i++) {
        allocs += history->entries[i].action == ACRE_ACTION_ALLOC;
        stacks += history->entries[i].stack != 0;
    }
    EXPECT_EQ(allocs, 61);
    EXPECT_EQ(stacks, 20 * 3);
    acre_history_destroy(history);
    lab_free(&lab, kept);
    lab_close(&lab);
}

struct worker {
    struct lab *lab;
    int number;
    uint64_t rounds;
    _Atomic int *stop;
};

static _Atomic int done_count; /* workers that are */

static void *work(void *arg)
{
    struct worker *worker = arg;
    uint64_t state = t_seed() + (uint64_t)worker->number;
    void *held[16] = {0};

    for (uint64_t i = 0; i < worker->rounds; i++) {
        void **slot = &held[t_random(&state) % 16];
        if (*slot)
            lab_free(worker->lab, *slot);
        *slot = lab_alloc_on(worker->lab, 1 + t_random(&state) % 8192, worker->number);
        if (i % 512 == 0)
            acre_history_metadata_set(i % 1024 ? "odd" : NULL);
    }
    for (int i = 0; i < 16; i++)
        if (held[i])
            lab_free(worker->lab, held[i]);
    acre_history_metadata_set(NULL);
    atomic_fetch_add(&done_count, 1);
    return NULL;
}

static void *read_on(void *arg)
{
    struct worker *worker = arg;

    while (!atomic_load(worker->stop)) {
        acre_history *history;
        REQUIRE_OK(acre_cache_history_create(worker->lab->cache, &history));
        for (uint64_t i = 1; i < history->entry_count; i++)
            REQUIRE(history->entries[i - 1].time_us <= history->entries[i].time_us);
        acre_history_destroy(history);
        acre_history_config config = {.struct_size = sizeof config, .max_entries = KEPT};
        config.level = worker->rounds++ % 5 == 4 ? ACRE_CONTEXT_STATE : ACRE_CONTEXT_NEVER;
        REQUIRE_OK(acre_cache_history_start(worker->lab->cache, &config));
        if (worker->rounds % 7 == 0)
            acre_cache_history_stop(worker->lab->cache);
    }
    return NULL;
}

TEST(threads_write_while_others_read_and_switch)
{
    struct lab lab;
    struct worker workers[THREADS], reader;
    pthread_t threads[THREADS], reading;
    _Atomic int stop = 0;

    acre_history_metadata_set("odd");
    acre_history_metadata_set(NULL);
    open_acre(&lab);
    start(&lab, KEPT);
    reader = (struct worker){.lab = &lab, .stop = &stop};
    REQUIRE_EQ(pthread_create(&reading, NULL, read_on, &reader), 0);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){&lab, i, t_count(20000, 500000), &stop};
        REQUIRE_EQ(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&stop, 1);
    pthread_join(reading, NULL);
    EXPECT_EQ(CURRENT(&lab, allocation), 0);
    lab_close(&lab);
}

static int by_value(const void *a, const void *b)
{
    uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;

    return first < second ? -1 : first > second;
}

/* The addresses that a whole history leaves live are those of the live blocks. */
static void check_moment(const struct snapshot *snapshot)
{
    uint64_t live = 0, blocks = 0, *addresses = calloc(snapshot->entry_count + 1, 8);

    REQUIRE(addresses != NULL);
    for (size_t i = 0; i < snapshot->block_count; i++)
        blocks += snapshot->blocks[i].state == SNAP_ALLOCATED;
    for (size_t i = 0; i < snapshot->entry_count; i++) {
        const struct snap_entry *entry = &snapshot->entries[i];
        if (entry->action == SNAP_ALLOC)
            addresses[live++] = entry->address;
        for (uint64_t k = 0; entry->action == SNAP_FREE_REQUESTED && k < live; k++)
            if (addresses[k] == entry->address) {
                addresses[k] = addresses[--live];
                break;
            }
    }
    REQUIRE_EQ(live, blocks);
    qsort(addresses, live, sizeof *addresses, by_value);
    for (size_t i = 0; i < snapshot->block_count; i++)
        if (snapshot->blocks[i].state == SNAP_ALLOCATED)
            REQUIRE(bsearch(&snapshot->blocks[i].address, addresses, live, sizeof *addresses,
                            by_value) != NULL);
    free(addresses);
}

TEST(segments_and_history_of_a_snapshot_are_of_one_moment)
{
    struct lab lab;
    struct worker workers[THREADS];
    pthread_t threads[THREADS];

    acre_history_metadata_set("odd");
    acre_history_metadata_set(NULL);
    open_acre(&lab);
    start(&lab, ACRE_HISTORY_UNBOUNDED);
    atomic_store(&done_count, 0);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){&lab, i, t_count(12000, 60000), NULL};
        REQUIRE_EQ(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    while (atomic_load(&done_count) < THREADS) {
        acre_snapshot *snapshot;
        REQUIRE_OK(acre_cache_snapshot(&lab.cache, 1, NULL, &snapshot));
        REQUIRE_OK(acre_snapshot_check(snapshot));
        check_moment((const struct snapshot *)snapshot);
        acre_snapshot_close(snapshot);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    lab_close(&lab);
}

TEST(threads_alone_lose_no_entry)
{
    struct lab lab;
    struct worker workers[THREADS];
    pthread_t threads[THREADS];
    acre_history *history;
    uint64_t rounds = t_count(4000, 100000), counts[ACRE_ACTION_COUNT] = {0};

    acre_history_metadata_set("odd");
    acre_history_metadata_set(NULL);
    open_acre(&lab);
    start(&lab, ACRE_HISTORY_UNBOUNDED);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){&lab, i, rounds, NULL};
        REQUIRE_EQ(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    REQUIRE_OK(acre_cache_history_create(lab.cache, &history));
    for (uint64_t i = 0; i < history->entry_count; i++)
        counts[history->entries[i].action]++;
    EXPECT_EQ(counts[ACRE_ACTION_ALLOC], rounds * THREADS);
    EXPECT_EQ(counts[ACRE_ACTION_FREE_COMPLETED], rounds * THREADS);
    acre_history_destroy(history);
    lab_close(&lab);
}

T_MAIN()
