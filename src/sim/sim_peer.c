/* SPDX-License-Identifier: MIT */
/* Which simulated devices reach one another: the topology says who could, a call
 * says who does. */
#include "sim/sim_memory.h"

bool sim_is_linked(const struct sim *sim, int device, int other)
{
    int count = sim->device_count, apart = device > other ? device - other : other - device;

    if (device == other)
        return true;
    switch (sim->config.peers) {
    case ACRE_SIM_PEERS_ALL:
        return true;
    case ACRE_SIM_PEERS_NONE:
        return false;
    case ACRE_SIM_PEERS_RING:
        return apart == 1 || apart == count - 1;
    case ACRE_SIM_PEERS_PAIR:
        return device / 2 == other / 2;
    }
    return false;
}

acre_status sim_peer_query(void *self, int device, int other, bool *out_can)
{
    struct sim *sim = self;
    acre_status status = sim_enter(sim, ACRE_SIM_PEER, device, 0);

    if (status == ACRE_OK)
        status = sim_enter_plain(sim, other);
    if (status == ACRE_OK)
        *out_can = sim_is_linked(sim, device, other);
    return status;
}

acre_status sim_peer_enable(void *self, int device, int other)
{
    struct sim *sim = self;
    acre_status status = sim_enter(sim, ACRE_SIM_PEER, device, 0);

    if (status == ACRE_OK)
        status = sim_enter_plain(sim, other);
    if (status != ACRE_OK)
        return status;
    if (!sim_is_linked(sim, device, other))
        return status_fail(ACRE_ERR_INVALID, "peer_enable: device %d has no link to device %d",
                           device, other);
    atomic_fetch_or(&sim->peers[device], (uint64_t)1 << other);
    return ACRE_OK;
}
