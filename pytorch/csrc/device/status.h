/* SPDX-License-Identifier: MIT */
/* From Acre's statuses to the exceptions that PyTorch's users expect. */
#pragma once

#include <acre/base.h>

namespace acre_torch {

/* Throws what fits a failed call, with Acre's last error as the text:
 *
 *   ACRE_ERR_DEVICE_MEMORY, ACRE_ERR_REJECTED   torch.OutOfMemoryError
 *   ACRE_ERR_RANGE, ACRE_ERR_INVALID, ...       RuntimeError
 *   ACRE_ERR_UNSUPPORTED                        NotImplementedError
 *   ACRE_ERR_DEVICE, ACRE_ERR_INTERNAL, ...     torch.AcceleratorError
 */
[[noreturn]] __attribute__((visibility("default"))) void status_throw(acre_status status,
                                                                     const char *what);

/* Throws when a call failed; what names the attempt, for example "allocating". */
inline void status_check(acre_status status, const char *what)
{
    if (__builtin_expect(status != ACRE_OK, 0))
        status_throw(status, what);
}

/* A struct of Acre's that says its size, otherwise zero. */
template <class T>
T sized()
{
    T made = {};

    made.struct_size = sizeof made;
    return made;
}

} // namespace acre_torch
