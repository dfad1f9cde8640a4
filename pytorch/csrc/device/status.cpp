/* SPDX-License-Identifier: MIT */
#include "device/status.h"

#include <c10/util/Exception.h>

#include <string>

namespace acre_torch {

void status_throw(acre_status status, const char *what)
{
    const char *said = acre_last_error();
    std::string text = std::string(what) + ": " + (*said ? said : acre_status_text(status));

    switch (status) {
    case ACRE_ERR_DEVICE_MEMORY:
    case ACRE_ERR_REJECTED:
        TORCH_CHECK_WITH(OutOfMemoryError, false, text);
    case ACRE_ERR_UNSUPPORTED:
        TORCH_CHECK_NOT_IMPLEMENTED(false, text);
    case ACRE_ERR_RANGE:
    case ACRE_ERR_INVALID:
    case ACRE_ERR_NOT_FOUND:
    case ACRE_ERR_EXISTS:
    case ACRE_ERR_STATE:
    case ACRE_ERR_CONFIG:
    case ACRE_ERR_FORMAT:
    case ACRE_ERR_FORKED:
        TORCH_CHECK(false, text);
    default:
        throw c10::AcceleratorError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
                                    static_cast<int32_t>(status), text);
    }
}

} // namespace acre_torch
