/* SPDX-License-Identifier: MIT */
/* The stand-ins for drivers, as tests find and control them. */
#ifndef TESTS_SUPPORT_STANDIN_BED_H
#define TESTS_SUPPORT_STANDIN_BED_H

#include "tests/standin/standin.h"

#include <acre/sim.h>

#define STANDIN_CUDA ACRE_BUILD "/tests/standin/libcuda.so.1"
#define STANDIN_HIP ACRE_BUILD "/tests/standin/libamdhip64.so"
#define STANDIN_CUDA_OLD ACRE_BUILD "/tests/standin/old/libcuda.so.1"
#define STANDIN_CUDA_BARE ACRE_BUILD "/tests/standin/bare/libcuda.so.1"
#define STANDIN_CUDA_BROKEN ACRE_BUILD "/tests/standin/broken/libcuda.so.1"

/* Codes of both vendors, to fail with. */
#define STANDIN_OUT_OF_MEMORY 2
#define STANDIN_UNKNOWN 999

/* The controls of one library; see tests/standin/standin.h. */
struct standin_control {
    void *library;
    void (*fail)(const char *name, uint64_t nth, int code);
    void (*fail_nth)(uint64_t nth, int code);
    void (*spare)(int is_spared);
    uint64_t (*fail_end)(void);
    const char *(*failed)(void);
    uint64_t (*calls)(const char *name);
    uint64_t (*live)(struct standin_live *out);
    uint64_t (*restart)(const char *sim);
    int (*usage)(struct acre_sim_usage *out);
};

/* Loads a stand-in, for ever, and finds its controls; ends the test without. */
struct standin_control standin_open(const char *path);
/* The vendor that a program is to test: ACRE_TEST_DRIVER, "cuda" without. */
const char *standin_vendor(void);
const char *standin_path(const char *vendor);
/* Makes its stand-in what the library under test finds; of other backends only the
 * reference device starts. */
void standin_use_vendor(const char *vendor);
/* The backend of a vendor on a new device, in the grammar of ACRE_SIM, whose calls that
 * give something back are spared when calls fail. End it with acre_backend_unregister
 * and standin_end, which expects that nothing is held. */
acre_status standin_backend(const char *vendor, const char *sim, acre_backend **out);
void standin_end(void);
/* The controls of the vendor that standin_backend was last called for. */
extern struct standin_control standin_now;
/* A device for tests that run on the reference device and, with ACRE_TEST_DRIVER, on a
 * driver whose stand-in has that device behind it. */
bool ground_is_driver(void);
acre_backend *ground_create(const char *sim);
acre_sim_usage ground_usage(acre_backend *backend);
void ground_destroy(acre_backend *backend);
/* What is held, as text for messages; static. */
const char *standin_text(const struct standin_control *control);

#endif
