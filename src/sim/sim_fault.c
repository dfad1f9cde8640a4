/* SPDX-License-Identifier: MIT */
/* A call costs one predictable branch while nothing is armed: is_slow is false.
 * Otherwise it first takes the time of the latency model, then asks each armed
 * fault in turn; the first that applies decides. */
#include "sim/sim_fault.h"

#include "base/process/fork.h"
#include "base/heap.h"
#include "base/struct_size.h"

#include <time.h>

/* A fault with its progress. */
struct armed {
    acre_sim_fault fault;
    uint64_t left;   /* calls until the n-th; 0: has happened, or no n-th */
    uint64_t random; /* state of the chance                               */
};

struct sim_faults {
    struct lock lock; /* RANK_LEAF; guards the rest                */
    struct armed armed[ACRE_SIM_FAULT_MAX];
    uint32_t count;
    uint64_t hits; /* calls failed or delayed since all were off */
};

_Atomic unsigned sim_fork_generation;

static void fork_child(void)
{
    atomic_fetch_add_explicit(&sim_fork_generation, 1, memory_order_relaxed);
}

FORK_HANDLER(sim_fork, NULL, NULL, fork_child);

/* ---- Life ------------------------------------------------------------------- */

static void slow_update_locked(struct sim *sim)
{
    bool is_slow = sim->config.call_ns || sim->config.byte_ps || sim->faults->count;

    atomic_store_explicit(&sim->is_slow, is_slow, memory_order_relaxed);
}

acre_status sim_faults_create(struct sim *sim)
{
    struct sim_faults *faults = heap_zalloc(sizeof *faults);

    if (!faults)
        return ACRE_ERR_HOST_MEMORY;
    sim->fork_generation = atomic_load(&sim_fork_generation);
    lock_init(&faults->lock, RANK_LEAF, "sim faults");
    sim->faults = faults;
    slow_update_locked(sim);
    for (uint32_t i = 0; i < sim->config.fault_count; i++) {
        acre_status status = sim_faults_arm(sim, &sim->config.faults[i]);

        if (status != ACRE_OK) {
            sim_faults_destroy(sim);
            return status;
        }
    }
    return ACRE_OK;
}

void sim_faults_destroy(struct sim *sim)
{
    if (!sim->faults)
        return;
    lock_fini(&sim->faults->lock);
    heap_free(sim->faults);
    sim->faults = NULL;
}

acre_status sim_faults_arm(struct sim *sim, const acre_sim_fault *given)
{
    struct sim_faults *faults = sim->faults;
    acre_sim_fault whole, *fault = &whole;
    acre_status status = STRUCT_TAKE("acre_sim_fault_arm", acre_sim_fault, given, fault);

    if (status != ACRE_OK)
        return status;
    if (fault->probability_ppm > 1000000 ||
        ((unsigned)fault->call >= ACRE_SIM_CALL_COUNT && fault->call != ACRE_SIM_ANY))
        return status_fail(ACRE_ERR_INVALID,
                           "fault: call %d does not exist, or %u is not a chance in a million",
                           (int)fault->call, fault->probability_ppm);
    lock_take(&faults->lock);
    if (faults->count == ACRE_SIM_FAULT_MAX) {
        status = status_fail(ACRE_ERR_INVALID, "fault: %d are armed already", ACRE_SIM_FAULT_MAX);
    } else {
        faults->armed[faults->count++] =
            (struct armed){.fault = *fault, .left = fault->nth, .random = fault->seed};
        slow_update_locked(sim);
    }
    lock_drop(&faults->lock);
    return status;
}

uint64_t sim_faults_disarm(struct sim *sim)
{
    struct sim_faults *faults = sim->faults;

    lock_take(&faults->lock);
    uint64_t hits = faults->hits;
    faults->count = 0;
    faults->hits = 0;
    slow_update_locked(sim);
    lock_drop(&faults->lock);
    return hits;
}

/* ---- Deciding ------------------------------------------------------------------ */

/* The next pseudo-random number (splitmix64). */
static uint64_t random_next(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Whether a fault strikes this call; moves its count and its chance on. */
static bool fault_strikes(struct armed *armed, acre_sim_call call, size_t bytes)
{
    const acre_sim_fault *fault = &armed->fault;

    if ((fault->call != ACRE_SIM_ANY && fault->call != call) || bytes < fault->bytes_min)
        return false;
    if (fault->nth)
        return armed->left > 0 && --armed->left == 0;
    if (fault->probability_ppm)
        return random_next(&armed->random) % 1000000 < fault->probability_ppm;
    return true;
}

/* The first fault that strikes, copied out; false: none. Every fault sees every
 * call, so that the counts of one do not depend on the others. */
static bool faults_ask(struct sim_faults *faults, acre_sim_call call, size_t bytes,
                       acre_sim_fault *out)
{
    bool is_struck = false;

    lock_take(&faults->lock);
    for (uint32_t i = 0; i < faults->count; i++)
        if (fault_strikes(&faults->armed[i], call, bytes) && !is_struck) {
            *out = faults->armed[i].fault;
            is_struck = true;
        }
    faults->hits += is_struck;
    lock_drop(&faults->lock);
    return is_struck;
}

/* ---- Time ------------------------------------------------------------------------ */

#define SPIN_NS 60000 /* below it the scheduler is too coarse to sleep */

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Lets time pass: sleeps through most of it, spins through the rest. */
static void sim_fault_delay(uint64_t ns)
{
    uint64_t end = now_ns() + ns;

    if (ns > SPIN_NS) {
        uint64_t until = end - SPIN_NS;
        struct timespec at = {(time_t)(until / 1000000000u), (long)(until % 1000000000u)};

        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0)
            ;
    }
    while (now_ns() < end)
        ;
}

/* What the latency model says of a call. */
static uint64_t latency_ns(const struct sim *sim, acre_sim_call call, size_t bytes)
{
    bool has_bytes = call == ACRE_SIM_ALLOC || call == ACRE_SIM_CREATE || call == ACRE_SIM_MAP ||
                     call == ACRE_SIM_COPY || call == ACRE_SIM_FILL;
    double byte_ns = has_bytes ? (double)sim->config.byte_ps * (double)bytes / 1000 : 0;

    /* A call of an absurd size fails; it need not take a century to. */
    return sim->config.call_ns + (uint64_t)(byte_ns < 1e10 ? byte_ns : 1e10);
}

/* ---- Entering ---------------------------------------------------------------------- */

static const char *const call_names[] = {
#define CALL_NAME(upper, lower) #lower,
    ACRE_SIM_CALL_MAP(CALL_NAME)
#undef CALL_NAME
};

const char *sim_call_name(acre_sim_call call)
{
    if (call == ACRE_SIM_ANY)
        return "any";
    return (unsigned)call < ACRE_SIM_CALL_COUNT ? call_names[call] : "?";
}

acre_status sim_enter_forked(acre_sim_call call)
{
    return status_fail(ACRE_ERR_FORKED,
                       "call \"%s\" in a child of fork on a reference device "
                       "that was made before it; make one in the child",
                       sim_call_name(call));
}

acre_status sim_enter_range(const struct sim *sim, acre_sim_call call, int device)
{
    return status_fail(ACRE_ERR_RANGE, "call \"%s\": device %d is not in [0, %d)",
                       sim_call_name(call), device, sim->device_count);
}

acre_status sim_enter_slow(struct sim *sim, acre_sim_call call, size_t bytes)
{
    uint64_t ns = latency_ns(sim, call, bytes);
    acre_sim_fault fault = {.struct_size = 0};

    if (ns)
        sim_fault_delay(ns);
    if (!faults_ask(sim->faults, call, bytes, &fault))
        return ACRE_OK;
    if (fault.is_delay) {
        sim_fault_delay(fault.delay_ns);
        return ACRE_OK;
    }
    return status_fail(fault.status ? fault.status : ACRE_ERR_DEVICE,
                       "a fault was asked for: call \"%s\" of %zu bytes", sim_call_name(call),
                       bytes);
}
