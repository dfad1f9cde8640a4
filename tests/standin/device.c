/* SPDX-License-Identifier: MIT */
/* Devices of the stand-ins and what they say about themselves. */
#include "tests/standin/context.h"

#include <stdio.h>
#include <string.h>

#define UNITS 132 /* multiprocessors of each device */

CUresult cuDeviceGetCount(int *out)
{
    ENTRY(cuDeviceGetCount);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    *out = standin.device_count;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *out, int ordinal)
{
    ENTRY(cuDeviceGet);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_is_valid(ordinal))
        return CUDA_ERROR_INVALID_DEVICE;
    *out = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int bytes, CUdevice device)
{
    ENTRY(cuDeviceGetName);
    if (!name || bytes <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_is_valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    snprintf(name, (size_t)bytes, "%s %d", vendor.device_name, device);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *out, CUdevice device)
{
    ENTRY(cuDeviceGetUuid_v2);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_is_valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    memset(out, 0x5a, sizeof *out);
    out->bytes[15] = (char)device;
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *out, CUdevice device)
{
    ENTRY(cuDeviceTotalMem_v2);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_is_valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *out = standin.backend->devices[device].info.total_bytes;
    return CUDA_SUCCESS;
}

static int has(unsigned lack)
{
    return !(standin.lacks & lack);
}

static CUresult attribute_of(CUdevice_attribute attribute, int device, int *out)
{
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *out = UNITS;
        break;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        *out = device + 1;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *out = 9;
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *out = 0;
        break;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED:
        *out = 1;
        break;
    case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
        *out = has(LACK_VALUES);
        break;
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
        *out = has(LACK_VIRTUAL);
        break;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
        *out = has(LACK_VIRTUAL) && has(LACK_POSIX);
        break;
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
        *out = has(LACK_VIRTUAL) && has(LACK_FABRIC);
        break;
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
        *out = has(LACK_VIRTUAL) && has(LACK_MULTICAST);
        break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
        *out = has(LACK_POOLS);
        break;
    case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
        *out = CU_MEM_HANDLE_TYPE_NONE;
        break;
    default:
        if (attribute == 0 || attribute > 200)
            return CUDA_ERROR_INVALID_VALUE;
        *out = 0;
    }
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *out, CUdevice_attribute attribute, CUdevice device)
{
    ENTRY(cuDeviceGetAttribute);
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!device_is_valid(device))
        return CUDA_ERROR_INVALID_DEVICE;
    return attribute_of(attribute, device, out);
}

CUresult cuGetProcAddress_v2(const char *symbol, void **out, int version, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *status)
{
    ENTER(cuGetProcAddress_v2, ENTRY_EARLY);
    if (!symbol || !out || flags > 2 || version < 2000)
        return CUDA_ERROR_INVALID_VALUE;
    *out = vendor.symbol(symbol);
    if (status)
        *status = *out ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
