/* SPDX-License-Identifier: MIT */
/* Stages; see stage.h. Stores become visible in their order on x86; elsewhere the release on
 * the step, which is in the same line, orders the data before it. */
#include "symm/collective/stage.h"

#include "base/check.h"
#include "symm/deadline.h"
#include "symm/collective/word.h"

#include <string.h>

#define LINE_WORDS 15u

struct line {
    uint32_t words[LINE_WORDS]; /* seen by who has seen the step */
    _Atomic uint32_t step;
};
_Static_assert(sizeof(struct line) == 64, "a line is a cache line");
_Static_assert(STAGE_LINES * sizeof(struct line) == STAGE_BYTES, "a stage is full of lines");

static struct line *lines_of(const struct team *team, int rank, uint32_t step)
{
    return (struct line *)(void *)team_stage(team, rank, step % STAGE_COUNT);
}

/* A full line has a size that the compiler knows. */
static inline void words_copy(void *to, const void *from, size_t words)
{
    if (words == LINE_WORDS)
        memcpy(to, from, 4 * LINE_WORDS);
    else
        memcpy(to, from, 4 * words);
}

void stage_write(struct work *work, uint32_t step, const void *data, size_t bytes)
{
    struct team *team = work->symm->team;
    struct line *line = lines_of(team, team->rank, step), *last = line;
    const uint32_t *from = data;
    size_t words = bytes / 4;

    for (size_t at = 0; at < words; at += LINE_WORDS, line++) {
        size_t count = words - at < LINE_WORDS ? words - at : LINE_WORDS;
        words_copy(line->words, from + at, count);
        atomic_store_explicit(&line->step, step, memory_order_release);
        last = line;
    }
    word_wake((struct spot){&last->step, team_control(team, team->rank)});
    /* The lines of the next step are fetched while the others' are waited for. */
    line = lines_of(team, team->rank, step + 1);
    for (size_t at = 0; at < words; at += LINE_WORDS)
        line_prepare(line++);
}

/* A rank that has not written a line of a step and never will, or -1. */
static int missing_dead(const struct team *team, size_t line, uint32_t step)
{
    for (int i = 0; i < team->count; i++) {
        _Atomic uint32_t *written = &lines_of(team, i, step)[line].step;
        if (i != team->rank && atomic_load(written) != step &&
            link_is_dead(team->group->peers, i) && atomic_load(written) != step)
            return i;
    }
    return -1;
}

/* The rank that is waited for is late, and others may be. */
static acre_status fail_late(struct work *work, int rank, size_t line, uint32_t step)
{
    const struct team *team = work->symm->team;
    bool is_late[WORLD_MAX];

    for (int i = 0; i < team->count; i++)
        is_late[i] = i == rank ||
                     (i != team->rank && atomic_load(&lines_of(team, i, step)[line].step) != step);
    return work_fail_late(work, is_late, "take part");
}

/* Waits for a line. Looking at it is enough most of the time; sleeping is done on the last
 * line of the step, which is written after all others. */
static acre_status line_await(struct work *work, int rank, struct line *line, struct line *last,
                              uint32_t step)
{
    const struct team *team = work->symm->team;

    for (unsigned i = 0; i < team->spin_count; i++) {
        if (atomic_load_explicit(&line->step, memory_order_acquire) == step)
            return ACRE_OK;
        word_pause();
    }
    for (;;) {
        uint32_t seen = atomic_load_explicit(&last->step, memory_order_acquire);
        if (seen == step)
            return ACRE_OK;
        struct spot spot = {&last->step, team_control(team, rank)};
        if (word_await(work, spot, seen, -1, 50 * NS_PER_MS) == ACRE_OK)
            continue;
        size_t at = (size_t)(last - lines_of(team, rank, step));
        int dead = missing_dead(team, at, step);
        if (dead >= 0)
            return work_fail_wait(work, ACRE_ERR_PEER, dead, "");
        if (deadline_left_ns(work_deadline(work)) == 0)
            return fail_late(work, rank, at, step);
    }
}

acre_status stage_read(struct work *work, int rank, uint32_t step, void *out, size_t bytes)
{
    struct line *line = lines_of(work->symm->team, rank, step);
    size_t words = bytes / 4;
    struct line *last = line + (words - 1) / LINE_WORDS;
    uint32_t *to = out;

    for (size_t at = 0; at < words; at += LINE_WORDS, line++) {
        if (atomic_load_explicit(&line->step, memory_order_acquire) != step) {
            acre_status status = line_await(work, rank, line, last, step);
            if (status != ACRE_OK)
                return status;
        }
        words_copy(to + at, line->words, words - at < LINE_WORDS ? words - at : LINE_WORDS);
    }
    return ACRE_OK;
}
