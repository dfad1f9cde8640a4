/* SPDX-License-Identifier: MIT */
/* Stands in for the memory half of the reference device until that is there: weak
 * definitions that give way to the real ones. */
#include "backend/sim.h"

#define WEAK __attribute__((weak))

WEAK _Atomic unsigned sim_fork_generation;

WEAK acre_status sim_enter_forked(acre_sim_call call)
{
    (void)call;
    return ACRE_ERR_FORKED;
}

WEAK acre_status sim_enter_range(const struct sim *sim, acre_sim_call call, int device)
{
    (void)sim, (void)call, (void)device;
    return ACRE_ERR_RANGE;
}

WEAK acre_status sim_enter_slow(struct sim *sim, acre_sim_call call, size_t bytes)
{
    (void)sim, (void)call, (void)bytes;
    return ACRE_OK;
}

WEAK acre_status sim_pin(struct sim *sim, const void *pointer, size_t bytes,
                         struct sim_pin *out)
{
    (void)sim, (void)pointer, (void)bytes, (void)out;
    return ACRE_ERR_UNSUPPORTED;
}

WEAK void sim_unpin(struct sim *sim, struct sim_pin *pin)
{
    (void)sim, (void)pin;
}

WEAK acre_status sim_pin_kernel(struct sim *sim, const struct sim_pin *pin, int accessor,
                                acre_access access)
{
    (void)sim, (void)pin, (void)accessor, (void)access;
    return ACRE_OK;
}

WEAK acre_status sim_pin_copy(struct sim *sim, const struct sim_pin *pin, int accessor,
                              acre_access access)
{
    (void)sim, (void)pin, (void)accessor, (void)access;
    return ACRE_OK;
}

WEAK acre_status sim_multicast_pin(struct sim *sim, void *handle, int device, size_t offset,
                                   size_t bytes, struct sim_pin *pins, int *out_count)
{
    (void)sim, (void)handle, (void)device, (void)offset, (void)bytes, (void)pins;
    *out_count = 0;
    return ACRE_ERR_UNSUPPORTED;
}
