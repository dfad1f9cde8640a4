/* SPDX-License-Identifier: MIT */
/* Access windows: the host's way into device memory.
 *
 * A window opens a whole plain allocation or a whole mapping to all threads, and
 * is counted. The pages come to the public address with the first window; from
 * then on opening and closing only changes protection.
 *
 *     count 0, no view ──open──► count 1 ◄──open/close──► count n
 *                                  │ ▲ open
 *                            close ▼ │
 *                          count 0, view without access
 *
 * With option open every view is mapped from the start and never loses access;
 * windows are counted all the same.
 */
#include "sim/sim_memory.h"

/* A window with its place; window NULL: nothing that opens lies there. */
struct window_place {
    struct sim_window *window;
    char *base;
    const struct sim_extent *extent;
};

static struct window_place place_find_locked(struct sim *sim, const void *pointer)
{
    struct sim_span *span = span_find_locked(sim, pointer);

    if (span && span->kind == SPAN_PLAIN)
        return (struct window_place){&span->window, (char *)span->node.base, &span->extent};
    if (span && span->kind == SPAN_RANGE) {
        struct sim_mapping *mapping = mapping_find_locked(span, pointer);

        if (mapping)
            return (struct window_place){&mapping->window, (char *)mapping->node.base,
                                         &mapping->handle->extent};
    }
    return (struct window_place){NULL, NULL, NULL};
}

static acre_status open_locked(struct sim *sim, const struct window_place *place)
{
    acre_status status = ACRE_OK;

    if (place->window->count == 0 && !sim_is_dry(sim) && !sim->config.open)
        status = place->window->has_view ? view_protect(place->base, place->extent->bytes, true)
                                         : view_map(place->base, place->extent);
    if (status != ACRE_OK)
        return status;
    place->window->has_view = !sim_is_dry(sim);
    place->window->count++;
    sim->memory->usage.window_count++;
    return ACRE_OK;
}

static acre_status close_locked(struct sim *sim, const struct window_place *place)
{
    acre_status status = ACRE_OK;

    if (place->window->count == 0)
        return status_fail(ACRE_ERR_STATE, "no window is open on the block at %p", place->base);
    if (place->window->count == 1 && !sim_is_dry(sim) && !sim->config.open)
        status = view_protect(place->base, place->extent->bytes, false);
    if (status != ACRE_OK)
        return status;
    place->window->count--;
    sim->memory->usage.window_count--;
    return ACRE_OK;
}

acre_status window_start(struct sim *sim, struct sim_window *window, char *base,
                         const struct sim_extent *extent)
{
    acre_status status = ACRE_OK;

    if (sim->config.open && !sim_is_dry(sim) && !window->has_view) {
        status = view_map(base, extent);
        window->has_view = status == ACRE_OK;
    }
    return status;
}

void window_drop_locked(struct sim *sim, struct sim_window *window)
{
    sim->memory->usage.window_count -= window->count;
    window->count = 0;
}

static acre_status window_change(struct sim *sim, const void *pointer,
                                 acre_status (*change)(struct sim *, const struct window_place *))
{
    acre_status status = sim_enter(sim, ACRE_SIM_ACCESS, 0, 0);

    if (status != ACRE_OK)
        return status;
    lock_take(&sim->memory->lock);
    struct window_place place = place_find_locked(sim, pointer);
    if (place.window)
        status = change(sim, &place);
    lock_drop(&sim->memory->lock);
    return status;
}

acre_status sim_access_open(void *self, const void *pointer)
{
    return window_change(self, pointer, open_locked);
}

acre_status sim_access_close(void *self, const void *pointer)
{
    return window_change(self, pointer, close_locked);
}
