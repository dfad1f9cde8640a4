/* SPDX-License-Identifier: MIT */
/* Life, seeds, offsets, states and host draws of generators. Fills are in
 * fill.c, captures in capture.c, the generators of devices in defaults.c.
 */
#include "generator/generator.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"
#include "base/text.h"
#include "generator/philox.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

/* ---- The counted state ---------------------------------------------------- */

static struct generator_state *state_create(acre_generator_kind kind)
{
    struct generator_state *state = heap_zalloc(sizeof *state);

    if (!state)
        return NULL;
    lock_init(&state->lock, RANK_GENERATOR, "generator");
    fork_guard_lock(&state->fork_guard, &state->lock);
    atomic_init(&state->users, 1);
    state->kind = kind;
    state->seed = ACRE_GENERATOR_SEED_DEFAULT;
    mt_seed(&state->mt, ACRE_GENERATOR_SEED_DEFAULT);
    return state;
}

struct generator_state *generator_state_hold(struct generator_state *state)
{
    atomic_fetch_add_explicit(&state->users, 1, memory_order_relaxed);
    return state;
}

void generator_state_drop(struct generator_state *state)
{
    if (atomic_fetch_sub_explicit(&state->users, 1, memory_order_acq_rel) != 1)
        return;
    CHECK(!state->capture);
    fork_guard_end(&state->fork_guard);
    lock_fini(&state->lock);
    heap_free(state);
}

/* Takes over one hold of the state, also on failure. */
static acre_status generator_over(struct generator_state *state, acre_device_id device,
                                  acre_generator **out)
{
    acre_generator *generator = heap_zalloc(sizeof *generator);

    if (!generator) {
        generator_state_drop(state);
        return ACRE_ERR_HOST_MEMORY;
    }
    generator->state = state;
    generator->device = device;
    *out = generator;
    return ACRE_OK;
}

static acre_status refuse_null(const char *call)
{
    return status_fail(ACRE_ERR_INVALID, "%s: an argument is NULL", call);
}

static acre_status refuse_mt(const char *call)
{
    return status_fail(ACRE_ERR_UNSUPPORTED,
                       "%s: an mt19937 generator has no offset; use its state", call);
}

static acre_status refuse_capture_locked(const struct generator_state *state, const char *call)
{
    if (!state->capture)
        return ACRE_OK;
    return status_fail(ACRE_ERR_STATE,
                       "%s: not while a capture draws from the generator; call "
                       "acre_generator_capture_end first",
                       call);
}

/* ---- Life ------------------------------------------------------------------- */

acre_status acre_generator_create(acre_generator_kind kind, acre_device_id device,
                                  acre_generator **out)
{
    struct generator_state *state;

    if (!out)
        return refuse_null("acre_generator_create");
    if (kind != ACRE_GENERATOR_PHILOX && kind != ACRE_GENERATOR_MT19937)
        return status_fail(ACRE_ERR_INVALID,
                           "acre_generator_create: kind %d is neither Philox nor mt19937",
                           (int)kind);
    state = state_create(kind);
    return state ? generator_over(state, device, out) : ACRE_ERR_HOST_MEMORY;
}

void acre_generator_destroy(acre_generator *generator)
{
    if (!generator)
        return;
    generator_state_drop(generator->state);
    heap_free(generator);
}

acre_status acre_generator_clone(acre_generator *generator, acre_generator **out)
{
    struct generator_state *from, *copy;
    acre_status status;

    if (!generator || !out)
        return refuse_null("acre_generator_clone");
    from = generator->state;
    copy = state_create(from->kind);
    if (!copy)
        return ACRE_ERR_HOST_MEMORY;
    lock_take(&from->lock);
    status = refuse_capture_locked(from, "acre_generator_clone");
    copy->seed = from->seed;
    copy->offset = from->offset;
    copy->mt = from->mt;
    lock_drop(&from->lock);
    if (status != ACRE_OK) {
        generator_state_drop(copy);
        return status;
    }
    return generator_over(copy, generator->device, out);
}

acre_status acre_generator_share(acre_generator *generator, acre_generator **out)
{
    if (!generator || !out)
        return refuse_null("acre_generator_share");
    return generator_over(generator_state_hold(generator->state), generator->device, out);
}

acre_generator_kind generator_kind_of(const acre_generator *generator)
{
    return generator ? generator->state->kind : (acre_generator_kind)0;
}

acre_device_id acre_generator_device(const acre_generator *generator)
{
    return generator ? generator->device : (acre_device_id){ACRE_DEVICE_CPU, -1};
}

/* ---- Seed and offset ----------------------------------------------------------- */

static void seed_locked(struct generator_state *state, uint64_t seed)
{
    if (state->kind == ACRE_GENERATOR_MT19937) {
        mt_seed(&state->mt, seed);
        return;
    }
    state->seed = seed;
    state->offset = 0;
}

acre_status acre_generator_set_seed(acre_generator *generator, uint64_t seed)
{
    struct generator_state *state;
    acre_status status = ACRE_OK;

    if (!generator)
        return refuse_null("acre_generator_set_seed");
    state = generator->state;
    lock_take(&state->lock);
    if (!state->capture)
        seed_locked(state, seed);
    else if (seed != state->seed)
        status = refuse_capture_locked(state, "acre_generator_set_seed: another seed");
    lock_drop(&state->lock);
    return status;
}

acre_status acre_generator_get_seed(acre_generator *generator, uint64_t *out)
{
    struct generator_state *state;

    if (!generator || !out)
        return refuse_null("acre_generator_get_seed");
    state = generator->state;
    lock_take(&state->lock);
    *out = state->kind == ACRE_GENERATOR_MT19937 ? state->mt.seed : state->seed;
    lock_drop(&state->lock);
    return ACRE_OK;
}

acre_status generator_entropy(uint64_t *out)
{
    ssize_t got;

    do
        got = getrandom(out, sizeof *out, 0);
    while (got < 0 && errno == EINTR);
    if (got == (ssize_t)sizeof *out)
        return ACRE_OK;
    return status_fail_native(ACRE_ERR_IO, errno,
                              "generator: getrandom gave no seed; set one with "
                              "acre_generator_set_seed");
}

acre_status acre_generator_seed_random(acre_generator *generator, uint64_t *out_seed)
{
    struct generator_state *state;
    uint64_t seed;
    acre_status status;

    if (!generator)
        return refuse_null("acre_generator_seed_random");
    state = generator->state;
    status = generator_entropy(&seed);
    if (status != ACRE_OK)
        return status;
    if (state->kind == ACRE_GENERATOR_PHILOX)
        seed &= (UINT64_C(1) << 53) - 1;
    lock_take(&state->lock);
    status = refuse_capture_locked(state, "acre_generator_seed_random");
    if (status == ACRE_OK)
        seed_locked(state, seed);
    lock_drop(&state->lock);
    if (status == ACRE_OK && out_seed)
        *out_seed = seed;
    return status;
}

acre_status acre_generator_get_offset(acre_generator *generator, uint64_t *out)
{
    struct generator_state *state;
    acre_status status;

    if (!generator || !out)
        return refuse_null("acre_generator_get_offset");
    state = generator->state;
    if (state->kind == ACRE_GENERATOR_MT19937)
        return refuse_mt("acre_generator_get_offset");
    lock_take(&state->lock);
    status = refuse_capture_locked(state, "acre_generator_get_offset");
    if (status == ACRE_OK)
        *out = state->offset;
    lock_drop(&state->lock);
    return status;
}

static acre_status check_offset(uint64_t offset, const char *call)
{
    if (offset % 4 == 0)
        return ACRE_OK;
    return status_fail(ACRE_ERR_INVALID, "%s: offset %llu is not a multiple of 4", call,
                       (unsigned long long)offset);
}

acre_status acre_generator_set_offset(acre_generator *generator, uint64_t offset)
{
    struct generator_state *state;
    acre_status status;

    if (!generator)
        return refuse_null("acre_generator_set_offset");
    state = generator->state;
    if (state->kind == ACRE_GENERATOR_MT19937)
        return refuse_mt("acre_generator_set_offset");
    status = check_offset(offset, "acre_generator_set_offset");
    if (status != ACRE_OK)
        return status;
    lock_take(&state->lock);
    status = refuse_capture_locked(state, "acre_generator_set_offset");
    if (status == ACRE_OK)
        state->offset = offset;
    lock_drop(&state->lock);
    return status;
}

acre_status generator_offset_after(uint64_t offset, uint64_t words, uint64_t *out)
{
    uint64_t room = (UINT64_MAX - offset) & ~UINT64_C(3);

    CHECK(offset % 4 == 0);
    if (words > room)
        return status_fail(
            ACRE_ERR_RANGE,
            "generator: from offset %llu, %llu draw%s would pass 2^64; set a new seed",
            (unsigned long long)offset, (unsigned long long)words, text_plural(words));
    *out = offset + ((words + 3) & ~UINT64_C(3));
    return ACRE_OK;
}

acre_status acre_generator_advance(acre_generator *generator, uint64_t words, uint64_t *out_offset)
{
    struct generator_state *state;
    uint64_t before;
    acre_status status;

    if (!generator || !out_offset)
        return refuse_null("acre_generator_advance");
    state = generator->state;
    if (state->kind == ACRE_GENERATOR_MT19937)
        return refuse_mt("acre_generator_advance");
    lock_take(&state->lock);
    before = state->offset;
    status = generator_offset_after(before, words, &state->offset);
    lock_drop(&state->lock);
    if (status == ACRE_OK)
        *out_offset = before;
    return status;
}

/* ---- State ------------------------------------------------------------------------ */

size_t acre_generator_state_bytes(const acre_generator *generator)
{
    if (!generator)
        return 0;
    return generator->state->kind == ACRE_GENERATOR_MT19937 ? ACRE_MT19937_STATE_BYTES
                                                            : ACRE_PHILOX_STATE_BYTES;
}

acre_status acre_generator_get_state(acre_generator *generator, void *out, size_t bytes)
{
    struct generator_state *state;
    acre_status status;

    if (!generator || !out)
        return refuse_null("acre_generator_get_state");
    if (bytes != acre_generator_state_bytes(generator))
        return status_fail(ACRE_ERR_INVALID,
                           "acre_generator_get_state: room for %zu bytes, the state has %zu", bytes,
                           acre_generator_state_bytes(generator));
    state = generator->state;
    lock_take(&state->lock);
    status = refuse_capture_locked(state, "acre_generator_get_state");
    if (status == ACRE_OK && state->kind == ACRE_GENERATOR_MT19937) {
        mt_state_get(&state->mt, out);
    } else if (status == ACRE_OK) {
        memcpy(out, &state->seed, 8);
        memcpy((uint8_t *)out + 8, &state->offset, 8);
    }
    lock_drop(&state->lock);
    return status;
}

static acre_status set_philox(struct generator_state *state, const uint8_t *bytes, size_t size)
{
    uint64_t seed, offset = 0;
    acre_status status;

    memcpy(&seed, bytes, 8);
    if (size == ACRE_PHILOX_STATE_BYTES)
        memcpy(&offset, bytes + 8, 8);
    status = check_offset(offset, "acre_generator_set_state");
    if (status != ACRE_OK)
        return status;
    lock_take(&state->lock);
    status = refuse_capture_locked(state, "acre_generator_set_state");
    if (status == ACRE_OK) {
        state->seed = seed;
        state->offset = offset;
    }
    lock_drop(&state->lock);
    return status;
}

static acre_status set_mt(struct generator_state *state, const uint8_t *bytes)
{
    acre_status status;

    lock_take(&state->lock);
    status = mt_state_set(&state->mt, bytes);
    lock_drop(&state->lock);
    return status;
}

acre_status acre_generator_set_state(acre_generator *generator, const void *state, size_t bytes)
{
    bool is_mt;

    if (!generator || !state)
        return refuse_null("acre_generator_set_state");
    is_mt = generator->state->kind == ACRE_GENERATOR_MT19937;
    if (bytes != acre_generator_state_bytes(generator) && (is_mt || bytes != 8))
        return status_fail(ACRE_ERR_INVALID, "acre_generator_set_state: %zu bytes; %s", bytes,
                           is_mt ? "an mt19937 state has 5056" : "a Philox state has 16 or 8");
    return is_mt ? set_mt(generator->state, state) : set_philox(generator->state, state, bytes);
}

/* ---- Draws on the host -------------------------------------------------------------- */

static acre_status philox_words(acre_generator *generator, uint64_t words, acre_philox *out)
{
    struct generator_state *state = generator->state;
    uint64_t before;
    acre_status status;

    lock_take(&state->lock);
    before = state->offset;
    status = generator_offset_after(before, words, &state->offset);
    acre_philox_init(out, state->seed, 0, before / 4);
    lock_drop(&state->lock);
    return status;
}

acre_status acre_generator_random32(acre_generator *generator, uint32_t *out, size_t count)
{
    struct generator_state *state;
    acre_philox engine;
    acre_status status;

    if (!generator || !out)
        return refuse_null("acre_generator_random32");
    state = generator->state;
    if (state->kind == ACRE_GENERATOR_MT19937) {
        lock_take(&state->lock);
        for (size_t i = 0; i < count; i++)
            out[i] = mt_next(&state->mt);
        lock_drop(&state->lock);
        return ACRE_OK;
    }
    status = philox_words(generator, count, &engine);
    for (size_t i = 0; i < count && status == ACRE_OK; i++)
        out[i] = acre_philox_next(&engine);
    return status;
}

acre_status acre_generator_random64(acre_generator *generator, uint64_t *out, size_t count)
{
    struct generator_state *state;
    acre_philox engine;
    acre_status status;

    if (!generator || !out || count > SIZE_MAX / 8)
        return refuse_null("acre_generator_random64 (or the count is absurd)");
    state = generator->state;
    if (state->kind == ACRE_GENERATOR_MT19937) {
        lock_take(&state->lock);
        for (size_t i = 0; i < count; i++)
            out[i] = mt_next64(&state->mt);
        lock_drop(&state->lock);
        return ACRE_OK;
    }
    status = philox_words(generator, 2 * (uint64_t)count, &engine);
    for (size_t i = 0; i < count && status == ACRE_OK; i++) {
        uint64_t high = acre_philox_next(&engine);

        out[i] = high << 32 | acre_philox_next(&engine);
    }
    return status;
}
