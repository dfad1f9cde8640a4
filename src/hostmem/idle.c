/* SPDX-License-Identifier: MIT */
/* See idle.h. */
#include "hostmem/idle.h"

#include "base/status.h"
#include "base/process/thread.h"
#include "hostmem/chunk.h"
#include "hostmem/heap.h"
#include "hostmem/inside.h"
#include "hostmem/pages.h"
#include "hostmem/pressure.h"

#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    IDLE_MS_DEFAULT = 10000,
    KEEP_PERCENT_DEFAULT = 12,
    VECTOR_PAGES = 16384, /* pages asked about at a time */
};

#define HOLD_BYTES  ((uint64_t)32 << 20) /* discarded while the cache's lock is held */
#define SLACK_BYTES ((uint64_t)8 << 20)  /* idle memory that is not worth a look     */

struct lock idle_trim_lock = LOCK_INITIALIZER(RANK_HEAPS, "trimming of host memory");

/* ---- The pages of free blocks ------------------------------------------------------- */

/* A walk over the free blocks. */
struct idle_walk {
    unsigned char *vector; /* VECTOR_PAGES of them                                */
    uint64_t resident;     /* counted: bytes of free blocks that have pages       */
    uint64_t whole;        /* counted: bytes of segments that are free as a whole */
    uint64_t wanted;       /* to be discarded                                     */
    uint64_t held;         /* discarded while the lock is held this time          */
    uint64_t gone;         /* discarded by the whole trim                         */
    size_t block_min;      /* smaller blocks are left alone                       */
};

/* Bytes of a range that have pages. */
static uint64_t range_resident(struct idle_walk *walk, char *base, size_t bytes)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), resident = 0;

    while (bytes) {
        size_t some = bytes < VECTOR_PAGES * page ? bytes : VECTOR_PAGES * page;
        if (mincore(base, some, walk->vector) != 0)
            break;
        for (size_t i = 0; i < some / page; i++)
            resident += walk->vector[i] & 1 ? page : 0;
        base += some;
        bytes -= some;
    }
    return resident;
}

static bool block_count(void *arg, char *base, size_t bytes, bool is_whole_segment)
{
    struct idle_walk *walk = arg;
    struct pages inside = pages_inside(base, bytes);

    walk->resident += range_resident(walk, inside.base, inside.bytes);
    walk->whole += is_whole_segment ? bytes : 0;
    return true;
}

/* Discards pages from the end of a block on: the cache cuts from the beginning. */
static bool block_discard(void *arg, char *base, size_t bytes, bool is_whole_segment)
{
    struct idle_walk *walk = arg;

    (void)is_whole_segment;
    if (bytes < walk->block_min)
        return true;
    struct pages inside = pages_inside(base, bytes);
    base = inside.base;
    bytes = inside.bytes;
    while (bytes && walk->gone < walk->wanted && walk->held < HOLD_BYTES) {
        size_t some = bytes < CHUNK_BYTES ? bytes : CHUNK_BYTES;
        uint64_t resident = range_resident(walk, base + bytes - some, some);
        if (resident && madvise(base + bytes - some, some, MADV_DONTNEED) == 0) {
            walk->gone += resident;
            walk->held += resident;
            chunks_forget(base + bytes - some, some);
        }
        bytes -= some;
    }
    return walk->gone < walk->wanted && walk->held < HOLD_BYTES;
}

/* A segment that is free as a whole is about to go. */
static bool block_forget(void *arg, char *base, size_t bytes, bool is_whole_segment)
{
    (void)arg;
    if (is_whole_segment)
        chunks_forget(base, bytes);
    return true;
}

/* Discards walk->wanted bytes, from large blocks first. */
static void walk_discard(acre_cache *cache, struct idle_walk *walk)
{
    static const size_t block_mins[] = {4 << 20, 256 << 10, 1};

    for (size_t i = 0; i < 3; i++) {
        walk->block_min = block_mins[i];
        do {
            walk->held = 0;
            inside_walk_free(cache, block_discard, walk);
        } while (walk->held >= HOLD_BYTES && walk->gone < walk->wanted);
    }
}

/* Discards what exceeds keep_bytes of resident free memory; idle_trim_lock is held. */
static uint64_t trim_locked(acre_hostmem *heap, uint64_t keep_bytes)
{
    static unsigned char vector[VECTOR_PAGES]; /* guarded by idle_trim_lock */
    struct idle_walk walk = {.vector = vector};

    inside_walk_free(heap->cache, block_count, &walk);
    if (walk.resident <= keep_bytes)
        return 0;
    walk.wanted = walk.resident - keep_bytes;
    walk_discard(heap->cache, &walk);
    if (keep_bytes == 0 && walk.whole) {
        inside_walk_free(heap->cache, block_forget, NULL);
        acre_cache_empty(heap->cache);
    }
    atomic_fetch_add(&heap->idle.trimmed_bytes, (int64_t)walk.gone);
    atomic_fetch_add(&heap->idle.trim_count, 1);
    return walk.gone;
}

uint64_t idle_trim(acre_hostmem *heap, uint64_t keep_bytes)
{
    struct status_saved before;
    uint64_t gone;

    status_save(&before);
    lock_take(&idle_trim_lock);
    gone = trim_locked(heap, keep_bytes);
    lock_drop(&idle_trim_lock);
    status_restore(&before);
    return gone;
}

/* ---- What the program needs ------------------------------------------------------------ */

/* The statistics as an array: every field between the head and the counters is one. */
#define STATS_FIRST(stats) ((acre_stat *)(void *)&(stats)->allocation)
#define STATS_COUNT                                                                                \
    ((offsetof(acre_cache_stats, num_alloc_retries) - offsetof(acre_cache_stats, allocation)) /    \
     sizeof(acre_stat))

/* Reads the statistics; their peaks are those since the user's last reset. */
static void stats_read_locked(acre_hostmem *heap, acre_cache_stats *stats)
{
    const acre_stat *before = STATS_FIRST(&heap->idle.peaks);
    acre_stat *now = STATS_FIRST(stats);

    *stats = (acre_cache_stats){.struct_size = sizeof *stats};
    acre_cache_stats_get(heap->cache, stats);
    for (size_t i = 0; i < STATS_COUNT && heap->idle.peaks.struct_size; i++)
        if (before[i].peak > now[i].peak)
            now[i].peak = before[i].peak;
}

void idle_stats(acre_hostmem *heap, acre_cache_stats *stats)
{
    lock_take(&idle_trim_lock);
    stats_read_locked(heap, stats);
    lock_drop(&idle_trim_lock);
}

/* Resets the peaks of the cache; those of the user stay in idle.peaks. Gives the highest
 * use since the last call, and the present one. */
static void needs_take_locked(acre_hostmem *heap, uint64_t *out_peak, uint64_t *out_live)
{
    acre_cache_stats now = {.struct_size = sizeof now}, merged;

    acre_cache_stats_get(heap->cache, &now);
    stats_read_locked(heap, &merged);
    acre_cache_stats_reset_peak(heap->cache);
    heap->idle.peaks = merged;
    *out_peak = (uint64_t)now.allocated_bytes.all.peak;
    *out_live = (uint64_t)now.allocated_bytes.all.current;
}

void idle_reset_peak(acre_hostmem *heap)
{
    uint64_t peak, live;

    lock_take(&idle_trim_lock);
    needs_take_locked(heap, &peak, &live);
    if (peak > heap->idle.needs[heap->idle.look])
        heap->idle.needs[heap->idle.look] = peak;
    heap->idle.peaks.struct_size = 0;
    lock_drop(&idle_trim_lock);
}

/* Whether to trim for a need: at once when it is a sixteenth below that of the last trim,
 * otherwise after a wait that doubles, up to about two hours of the default period. */
static bool trim_is_due(struct idle *idle, uint64_t need)
{
    if (need + need / 16 < idle->need_trimmed) {
        idle->wait_next = IDLE_LOOKS;
    } else if (idle->wait) {
        idle->wait--;
        return false;
    } else if (idle->wait_next < 1024 * IDLE_LOOKS) {
        idle->wait_next *= 2;
    }
    idle->need_trimmed = need;
    idle->wait = idle->wait_next;
    return true;
}

void idle_look(acre_hostmem *heap)
{
    struct idle *idle = &heap->idle;
    uint64_t peak, live, need = 0, keep;
    struct status_saved before;

    status_save(&before);
    lock_take(&idle_trim_lock);
    needs_take_locked(heap, &peak, &live);
    if (peak > idle->needs[idle->look])
        idle->needs[idle->look] = peak;
    for (unsigned i = 0; i < IDLE_LOOKS; i++)
        need = idle->needs[i] > need ? idle->needs[i] : need;
    idle->look = (idle->look + 1) % IDLE_LOOKS;
    idle->needs[idle->look] = 0;
    keep = need - (live < need ? live : need) + need / 100 * idle->keep_percent;
    if (pressure_is_high())
        trim_locked(heap, 0);
    else if (trim_is_due(idle, need) &&
             (uint64_t)idle->peaks.reserved_bytes.all.current > live + keep + SLACK_BYTES)
        trim_locked(heap, keep);
    lock_drop(&idle_trim_lock);
    status_restore(&before);
}

/* ---- The thread --------------------------------------------------------------------------- */

static void *thread_run(void *arg)
{
    acre_hostmem *heap = arg;
    struct idle *idle = &heap->idle;
    bool is_ending = false;

    while (!is_ending) {
        lock_take(&idle->lock);
        if (!idle->is_ending)
            lock_wait_ns(&idle->lock, &idle->wake, (long long)idle->look_ms * 1000000);
        is_ending = idle->is_ending;
        lock_drop(&idle->lock);
        if (!is_ending)
            idle_look(heap);
    }
    return NULL;
}

void idle_init(struct idle *idle, const acre_hostmem_config *config)
{
    uint32_t ms = config->idle_ms ? config->idle_ms : IDLE_MS_DEFAULT;

    idle->wait = idle->wait_next = IDLE_LOOKS;
    idle->look_ms = ms / IDLE_LOOKS ? ms / IDLE_LOOKS : 1;
    idle->keep_percent = config->keep_percent ? config->keep_percent : KEEP_PERCENT_DEFAULT;
    atomic_init(&idle->has_thread, (config->flags & ACRE_HOSTMEM_NO_THREAD) != 0);
    lock_init(&idle->lock, RANK_LEAF, "idle host memory");
    lock_condition_init(&idle->wake);
}

static bool thread_create(struct idle *idle, acre_hostmem *heap)
{
    return thread_start(&idle->thread, thread_run, heap) == 0;
}

void idle_start(acre_hostmem *heap)
{
    struct idle *idle = &heap->idle;

    lock_take(&idle->lock);
    if (!atomic_load(&idle->has_thread)) {
        idle->is_owned = thread_create(idle, heap);
        atomic_store(&idle->has_thread, true); /* without one, trimming is up to the user */
    }
    lock_drop(&idle->lock);
}

void idle_fini(struct idle *idle)
{
    lock_take(&idle->lock);
    idle->is_ending = true;
    pthread_cond_broadcast(&idle->wake);
    lock_drop(&idle->lock);
    if (idle->is_owned)
        pthread_join(idle->thread, NULL);
    pthread_cond_destroy(&idle->wake);
    lock_fini(&idle->lock);
}

void idle_orphan(struct idle *idle, bool may_start)
{
    lock_init(&idle->lock, RANK_LEAF, "idle host memory");
    lock_condition_init(&idle->wake);
    idle->is_owned = false;
    atomic_store(&idle->has_thread, !may_start);
}
