/* SPDX-License-Identifier: MIT */
/* What the tests of libopenreg share.
 *
 * Every test source here is compiled twice, as C and as C++, and linked with
 * libopenreg.so and the harness only. Tasks that must be seen queued or running
 * stand before a door; nothing depends on how long anything takes.
 */
#ifndef TESTS_OPENREG_SUPPORT_H
#define TESTS_OPENREG_SUPPORT_H

#include "tests/support/door.h"
#include "tests/support/t.h"

#include <openreg.h>

#include <unistd.h>

#define OK(call) REQUIRE_EQ(call, orSuccess)
#define REFUSED(call) EXPECT_EQ(call, orErrorUnknown)
#define BUSY(call) EXPECT_EQ(call, orErrorNotReady)

#ifdef __cplusplus
extern "C" {
#endif

/* Device memory with every byte set; reads it back through copies. */
void *device_block(size_t bytes, int value);
void block_set(void *block, size_t bytes, int value);
int block_is(const void *block, size_t bytes, int value);

/* Whether touching a byte faults. */
int read_faults(const void *address);
int write_faults(void *address);

size_t page_bytes(void);

orStream_t new_stream(int device);
orEvent_t new_event(int device, unsigned flags);

#ifdef __cplusplus
}
#endif

#endif
