/* SPDX-License-Identifier: MIT */
/* Work on a team: run by the caller on host memory, as a kernel on device memory. On a
 * device that runs no kernels of ours, only what touches control pages alone can be done, as
 * a host function, and what copies do (one_sided.c).
 *
 * A kind of work embeds struct work as its first member and gives a body. On a device the
 * whole struct travels to the kernel; pointers in it are turned into addresses that the
 * kernel may use by work_pointer and work_block.
 */
#ifndef SRC_SYMM_WORK_H
#define SRC_SYMM_WORK_H

#include "symm/symm.h"

struct work {
    acre_symm *symm;
    acre_status (*body)(struct work *work);
    const char *call;             /* name of the public call, for sentences        */
    uint64_t timeout_ms;          /* 0: for ever                                   */
    int64_t deadline;             /* 0 until somebody had to wait                  */
    acre_kernel_context *context; /* on a device, while the body runs              */
    struct outcome *outcome;      /* where a caller that waits reads the result    */
    bool is_on_host;              /* touches no memory of the device               */
};

/* Where and how it runs. */
struct place {
    acre_device *device; /* for host memory: whose stream; NULL: none              */
    void *stream;        /* NULL: the default one, where there is a device         */
    bool is_async;       /* do not wait; failures stay with the handle             */
};

/* Runs work, a struct of the given size, which is copied where it must outlive the call. */
acre_status work_run(struct work *work, size_t bytes, const struct place *place);

/* When to give up. The clock starts when it is first asked for: what need not wait does not
 * look at it. */
int64_t work_deadline(struct work *work);

/* Address of a rank's block, or NULL (and a recorded failure). */
char *work_block(struct work *work, int rank);
/* Address of memory of the user's, or NULL (and a recorded failure). */
void *work_pointer(struct work *work, const void *pointer, size_t bytes);

/* Records a failed wait for one rank. */
acre_status work_fail_wait(const struct work *work, acre_status status, int rank,
                           const char *for_what);
/* Records that ranks were late: all for which is_late says so, which are any but none. */
acre_status work_fail_late(const struct work *work, const bool *is_late, const char *for_what);

#endif
