/* SPDX-License-Identifier: MIT */
/* Placing buffers: several ways, the best result wins.
 *
 *   skyline   orders one after the other, two at a time, until the lower bound
 *             (or the capacity) is reached or the work allotted is done
 *   sweep     where there are many buffers: outward from a full section, below a
 *             ceiling that comes down as long as it holds
 *   search    where few enough buffers overlap: exact, at the bound first, then
 *             down from the best height (goal.h)
 *   greedy    where offsets are fixed, in place of the skyline
 *
 * Work always comes in pairs, whatever the number of threads, and the winner of
 * a pair is told by its result alone, so results do not depend on timing; only a
 * time limit may end the work, once there is a first placement.
 */
#include <acre/plan.h>

#include "base/heap.h"
#include "base/status.h"
#include "base/process/thread.h"
#include "base/struct_size.h"
#include "plan/place/clock.h"
#include "plan/search/goal.h"
#include "plan/place/greedy.h"
#include "plan/place/order.h"
#include "plan/search/search.h"
#include "plan/place/section.h"
#include "plan/place/skyline.h"
#include "plan/place/sweep.h"

#include <pthread.h>
#include <string.h>

#define PAIR               2
#define ROUND_WORK         1700000u /* buffers placed in rounds                */
#define ROUNDS_MIN         3u
#define SEARCHED_ROUNDS    8u           /* where a search comes next               */
#define CEILING_PART       210          /* of the bound: the first ceiling above it */
#define MISSES             2u           /* rounds above a ceiling before it is raised */
#define SEARCH_BUFFERS_MAX 3000u        /* more are not searched                   */
#define LOWEST_NS          2000000000.0 /* work of all searches for the lowest     */
#define LOWEST_STEP_NS     150000000.0  /* and of one                              */
#define LOWEST_STEP_TURNS  80u          /* work of one for each buffer, at most    */
#define LOWEST_STEP_MIN    20000u       /* but never less than this                */
#define CAPACITY_NS        1000000000.0 /* work of one search for a capacity       */
#define CAPACITY_STEPS     20u          /* searches for a given capacity           */

#define SEARCH_SECONDS_MAX 120.0 /* of all searches, if no time is given     */

/* One of two workers. */
struct place_worker {
    struct place_task *place;
    struct skyline *skyline; /* NULL until used                         */
    struct sweep *sweep;     /* NULL until used                         */
    struct search *search;   /* NULL until used                         */
    struct order_work order;
    int64_t *offsets;
    int64_t height; /* of the offsets                          */
    uint32_t turn;  /* number of the order or seed             */
    acre_status status;
    enum search_result result;
    uint64_t work;
};

/* Everything one call holds. */
struct place_task {
    const acre_plan_config *config;
    struct sections *sections;
    struct order_facts facts;
    struct place_worker workers[PAIR];
    int64_t *best;               /* offsets                                 */
    int64_t best_height;         /* INT64_MAX: nothing yet                  */
    int64_t target;              /* good enough                             */
    int64_t goal;                /* height that is tried for now            */
    int64_t missed;              /* ceiling that sweeps went through, or 0  */
    _Atomic uint64_t work_limit; /* of the search under way                 */
    bool is_race;                /* its styles differ                       */
    bool is_proved;              /* nothing lower than best exists          */
    bool is_excluded;            /* nothing within the capacity exists      */
    double started, deadline;    /* seconds; deadline 0: none               */
    double limit;                /* when to give up; 0: never               */
    double told;
};

/* When rounds end at the latest; 0: never. */
static double rounds_end(const struct place_task *place)
{
    return clock_first(place->deadline, place->limit);
}

static void place_tell(struct place_task *place, double share)
{
    if (place->deadline > 0)
        share = (clock_now() - place->started) / (place->deadline - place->started);
    if (share > 1)
        share = 1;
    if (!place->config->progress || share <= place->told)
        return;
    place->told = share;
    place->config->progress(place->config->progress_arg, share);
}

/* ---- Pairs -------------------------------------------------------------------------- */

/* Runs work on both workers, on two threads when they may be used. */
static acre_status run_pair(struct place_task *place, void *(*work)(void *))
{
    pthread_t thread;
    bool has_thread =
        place->config->threads != 1 && thread_start(&thread, work, &place->workers[1]) == 0;

    work(&place->workers[0]);
    if (has_thread)
        pthread_join(thread, NULL);
    else
        work(&place->workers[1]);
    for (int w = 0; w < PAIR; w++)
        if (place->workers[w].status == ACRE_ERR_HOST_MEMORY)
            return status_fail(ACRE_ERR_HOST_MEMORY, "plan: out of host memory");
        else if (place->workers[w].status != ACRE_OK)
            return place->workers[w].status;
    return ACRE_OK;
}

/* Keeps the offsets of a worker if they are lower than the best. */
static bool place_keep(struct place_task *place, const struct place_worker *worker)
{
    if (worker->height >= place->best_height)
        return false;
    place->best_height = worker->height;
    memcpy(place->best, worker->offsets, place->sections->buffer_count * sizeof *place->best);
    return true;
}

/* ---- Skyline ------------------------------------------------------------------------ */

static void *work_skyline(void *arg)
{
    struct place_worker *worker = arg;
    struct place_task *place = worker->place;

    order_make(&place->facts, &worker->order, place->config->seed, worker->turn);
    if (place->sections->has_fixed) {
        worker->status =
            greedy_place(place->sections, worker->order.order, worker->offsets, &worker->height);
        return NULL;
    }
    worker->status = ACRE_OK;
    if (!worker->skyline)
        worker->status = skyline_create(place->sections, &worker->skyline);
    if (worker->status == ACRE_OK)
        worker->height = skyline_place(
            worker->skyline, worker->order.order,
            place->best_height == INT64_MAX ? place->limit : rounds_end(place), worker->offsets);
    return NULL;
}

/* ---- Sweep ---------------------------------------------------------------------------- */

static void *work_sweep(void *arg)
{
    struct place_worker *worker = arg;
    struct place_task *place = worker->place;

    worker->status = ACRE_OK;
    if (!worker->sweep)
        worker->status = sweep_create(place->sections, &worker->sweep);
    if (worker->status == ACRE_OK) {
        struct sweep_goal goal = {place->goal, place->best_height, rounds_end(place)};
        worker->height =
            sweep_place(worker->sweep, place->config->seed, worker->turn, &goal, worker->offsets);
    }
    return NULL;
}

/* A ceiling for sweeps: near the bound at first, or half as far from it as the best; when
 * sweeps did not stay below one, halfway between that and the best. */
static int64_t pick_ceiling(struct place_task *place)
{
    int64_t bound = place->sections->lower_bound, least = bound / CEILING_PART;
    int64_t above = (place->best_height - bound) / 2;

    if (place->config->capacity)
        return place->target;
    if (place->best_height - place->missed < least / 8)
        place->missed = 0; /* nothing is left between: from below once more */
    if (place->missed)
        return place->missed + (place->best_height - place->missed) / 2;
    return bound + (above < least ? above : least);
}

/* ---- Rounds --------------------------------------------------------------------------- */

/* How rounds of a kind have gone. */
struct kind {
    uint32_t rounds;
    int64_t best; /* height                                  */
};

/* Whether a round is one of sweeps. Where there are many buffers, skylines have the first
 * two rounds and sweeps the next three; then they take turns, and the kind that has the
 * lower height is given two turns more. */
static bool is_sweep_round(const struct place_task *place, uint32_t round,
                           const struct kind *sweeps, const struct kind *skylines)
{
    if (place->sections->buffer_count <= SEARCH_BUFFERS_MAX || place->sections->has_fixed)
        return false;
    if (round < 5)
        return round >= 2;
    return round % 4 < 2 ? round % 2 : sweeps->best < skylines->best;
}

/* Work done so far, in buffers placed by a sweep; a skyline takes twice the time. */
static uint64_t work_done(const struct place_task *place, const struct kind *skylines)
{
    uint64_t work = (uint64_t)2 * PAIR * skylines->rounds * place->sections->buffer_count;

    for (int w = 0; w < PAIR; w++)
        if (place->workers[w].sweep)
            work += sweep_work(place->workers[w].sweep);
    return work;
}

/* Whether enough was done when no time is given: half the work when sweeps have reached
 * their first ceiling. */
static bool is_enough(const struct place_task *place, uint32_t round, uint64_t work)
{
    int64_t bound = place->sections->lower_bound;

    if (place->best_height <= bound + bound / CEILING_PART)
        return round >= ROUNDS_MIN && work >= ROUND_WORK / 2;
    return round > ROUNDS_MIN && work >= ROUND_WORK;
}

/* Runs a round, and keeps what is best. */
static acre_status run_round(struct place_task *place, struct kind *kind, void *(*work)(void *))
{
    for (int w = 0; w < PAIR; w++)
        place->workers[w].turn = PAIR * kind->rounds + (uint32_t)w;
    kind->rounds++;
    acre_status status = run_pair(place, work);
    for (int w = 0; w < PAIR && status == ACRE_OK; w++) {
        place_keep(place, &place->workers[w]);
        if (place->workers[w].height < kind->best)
            kind->best = place->workers[w].height;
    }
    return status;
}

static acre_status run_rounds(struct place_task *place)
{
    bool is_searched = place->sections->buffer_count <= SEARCH_BUFFERS_MAX;
    struct kind skylines = {0, INT64_MAX}, sweeps = {0, INT64_MAX};
    uint32_t misses = 0;

    for (uint32_t round = 0; place->best_height > place->target; round++) {
        uint64_t work = work_done(place, &skylines);
        if (is_searched ? round >= SEARCHED_ROUNDS
                        : place->deadline == 0 && is_enough(place, round, work))
            break;
        if (round && clock_is_past(rounds_end(place)))
            break;
        bool is_sweep = is_sweep_round(place, round, &sweeps, &skylines);
        place->goal = is_sweep ? pick_ceiling(place) : 0;
        acre_status status = is_sweep ? run_round(place, &sweeps, work_sweep)
                                      : run_round(place, &skylines, work_skyline);
        if (status != ACRE_OK)
            return status;
        if (is_sweep && place->best_height > place->goal && ++misses % MISSES == 0)
            place->missed = place->goal;
        place_tell(place,
                   is_searched ? 0.5 * (round + 1) / SEARCHED_ROUNDS : (double)work / ROUND_WORK);
    }
    return ACRE_OK;
}

/* ---- Search ------------------------------------------------------------------------- */

/* When searches end at the latest, also when an amount of work was asked for: what a piece of
 * work costs is an estimate. */
static double search_end(const struct place_task *place)
{
    double end = place->deadline > 0 ? place->deadline : place->started + SEARCH_SECONDS_MAX;

    return clock_first(end, place->limit);
}

static void *work_search(void *arg)
{
    struct place_worker *worker = arg;
    struct place_task *place = worker->place;
    uint64_t limit = atomic_load(&place->work_limit);
    enum search_style style = !place->is_race            ? SEARCH_DOWN
                              : worker == place->workers ? SEARCH_BY_SECTION
                                                         : SEARCH_BY_FLOOR;

    search_set_deadline(worker->search, search_end(place));
    struct search_task task = {style, place->goal, place->config->seed * PAIR + worker->turn,
                               &place->work_limit};
    worker->result = search_run(worker->search, &task, worker->offsets, &worker->work);
    if (worker->result == SEARCH_LIMIT)
        return NULL;
    while (worker->work < limit &&
           !atomic_compare_exchange_weak(&place->work_limit, &limit, worker->work))
        ;
    return NULL;
}

static void place_measure(struct place_task *place, struct place_worker *worker)
{
    worker->height = 0;
    for (uint32_t i = 0; i < place->sections->buffer_count; i++) {
        int64_t top = worker->offsets[i] + place->sections->size[i];
        if (place->sections->size[i] > 0 && top > worker->height)
            worker->height = top;
    }
}

/* Searches once for a height of at most goal. */
static acre_status search_once(struct place_task *place, int64_t goal, uint32_t step, uint64_t work,
                               enum search_result *out_result)
{
    struct place_worker *winner = NULL;

    place->goal = goal;
    atomic_store(&place->work_limit, work);
    for (int w = 0; w < PAIR; w++) {
        place->workers[w].turn = step * 1000003u * PAIR + (uint32_t)w;
        place->workers[w].status = ACRE_OK;
    }
    acre_status status = run_pair(place, work_search);
    if (status != ACRE_OK)
        return status;
    for (int w = 0; w < PAIR; w++) {
        struct place_worker *worker = &place->workers[w];
        if (worker->result != SEARCH_LIMIT && (!winner || worker->work < winner->work))
            winner = worker;
    }
    *out_result = winner ? winner->result : SEARCH_LIMIT;
    if (winner && winner->result == SEARCH_FOUND) {
        place_measure(place, winner);
        place_keep(place, winner);
    }
    return ACRE_OK;
}

/* Work for one step: a fixed amount, less when time is short. */
static uint64_t step_work(const struct place_task *place, double ns, uint64_t cost)
{
    if (place->deadline > 0) {
        double left = (place->deadline - clock_now()) * 1e9;
        ns = left < ns ? left : ns;
    }
    return ns < 0 ? 1 : 1 + (uint64_t)(ns / (double)cost);
}

/* Repeats the search for the capacity with other seeds. */
static acre_status search_capacity(struct place_task *place, uint64_t cost)
{
    for (uint32_t step = 0; place->best_height > place->target; step++) {
        enum search_result result;
        if ((step && clock_is_past(search_end(place))) ||
            (place->deadline == 0 && step >= CAPACITY_STEPS))
            break;
        acre_status status =
            search_once(place, place->target, step, step_work(place, CAPACITY_NS, cost), &result);
        if (status != ACRE_OK)
            return status;
        place->is_excluded = result == SEARCH_NONE;
        if (place->is_excluded)
            break;
        place_tell(place, 0.5 + 0.5 * (step + 1) / CAPACITY_STEPS);
    }
    return ACRE_OK;
}

/* Work of a search for a goal: many short descents, or a race for as long as may be. */
static uint64_t goal_work(const struct place_task *place, const struct goal *goal, uint64_t cost)
{
    uint64_t work = step_work(place, LOWEST_STEP_NS, cost);
    uint64_t turns = LOWEST_STEP_TURNS * (uint64_t)place->sections->buffer_count;

    turns = turns < LOWEST_STEP_MIN ? LOWEST_STEP_MIN : turns;
    return goal->is_race || work < turns ? work : turns;
}

/* Looks for the lowest height. */
static acre_status search_lowest(struct place_task *place, uint64_t cost)
{
    uint64_t work = 0, most = (uint64_t)(LOWEST_NS / (double)cost);
    struct goal goal;

    goal_init(&goal, place->sections);
    for (uint32_t step = 0; goal_next(&goal, place->best_height); step++) {
        enum search_result result;
        if ((step && clock_is_past(search_end(place))) || (place->deadline == 0 && work >= most))
            break;
        place->is_race = goal.is_race;
        acre_status status =
            search_once(place, goal.height, step, goal_work(place, &goal, cost), &result);
        if (status != ACRE_OK)
            return status;
        work += atomic_load(&place->work_limit);
        goal_note(&goal, result, atomic_load(&place->work_limit));
        place_tell(place, 0.5 + 0.5 * (double)work / (double)most);
    }
    place->is_proved = place->best_height <= goal.proved;
    return ACRE_OK;
}

static acre_status run_searches(struct place_task *place)
{
    acre_status status = ACRE_OK;

    if (place->best_height <= place->target || place->sections->buffer_count > SEARCH_BUFFERS_MAX)
        return ACRE_OK;
    for (int w = 0; w < PAIR && status == ACRE_OK; w++)
        status = search_create(place->sections, &place->workers[w].search);
    if (status == ACRE_ERR_LIMIT)
        return ACRE_OK; /* too many overlaps: the skyline has to do */
    if (status != ACRE_OK)
        return status;
    place->is_race = true;
    uint64_t cost = search_work_cost(place->workers[0].search);
    return place->config->capacity ? search_capacity(place, cost) : search_lowest(place, cost);
}

/* ---- The call ------------------------------------------------------------------------ */

static void place_fini(struct place_task *place)
{
    for (int w = 0; w < PAIR; w++) {
        skyline_destroy(place->workers[w].skyline);
        sweep_destroy(place->workers[w].sweep);
        search_destroy(place->workers[w].search);
        order_work_fini(&place->workers[w].order);
        heap_free(place->workers[w].offsets);
    }
    order_facts_fini(&place->facts);
    heap_free(place->best);
    sections_destroy(place->sections);
}

static acre_status place_init(struct place_task *place, const acre_plan_buffer *buffers,
                              size_t count)
{
    acre_status status = sections_create(buffers, count, &place->sections);

    if (status != ACRE_OK)
        return status;
    place->best_height = INT64_MAX;
    place->best = heap_array(count + 1, sizeof *place->best);
    if (!place->best)
        return ACRE_ERR_HOST_MEMORY;
    status = order_facts_init(&place->facts, place->sections);
    for (int w = 0; w < PAIR && status == ACRE_OK; w++) {
        struct place_worker *worker = &place->workers[w];
        worker->place = place;
        worker->offsets = heap_array(count + 1, sizeof *worker->offsets);
        status = order_work_init(&worker->order, place->sections);
        if (!worker->offsets)
            status = ACRE_ERR_HOST_MEMORY;
    }
    return status;
}

/* Says why there is no placement within the capacity. */
static acre_status place_refuse(const struct place_task *place)
{
    const struct sections *sections = place->sections;
    unsigned long long capacity = place->config->capacity;

    if ((uint64_t)sections->lower_bound > capacity)
        return status_fail(ACRE_ERR_LIMIT,
                           "plan: %llu bytes are needed at time %llu, the capacity is %llu",
                           (unsigned long long)sections->lower_bound,
                           (unsigned long long)sections->bound_time, capacity);
    if (place->is_excluded)
        return status_fail(ACRE_ERR_LIMIT, "plan: no placement within %llu bytes exists", capacity);
    return status_fail(ACRE_ERR_LIMIT,
                       "plan: no placement within %llu bytes was found; the lowest needs %lld",
                       capacity, (long long)place->best_height);
}

/* Whether work has to end that has not found what cannot be lowered. */
static acre_status place_check_limit(const struct place_task *place)
{
    if (place->best_height <= place->target || !clock_is_past(place->limit))
        return ACRE_OK;
    return status_fail(ACRE_ERR_TIMEOUT, "plan: placing %u buffers takes longer than %g seconds",
                       place->sections->buffer_count, place->config->limit);
}

static acre_status place_run(struct place_task *place)
{
    const acre_plan_config *config = place->config;
    int64_t bound = place->sections->lower_bound;
    acre_status status = ACRE_OK;

    if (config->capacity && (uint64_t)bound > config->capacity)
        return place_refuse(place);
    place->target = bound;
    if (config->capacity)
        place->target =
            config->capacity < INT64_MAX / 16 ? (int64_t)config->capacity : INT64_MAX / 16;
    status = run_rounds(place);
    if (status == ACRE_OK)
        status = place_check_limit(place);
    if (status == ACRE_OK)
        status = run_searches(place);
    if (status == ACRE_OK)
        status = place_check_limit(place);
    place->is_proved |= place->best_height == bound;
    if (status == ACRE_OK && config->capacity && place->best_height > place->target)
        status = place_refuse(place);
    place_tell(place, 1);
    return status;
}

static void fill_result(const struct place_task *place, acre_plan_result *result)
{
    acre_plan_result filled = {
        .struct_size = sizeof filled,
        .is_optimal = place->is_proved,
        .lower_bound = (uint64_t)place->sections->lower_bound,
        .bound_time = place->sections->bound_time,
        .height = place->best_height == INT64_MAX ? 0 : (uint64_t)place->best_height,
        .seconds = clock_now() - place->started,
    };

    STRUCT_GIVE(acre_plan_result, result, &filled);
}

acre_status acre_plan_place(const acre_plan_buffer *buffers, size_t count,
                            const acre_plan_config *config, uint64_t *offsets,
                            acre_plan_result *result)
{
    acre_plan_config defaults = {.struct_size = sizeof defaults};
    struct place_task place = {.config = &defaults, .started = clock_now()};
    acre_status status = ACRE_OK;

    if (count && (!buffers || !offsets))
        return status_fail(ACRE_ERR_INVALID, "acre_plan_place: %s is NULL",
                           buffers ? "offsets" : "buffers");
    if (config)
        status = STRUCT_TAKE("acre_plan_place", acre_plan_config, config, &defaults);
    if (status == ACRE_OK && result)
        status = STRUCT_CHECK("acre_plan_place", acre_plan_result, result);
    if (status != ACRE_OK)
        return status;
    if (!(place.config->seconds >= 0) || !(place.config->limit >= 0))
        return status_fail(ACRE_ERR_INVALID, "acre_plan_place: %s is negative",
                           place.config->limit >= 0 ? "seconds" : "limit");
    place.deadline = place.config->seconds > 0 ? place.started + place.config->seconds : 0;
    place.limit = place.config->limit > 0 ? place.started + place.config->limit : 0;
    status = place_init(&place, buffers, count);
    if (status == ACRE_OK)
        status = place_run(&place);
    if (status == ACRE_OK)
        for (size_t i = 0; i < count; i++)
            offsets[i] = (uint64_t)place.best[i];
    if (result && (status == ACRE_OK || status == ACRE_ERR_LIMIT))
        fill_result(&place, result);
    place_fini(&place);
    return status;
}
