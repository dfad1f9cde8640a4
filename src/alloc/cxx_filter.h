/* SPDX-License-Identifier: MIT */
/* A `std::function<bool(stream)>` of GNU's C++ library, seen from C.
 *
 * PyTorch's hook begin_allocate_to_pool takes one by value. In the ABI of C++ on
 * Linux that is a pointer to an object which the caller destroys, so whoever wants
 * to ask later copies it. The layout below has been part of that library's ABI
 * since GCC 4; tests/plugins/cxx.cpp compares it with the compiler's.
 */
#ifndef SRC_ALLOC_CXX_FILTER_H
#define SRC_ALLOC_CXX_FILTER_H

#include <stdbool.h>
#include <string.h>

/* What manage is asked for. */
enum cxx_filter_wish {
    CXX_FILTER_TYPE,
    CXX_FILTER_TARGET,
    CXX_FILTER_CLONE,
    CXX_FILTER_DESTROY
};

struct cxx_filter {
    void *target[2]; /* the function object, or where it is                    */
    bool (*manage)(void *to, const void *from, int wish); /* NULL: empty       */
    bool (*invoke)(const void *target, void **stream);
};

static inline void cxx_filter_copy(struct cxx_filter *to, const struct cxx_filter *from)
{
    *to = (struct cxx_filter){{NULL, NULL}, from->manage, from->invoke};
    if (from->manage)
        from->manage(to->target, from->target, CXX_FILTER_CLONE);
}

static inline void cxx_filter_drop(struct cxx_filter *filter)
{
    if (filter->manage)
        filter->manage(filter->target, filter->target, CXX_FILTER_DESTROY);
    memset(filter, 0, sizeof *filter);
}

/* An empty one says yes to everything. */
static inline bool cxx_filter_passes(const struct cxx_filter *filter, void *stream)
{
    return !filter->manage || filter->invoke(filter->target, &stream);
}

#endif
