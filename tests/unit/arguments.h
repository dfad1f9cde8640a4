/* SPDX-License-Identifier: MIT */
/* What the tests of bad arguments share: a device with a stream, an event and memory,
 * and BAD(call), which expects a refusal with a sentence of its own. */
#ifndef TESTS_UNIT_ARGUMENTS_H
#define TESTS_UNIT_ARGUMENTS_H

#include "base/status.h"
#include "tests/support/sim_rig.h"

#include <acre/acre.h>

#define STALE "nothing was said"

static acre_device *device, *other;
static void *stream, *event, *memory;
static char host[64];

/* Refused, and told why in a sentence of this call. */
static void refused(acre_status status, const char *call, int line)
{
    if (status == ACRE_OK)
        t_fail(__FILE__, line, "%s succeeded", call);
    else if (strcmp(acre_last_error(), STALE) == 0 || acre_last_error()[0] == '\0')
        t_fail(__FILE__, line, "%s: %s without a sentence", call, acre_status_name(status));
}

#define BAD(call)                                                              \
    do {                                                                       \
        status_fail(ACRE_ERR_INTERNAL, STALE);                                 \
        refused((call), #call, __LINE__);                                      \
    } while (0)

static void begin(void)
{
    rig_open(NULL);
    REQUIRE_OK(acre_backend_device(rig.backend, 0, &device));
    REQUIRE_OK(acre_backend_device(rig.backend, 1, &other));
    stream = rig_stream(0);
    event = rig_event(0, ACRE_EVENT_TIMING);
    memory = rig_alloc(0, 4096);
}

static void end(void)
{
    REQUIRE_OK(acre_device_free(device, memory));
    REQUIRE_OK(acre_event_native_destroy(device, event));
    REQUIRE_OK(acre_stream_native_destroy(device, stream));
    rig_close();
}

#endif
