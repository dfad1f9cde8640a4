/* SPDX-License-Identifier: MIT */
/* Which of the settings tried is worth a change, and the paragraph that says so.
 *
 * Settings are ranked by the sum of what they reserve in ample memory and the smallest
 * device on which they work, for both count. A setting is recommended when it gains at
 * least 2 % of one and loses nothing of the other; of those within 2 % of the best one,
 * the simplest is taken. When the present settings do not fit the device, only settings
 * that fit are looked at; a setting that reserves more is the last resort then, and the
 * text says so.
 */
#ifndef SRC_EXPLAIN_JUDGE_H
#define SRC_EXPLAIN_JUDGE_H

#include "explain/device_state.h"
#include "explain/notes.h"
#include "explain/savings.h"

#include <acre/explain.h>

struct judgement {
    acre_advice *advice;              /* peaks, device and setting_count are known  */
    acre_setting *settings;           /* the present ones first; sorted by the call */
    const struct device_state *state; /* or NULL                                    */
    const struct savings *savings;    /* of that state; NULL without one            */
    bool is_recorded_device; /* the device is no larger than the one where the request failed */
    struct notes *notes;
    char *text; /* room for the paragraph */
    size_t text_bytes;
};

/* Sorts the settings, recommends one, and tells why.
 * Errors: ACRE_ERR_HOST_MEMORY. */
acre_status judge_settings(struct judgement *judgement);

#endif
