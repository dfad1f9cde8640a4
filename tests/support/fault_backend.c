/* SPDX-License-Identifier: MIT */
#include "tests/support/fault_backend.h"

#include "base/status.h"

#include <pthread.h>
#include <stdlib.h>

struct fault {
    pthread_mutex_t mutex; /* guards what follows */
    enum wrap_entry entry;
    uint64_t left;         /* calls until one fails, 0: disarmed */
    acre_status status;
    bool has_failed;
};

bool fault_gives_back(enum wrap_entry entry)
{
    switch (entry) {
    case WRAP_free:
    case WRAP_stream_destroy:
    case WRAP_event_destroy:
    case WRAP_unreserve:
    case WRAP_release:
    case WRAP_unmap:
    case WRAP_multicast_unbind:
    case WRAP_multicast_release:
    case WRAP_graph_destroy:
    case WRAP_host_free:
    case WRAP_host_unregister:
    case WRAP_access_close:
    case WRAP_ipc_close:
        return true;
    default:
        return false;
    }
}

static acre_status maybe_fail(void *arg, enum wrap_entry entry)
{
    struct fault *fault = arg;
    acre_status status = ACRE_OK;

    pthread_mutex_lock(&fault->mutex);
    if (fault->left && (fault->entry == entry ||
                        (fault->entry == FAULT_ANY && !fault_gives_back(entry))) &&
        --fault->left == 0) {
        fault->has_failed = true;
        status = fault->status;
    }
    pthread_mutex_unlock(&fault->mutex);
    if (status != ACRE_OK)
        return status_fail(status, "%s failed on demand", wrap_entry_name(entry));
    return ACRE_OK;
}

acre_status fault_create(acre_backend *inner, const struct wrap_config *config,
                         acre_backend **out)
{
    struct fault *fault = calloc(1, sizeof *fault);
    acre_status status;

    pthread_mutex_init(&fault->mutex, NULL);
    status = wrap_create(inner, config, maybe_fail, free, fault, out);
    if (status != ACRE_OK)
        free(fault);
    return status;
}

void fault_arm(acre_backend *faulty, enum wrap_entry entry, uint64_t nth, acre_status status)
{
    struct fault *fault = wrap_arg(faulty);

    pthread_mutex_lock(&fault->mutex);
    fault->entry = entry;
    fault->left = nth;
    fault->status = status;
    fault->has_failed = false;
    pthread_mutex_unlock(&fault->mutex);
}

bool fault_disarm(acre_backend *faulty)
{
    struct fault *fault = wrap_arg(faulty);
    bool has_failed;

    pthread_mutex_lock(&fault->mutex);
    has_failed = fault->has_failed;
    fault->left = 0;
    fault->has_failed = false;
    pthread_mutex_unlock(&fault->mutex);
    return has_failed;
}
