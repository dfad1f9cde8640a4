/* SPDX-License-Identifier: MIT */
/* A sweep starts at a full section, where everything that lives is stacked without a
 * hole, and goes outward from there, once to later and once to earlier sections. The
 * two sides share nothing but the stack. On its way a buffer that ends leaves a hole,
 * and one that begins is put into a hole below the ceiling:
 *
 *   ceiling ---------------------------      the stack at the start: first those that
 *     |_R__|====|======        |_a___        end sooner to the right (L), the longest
 *     |_R_____|=======|   |_b______          lowest, then those that end sooner to the
 *     |_L__________|       ...               left (R), so that what ends first on
 *     |_L_______________|                    either side lies together
 *   floor   ---------------------------
 *           start ->
 *
 * Which hole is a matter of score: one that leaves little over, next to a buffer that
 * ends at about the same time, at that end of the hole. Farther out the load is lower,
 * so there is room for the holes that no buffer fits into; the start, where there is
 * none, has no such holes.
 *
 * When a buffer finds no hole, the sweep goes back to a mark and comes again with other
 * scores, from farther back each time. When that has taken as much work as is allotted,
 * the ceiling is raised. The best of each side of a start is kept, and only a side that
 * is above the ceiling is placed again. One thread at a time; several sweeps may share
 * their sections.
 */
#include "plan/place/sweep.h"

#include "base/check.h"
#include "base/heap.h"
#include "plan/place/clock.h"
#include "plan/place/shift.h"
#include "plan/place/sweep_axis.h"
#include "plan/place/space.h"
#include "plan/place/hole_score.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define STARTS      6u      /* sections to start from, at most                */
#define START_APART 20u     /* they are this part of all sections apart       */
#define NEAR_STARTS 2u      /* starts that are only a tenth of that apart     */
#define START_LOAD  0.97    /* of the fullest                                 */
#define MARKS       16u     /* marks to go back to                            */
#define MARK_STEP   1000u   /* births between them, at least                  */
#define TRIES       6u      /* with other scores before going farther back    */
#define RETRY_WORK  100000u /* births in vain, at most; and not more than there are */
#define RETURN_COST 8u      /* residents that come back for the work of a birth */
#define HOLES_MAX   32u     /* holes that fit, looked at for one buffer       */
#define MISFITS_MAX 64u     /* holes of about its size that do not, at most   */
#define DRAWN_TURNS 4u      /* turns from here on have scores of their own     */

/* A state to come back to. */
struct sweep_mark {
    uint32_t births, deaths; /* how many have been                             */
    uint32_t section;        /* in which it was set                            */
    int64_t ceiling;
    uint32_t *list; /* residents                                      */
    uint32_t count, capacity;
};

/* The best that was found for one side of a start. */
struct half {
    int64_t height;   /* INT64_MAX: nothing yet                         */
    int64_t *offsets; /* of those born on this side, as they are born   */
};

struct sweep {
    const struct sections *sections;
    uint32_t count;            /* buffers that live                              */
    float mean;                /* size                                           */
    struct sweep_axis axes[2]; /* to later sections, and to earlier ones         */
    uint32_t starts[STARTS], start_count;
    struct half halves[STARTS][2];
    struct space space;
    struct sweep_mark marks[MARKS]; /* a ring                                         */
    uint32_t *stack;                /* what lives at the start                        */
    uint32_t stack_count;
    int64_t stack_top;
    const struct sweep_axis *axis; /* under way                                      */
    struct hole_score hole_score;
    uint32_t start;  /* section, as seen from the side under way       */
    uint32_t marked; /* section of the last mark: what was born until then
                                 stays where it is                              */
    uint32_t deaths; /* how many have been                             */
    uint64_t random;
    uint64_t work; /* births, those in vain as well                  */
};

/* ---- Holes ----------------------------------------------------------------------- */

/* Where a buffer is to go. */
struct choice {
    uint32_t below; /* owner of the hole, or SPACE_NONE               */
    int64_t offset;
    float score;
};

/* Looks whether a hole is better than the choice so far. False when it is too small. */
static bool try_hole(const struct sweep *sweep, uint32_t buffer, uint32_t owner, float unit,
                     struct choice *choice)
{
    const struct space *space = &sweep->space;
    const struct hole_score *hole_score = &sweep->hole_score;
    const uint32_t *death = sweep->axis->death;
    int64_t size = space->residents[buffer].size;
    int64_t low = sections_align(sweep->sections, buffer, space_hole_start(space, owner));
    int64_t high = space_hole_end(space, owner) - size, rest = high - low;
    uint32_t above = space->residents[owner].above, now = sweep->axis->birth[buffer];

    if (rest < 0)
        return false;
    float left = (float)(death[buffer] - now);
    float lower = owner == space->floor ? hole_score->edge
                                        : hole_score_ratio((float)(death[owner] - now), left);
    float upper = above == SPACE_NONE ? hole_score->edge
                                      : hole_score_ratio((float)(death[above] - now), left);
    float score = hole_score_rate(hole_score, (float)rest / unit, lower < upper ? lower : upper);
    if (score >= choice->score)
        return true;
    if (upper < lower)
        low += rest / sweep->sections->alignment[buffer] * sweep->sections->alignment[buffer];
    *choice = (struct choice){owner, low, score};
    return true;
}

static struct choice sweep_choose(const struct sweep *sweep, uint32_t buffer)
{
    const struct space *space = &sweep->space;
    struct choice choice = {SPACE_NONE, 0, INFINITY};
    int64_t size = space->residents[buffer].size;
    float unit = sweep->hole_score.is_by_mean ? sweep->mean : (float)size;
    uint32_t fits = 0;

    for (uint32_t bin = space_next_bin(space, space_bin(size));
         bin < SPACE_BINS && fits < HOLES_MAX; bin = space_next_bin(space, bin + 1)) {
        uint32_t owner = space->bins[bin], misfits = 0;
        if (hole_score_least(&sweep->hole_score, (float)(space_bin_size(bin) - size) / unit) >=
            choice.score)
            break;
        for (; owner != SPACE_NONE && misfits < MISFITS_MAX && fits < HOLES_MAX;
             owner = space->residents[owner].behind)
            if (try_hole(sweep, buffer, owner, unit, &choice))
                fits++;
            else
                misfits++;
    }
    return choice;
}

/* ---- Going outward --------------------------------------------------------------- */

/* Ends what does not live in a section any more. */
static void sweep_bury(struct sweep *sweep, uint32_t section)
{
    const struct sweep_axis *axis = sweep->axis;

    while (sweep->deaths < sweep->count && axis->death[axis->by_death[sweep->deaths]] <= section)
        space_take(&sweep->space, axis->by_death[sweep->deaths++], section);
}

/* Lets buffers be born, from one to another; gives the first that found no hole. */
static uint32_t go_on(struct sweep *sweep, uint32_t from, uint32_t to)
{
    for (uint32_t k = from; k < to; k++) {
        uint32_t buffer = sweep->axis->by_birth[k];
        sweep_bury(sweep, sweep->axis->birth[buffer]);
        struct choice choice = sweep_choose(sweep, buffer);
        if (choice.below == SPACE_NONE &&
            shift_one(&sweep->space, sweep->sections, sweep->axis->birth, sweep->marked, buffer))
            choice = sweep_choose(sweep, buffer);
        if (choice.below == SPACE_NONE)
            return k;
        space_put(&sweep->space, buffer, choice.below, choice.offset);
    }
    return to;
}

/* Raises the ceiling, if need be, so that a buffer fits below it; the hole there becomes
 * the first of its bin. False when it reaches the limit. */
static bool raise_for(struct sweep *sweep, uint32_t buffer, int64_t limit)
{
    struct space *space = &sweep->space;
    int64_t offset = sections_align(sweep->sections, buffer, space_hole_start(space, space->top));

    if (offset + space->residents[buffer].size >= limit)
        return false;
    int64_t top = offset + space->residents[buffer].size;
    space_raise(space, top > space->ceiling ? top : space->ceiling);
    return true;
}

static bool set_mark(struct sweep *sweep, struct sweep_mark *mark, uint32_t births)
{
    uint32_t count = sweep->space.count;

    if (count > mark->capacity) {
        uint32_t *list = heap_realloc(mark->list, (count + count / 4) * sizeof *list);
        if (!list)
            return false;
        mark->list = list;
        mark->capacity = count + count / 4;
    }
    space_list(&sweep->space, mark->list);
    mark->count = count;
    mark->births = births;
    mark->section = births ? sweep->axis->birth[sweep->axis->by_birth[births - 1]] : 0;
    if (mark->section < sweep->start)
        mark->section = sweep->start;
    sweep->marked = mark->section;
    mark->deaths = sweep->deaths;
    mark->ceiling = sweep->space.ceiling;
    return true;
}

static void return_to(struct sweep *sweep, const struct sweep_mark *mark)
{
    space_restore(&sweep->space, mark->list, mark->count, mark->ceiling, mark->section);
    sweep->deaths = mark->deaths;
    sweep->marked = mark->section;
}

/* Goes back: from farther back the more often it was tried. */
static uint32_t step_back(struct sweep *sweep, uint32_t tries, uint32_t oldest, uint32_t *last)
{
    uint32_t back = tries / TRIES;

    *last -= back < *last - oldest ? back : *last - oldest;
    return_to(sweep, &sweep->marks[*last % MARKS]);
    sweep->hole_score = hole_score_draw(&sweep->random);
    return sweep->marks[*last % MARKS].births;
}

/* Goes on where no more work is spared: the ceiling gives way, and the hole below it is
 * found, however many of its bin are too small. */
static bool force_on(struct sweep *sweep, uint32_t from, uint32_t to, int64_t limit)
{
    while (from < to) {
        if (!raise_for(sweep, sweep->axis->by_birth[from], limit))
            return false;
        from = go_on(sweep, from, to);
    }
    return true;
}

/* Births from one mark to the next: more where it takes longer to come back to one. */
static uint32_t next_mark(const struct sweep *sweep, uint32_t births)
{
    uint32_t step = sweep->space.count / 2 < MARK_STEP ? MARK_STEP : sweep->space.count / 2;

    return sweep->count - births < step ? sweep->count : births + step;
}

/* Goes to the end of a side from the births that have been. False when the limit is
 * reached, memory is short or time is up. */
static bool go_out(struct sweep *sweep, uint32_t births, int64_t limit, double deadline)
{
    struct hole_score first = sweep->hole_score;
    uint32_t spare = sweep->count - births < RETRY_WORK ? sweep->count - births : RETRY_WORK;
    uint32_t goal = births, tries = 0;
    uint32_t last = 0, oldest = 0; /* marks, numbered as they are set */

    if (!set_mark(sweep, &sweep->marks[0], births))
        return false;
    while (births < sweep->count) {
        uint32_t to = next_mark(sweep, births);
        uint32_t stop = go_on(sweep, births, to);
        uint32_t lost = stop - births + sweep->space.count / RETURN_COST + 1;
        sweep->work += stop - births;
        if (clock_is_past(deadline))
            return false;
        if (stop < to && spare >= lost) {
            spare -= lost;
            sweep->work += sweep->space.count / RETURN_COST;
            goal = stop >= goal ? stop + 1 : goal;
            births = step_back(sweep, ++tries, oldest, &last);
            continue;
        }
        if (!force_on(sweep, stop, to, limit))
            return false;
        births = to;
        if (births >= goal) {
            sweep->hole_score = first;
            tries = 0;
        }
        last++;
        oldest = last - oldest >= MARKS ? last - MARKS + 1 : oldest;
        if (!set_mark(sweep, &sweep->marks[last % MARKS], births))
            return false;
    }
    return true;
}

/* ---- Starting -------------------------------------------------------------------- */

/* A buffer that lives at the start: its rank in the stack. */
struct stacked {
    uint32_t buffer;
    bool is_right;  /* it ends sooner to the left                     */
    uint32_t end;   /* sections to the sooner end                     */
    uint32_t place; /* in the canonical order                         */
};

static int compare_stacked(const void *left, const void *right)
{
    const struct stacked *a = left, *b = right;

    if (a->is_right != b->is_right)
        return a->is_right ? 1 : -1;
    if (a->end != b->end)
        return a->end > b->end ? -1 : 1;
    return a->place < b->place ? -1 : 1;
}

/* Stacks what lives at a section, without holes. */
static acre_status stack_up(struct sweep *sweep, uint32_t start)
{
    const struct sections *sections = sweep->sections;
    struct stacked *stacked = heap_array(sweep->count + (size_t)1, sizeof *stacked);
    uint32_t count = 0;
    int64_t top = 0;

    if (!stacked)
        return ACRE_ERR_HOST_MEMORY;
    for (uint32_t n = 0; n < sections->buffer_count; n++) {
        uint32_t i = sections->order[n];
        if (sections->size[i] == 0 || sections_first(sections, i) > start ||
            sections_last(sections, i) <= start)
            continue;
        uint32_t later = sections_last(sections, i) - start;
        uint32_t earlier = start - sections_first(sections, i) + 1;
        stacked[count++] =
            (struct stacked){i, earlier <= later, earlier <= later ? earlier : later, n};
    }
    qsort(stacked, count, sizeof *stacked, compare_stacked);
    space_clear(&sweep->space, INT64_MAX / 2);
    for (uint32_t k = 0; k < count; k++) {
        uint32_t i = stacked[k].buffer;
        int64_t offset = sections_align(sections, i, top);
        space_put(&sweep->space, i, sweep->space.top, offset);
        top = offset + sections->size[i];
        sweep->stack[k] = i;
    }
    sweep->stack_count = count;
    sweep->stack_top = top;
    heap_free(stacked);
    return ACRE_OK;
}

/* Keeps what was placed on one side, if it is lower than what there was. */
static bool keep_half(struct sweep *sweep, struct half *half, uint32_t born)
{
    const struct resident *residents = sweep->space.residents;
    uint32_t count = sweep->count - born;
    int64_t height = 0;

    if (!half->offsets)
        half->offsets = heap_array(count + (size_t)1, sizeof *half->offsets);
    if (!half->offsets)
        return false;
    for (uint32_t k = 0; k < count; k++) {
        const struct resident *resident = &residents[sweep->axis->by_birth[born + k]];
        half->offsets[k] = resident->offset;
        if (resident->offset + resident->size > height)
            height = resident->offset + resident->size;
    }
    half->height = height;
    return true;
}

/* Places what lives only to one side of a start, unless it is below the ceiling already.
 * Gives the height of that side, or INT64_MAX. */
static int64_t place_axis(struct sweep *sweep, uint32_t start, uint32_t which,
                          const struct sweep_goal *goal, int64_t *offsets)
{
    int64_t ceiling = goal->ceiling, limit = goal->limit;
    struct half *half = &sweep->halves[start][which];
    const struct sweep_axis *axis = sweep->axis = &sweep->axes[which];
    uint32_t section = sweep->starts[start];

    if (which)
        section = sweep->sections->section_count - 1 - section;
    uint32_t born = sweep_axis_born(axis, section);
    if (half->height > ceiling) {
        sweep->deaths = sweep_axis_dead(axis, section);
        sweep->start = section;
        space_restore(&sweep->space, sweep->stack, sweep->stack_count, ceiling, section);
        if (go_out(sweep, born, limit < half->height ? limit : half->height, goal->deadline) &&
            !keep_half(sweep, half, born))
            return INT64_MAX;
    }
    if (half->height < limit)
        for (uint32_t k = born; k < sweep->count; k++)
            offsets[axis->by_birth[k]] = half->offsets[k - born];
    return half->height;
}

int64_t sweep_place(struct sweep *sweep, uint64_t seed, uint32_t turn,
                    const struct sweep_goal *goal, int64_t *offsets)
{
    int64_t limit = goal->limit;
    uint32_t start = turn % sweep->start_count;

    memset(offsets, 0, sweep->sections->buffer_count * sizeof *offsets);
    if (sweep->count == 0)
        return 0;
    sweep->random = seed * 1000003u + turn;
    if (stack_up(sweep, sweep->starts[start]) != ACRE_OK)
        return INT64_MAX;
    for (uint32_t k = 0; k < sweep->stack_count; k++)
        offsets[sweep->stack[k]] = sweep->space.residents[sweep->stack[k]].offset;
    int64_t height = sweep->stack_top;
    for (uint32_t which = 0; which < 2 && height < limit; which++) {
        sweep->hole_score =
            turn < DRAWN_TURNS ? hole_score_first(turn / 2) : hole_score_draw(&sweep->random);
        struct sweep_goal rest = *goal;
        if (height > rest.ceiling)
            rest.ceiling = height; /* a side may be as high as the other */
        int64_t reached = place_axis(sweep, start, which, &rest, offsets);
        height = reached > height ? reached : height;
    }
    return height < limit ? height : INT64_MAX;
}

uint64_t sweep_work(const struct sweep *sweep)
{
    return sweep->work;
}

/* ---- Making ---------------------------------------------------------------------- */

static int compare_sizes(const void *left, const void *right, void *arg)
{
    const struct sections *sections = arg;
    uint32_t a = sections->order[*(const uint32_t *)left];
    uint32_t b = sections->order[*(const uint32_t *)right];

    if (sections->size[a] != sections->size[b])
        return sections->size[a] > sections->size[b] ? -1 : 1;
    return *(const uint32_t *)left < *(const uint32_t *)right ? -1 : 1;
}

/* Lists the buffers that live, the largest first. */
static void list_by_size(struct sweep *sweep, uint32_t *out)
{
    const struct sections *sections = sweep->sections;
    double sum = 0;

    for (uint32_t n = 0; n < sections->buffer_count; n++) {
        uint32_t i = sections->order[n];
        if (sections->size[i] == 0)
            continue;
        out[sweep->count++] = n;
        sum += (double)sections->size[i];
        sweep->space.residents[i].size = sections->size[i];
    }
    qsort_r(out, sweep->count, sizeof *out, compare_sizes, (void *)sections);
    for (uint32_t k = 0; k < sweep->count; k++)
        out[k] = sections->order[out[k]];
    sweep->mean = (float)(sum / (sweep->count ? sweep->count : 1));
}

/* Picks sections to start from: the fullest, then the fullest that is not near it ... */
static acre_status pick_starts(struct sweep *sweep)
{
    const struct sections *sections = sweep->sections;
    uint32_t count = sections->section_count;
    int64_t *load = heap_array(count + (size_t)1, sizeof *load);

    if (!load)
        return ACRE_ERR_HOST_MEMORY;
    memcpy(load, sections->load, count * sizeof *load);
    while (sweep->start_count < STARTS) {
        uint32_t best = 0;
        for (uint32_t s = 1; s < count; s++)
            best = load[s] > load[best] ? s : best;
        if (sweep->start_count && (double)load[best] < START_LOAD * (double)sections->lower_bound)
            break;
        sweep->halves[sweep->start_count][0].height = INT64_MAX;
        sweep->halves[sweep->start_count][1].height = INT64_MAX;
        sweep->starts[sweep->start_count++] = best;
        uint32_t part = sweep->start_count < NEAR_STARTS ? 10 * START_APART : START_APART;
        uint32_t apart = count / part + 1;
        uint32_t from = best > apart ? best - apart : 0;
        uint32_t to = count - best > apart ? best + apart + 1 : count;
        memset(load + from, 0, (to - from) * sizeof *load);
    }
    heap_free(load);
    return ACRE_OK;
}

static acre_status sweep_fill(struct sweep *sweep)
{
    uint32_t *by_size = heap_array(sweep->sections->buffer_count + (size_t)1, sizeof *by_size);
    acre_status status = by_size ? ACRE_OK : ACRE_ERR_HOST_MEMORY;

    if (status == ACRE_OK)
        list_by_size(sweep, by_size);
    for (int which = 0; which < 2 && status == ACRE_OK; which++)
        status =
            sweep_axis_init(&sweep->axes[which], sweep->sections, which, by_size, sweep->count);
    if (status == ACRE_OK)
        status = pick_starts(sweep);
    heap_free(by_size);
    return status;
}

acre_status sweep_create(const struct sections *sections, struct sweep **out)
{
    struct sweep *sweep = heap_zalloc(sizeof *sweep);
    acre_status status = ACRE_ERR_HOST_MEMORY;

    if (!sweep)
        return status;
    sweep->sections = sections;
    sweep->stack = heap_array(sections->buffer_count + (size_t)1, sizeof *sweep->stack);
    if (sweep->stack)
        status = space_init(&sweep->space, sections->buffer_count);
    if (status == ACRE_OK)
        status = sweep_fill(sweep);
    if (status != ACRE_OK) {
        sweep_destroy(sweep);
        return status;
    }
    *out = sweep;
    return ACRE_OK;
}

void sweep_destroy(struct sweep *sweep)
{
    if (!sweep)
        return;
    sweep_axis_fini(&sweep->axes[0]);
    sweep_axis_fini(&sweep->axes[1]);
    for (unsigned k = 0; k < MARKS; k++)
        heap_free(sweep->marks[k].list);
    for (unsigned k = 0; k < STARTS; k++) {
        heap_free(sweep->halves[k][0].offsets);
        heap_free(sweep->halves[k][1].offsets);
    }
    heap_free(sweep->stack);
    space_fini(&sweep->space);
    heap_free(sweep);
}
