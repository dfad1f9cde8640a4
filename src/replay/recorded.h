/* SPDX-License-Identifier: MIT */
/* What a snapshot says about the allocator it was recorded from. */
#ifndef SRC_REPLAY_RECORDED_H
#define SRC_REPLAY_RECORDED_H

#include "format/snapshot/snapshot.h"

#define RECORDED_CONF_MAX 1024

/* The settings that decide where blocks go, as a configuration string: "" for the
 * defaults, or when the snapshot does not tell. */
void recorded_conf(const struct snapshot *snapshot, char conf[RECORDED_CONF_MAX]);

/* Levels of one device while its history ran. */
struct recorded_levels {
    uint64_t reserved_peak, reserved_start;
    uint64_t requested_peak;  /* highest sum of live requested sizes                     */
    uint64_t requested_peak_entry; /* of the device's history, just after it             */
    uint64_t wanted_peak;     /* the highest sum with requests that failed               */
    uint64_t device_total;    /* at least: reserved + free at an oom event; 0: not told  */
};

struct past;
void recorded_measure(const struct snapshot *snapshot, uint32_t device, const struct past *past,
                      struct recorded_levels *out);

#endif
