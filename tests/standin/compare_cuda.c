/* SPDX-License-Identifier: MIT */
/* Compares the stand-in's own declarations with the vendor's. Compiled only where
 * cuda.h is found; it makes no code. */
#include <cuda.h>

#define OWN(name) own_##name
#define CUDA_TYPES_COMPARED
#include "tests/standin/cuda_map.h"
#include "tests/standin/cuda_types.h"

#define SAME_NUMBER(name, value) _Static_assert((long long)(name) == (value), #name);
CUDA_CONSTANT_MAP(SAME_NUMBER)

#define SAME_SIZE(name, ...) _Static_assert(sizeof(own_##name) == sizeof(name), #name);
CUDA_STRUCT_MAP(SAME_SIZE)

#define SAME_PLACE(name, field)                                                \
    _Static_assert(offsetof(own_##name, field) == offsetof(name, field), #name "." #field);
SAME_PLACE(CUmemLocation, id)
SAME_PLACE(CUmemAllocationProp, requestedHandleTypes)
SAME_PLACE(CUmemAllocationProp, location.id)
SAME_PLACE(CUmemAllocationProp, allocFlags)
SAME_PLACE(CUmemAccessDesc, location.id)
SAME_PLACE(CUmemAccessDesc, flags)
SAME_PLACE(CUmulticastObjectProp, size)
SAME_PLACE(CUmulticastObjectProp, handleTypes)
SAME_PLACE(CUmulticastObjectProp, flags)
SAME_PLACE(CUmemPoolProps, handleTypes)
SAME_PLACE(CUmemPoolProps, location.id)
SAME_PLACE(CUmemPoolProps, maxSize)
SAME_PLACE(CUdevResource, sm.smCount)
SAME_PLACE(CUdevResource, sm.minSmPartitionSize)
SAME_PLACE(CUdevResource, sm.smCoscheduledAlignment)

/* A declaration that differs from the vendor's does not compile. */
#define SAME_SHAPE(name, parameters) CUresult name parameters;
CUDA_MAP(SAME_SHAPE)
