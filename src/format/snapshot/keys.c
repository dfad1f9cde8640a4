/* SPDX-License-Identifier: MIT */
#include "format/snapshot/keys.h"

const char *const key_names[NAME_COUNT] = {
#define SNAP_NAME(constant, name) name,
    SNAP_KEYS(SNAP_NAME) SNAP_ACTIONS(SNAP_NAME) SNAP_STATES(SNAP_NAME)
#undef SNAP_NAME
};
