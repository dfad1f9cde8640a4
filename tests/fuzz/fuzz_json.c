/* SPDX-License-Identifier: MIT */
/* Snapshots of any bytes, starting from JSON, ours and others'. */
#include "tests/fuzz/snapshot_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return run_snapshot(data, size);
}
