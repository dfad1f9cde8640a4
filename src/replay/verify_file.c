/* SPDX-License-Identifier: MIT */
/* Verifying the history of a file. */
#include <acre/trace.h>

#include "base/status.h"
#include "base/struct_size.h"
#include "format/snapshot/facts.h"
#include "replay/verify.h"

acre_status acre_replay_verify(const char *path, uint32_t device, acre_verify_result *result)
{
    acre_verify_result found = {.struct_size = sizeof found};
    struct snapshot *snapshot = NULL;
    const char *reason;
    acre_status status = STRUCT_CHECK("acre_replay_verify", acre_verify_result, result);

    if (status == ACRE_OK && !path)
        status = status_fail(ACRE_ERR_INVALID, "acre_replay_verify: path is NULL");
    if (status == ACRE_OK)
        status = snapshot_read(path, &snapshot);
    if (status == ACRE_OK && snapshot_check(snapshot) != ACRE_OK)
        status = ACRE_ERR_STATE;
    if (status == ACRE_OK)
        status = facts_device(snapshot, device, FACTS_HISTORY, &device, &reason);
    if (status == ACRE_OK)
        status = verify_device(snapshot, device, &found);
    if (status == ACRE_OK && found.events > 0 && found.compared == 0 && found.start_blocks == 0)
        status = status_fail(ACRE_ERR_NOT_FOUND,
                             "device %u has no history: nothing is allocated or freed in its %llu "
                             "events",
                             device, (unsigned long long)found.events);
    snapshot_destroy(snapshot);
    if (status == ACRE_OK)
        STRUCT_GIVE(acre_verify_result, result, &found);
    return status;
}
