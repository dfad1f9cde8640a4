/* SPDX-License-Identifier: MIT */
/* Recording why a call failed.
 *
 * The first function that detects a failure calls status_fail and returns its
 * result; callers pass the code on. The text is kept per thread.
 */
#ifndef SRC_BASE_STATUS_H
#define SRC_BASE_STATUS_H

#include <acre/base.h>

#include <stdint.h>

/* Records a sentence for acre_last_error and returns status. */
acre_status status_fail(acre_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3), cold));

/* Records a failure with a native code (errno, driver result) for acre_last_native. */
acre_status status_fail_native(acre_status status, long native, const char *format, ...)
    __attribute__((format(printf, 3, 4), cold));

/* Puts the recorded text of a failure aside and back, around work that may fail
 * on its own while the first failure is what the user must see. */
struct status_saved {
    long native;
    char text[1024];
};
void status_save(struct status_saved *saved);
void status_restore(const struct status_saved *saved);

/* How many failures this thread has recorded. */
extern _Thread_local uint64_t status_count;

#endif
