/* SPDX-License-Identifier: MIT */
/* Records of a rendezvous of any bytes: never a crash; what is accepted is the same again
 * after it was written and read, and can be checked beside itself. */
#include "symm/link/record.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct record records[2];
    uint8_t bytes[RECORD_BYTES];

    if (record_decode(data, size, &records[0]) != ACRE_OK)
        return 0;
    record_encode(&records[0], bytes);
    FUZZ_EXPECT(record_decode(bytes, sizeof bytes, &records[1]) == ACRE_OK);
    FUZZ_EXPECT(records[0].block_bytes == records[1].block_bytes &&
                records[0].epoch == records[1].epoch && records[0].type == records[1].type);
    FUZZ_EXPECT(records[0].pad_offset + records[0].pad_bytes <= records[0].block_bytes);
    record_check(records, 2);
    return 0;
}
