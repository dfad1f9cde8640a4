/* SPDX-License-Identifier: MIT */
/* What the comparisons with vendors' headers are written in. */
#ifndef SRC_DRIVER_CHECK_H
#define SRC_DRIVER_CHECK_H

#include <stddef.h>

#define SAME_SIZE(ours, theirs)                                                \
    _Static_assert(sizeof(ours) == sizeof(theirs) && _Alignof(ours) == _Alignof(theirs), \
                   #ours " is not as large as " #theirs);
#define SAME_FIELD(ours, field, theirs, their_field)                           \
    _Static_assert(offsetof(ours, field) == offsetof(theirs, their_field) &&   \
                       sizeof(((ours *)0)->field) == sizeof(((theirs *)0)->their_field), \
                   #ours "." #field " is not " #theirs "." #their_field);

#endif
