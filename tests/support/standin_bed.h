/* SPDX-License-Identifier: MIT */
/* The stand-ins for drivers, as tests find and control them. */
#ifndef TESTS_SUPPORT_STANDIN_BED_H
#define TESTS_SUPPORT_STANDIN_BED_H

#include "tests/standin/standin.h"

#define STANDIN_CUDA ACRE_BUILD "/tests/standin/libcuda.so.1"
#define STANDIN_HIP ACRE_BUILD "/tests/standin/libamdhip64.so"
#define STANDIN_CUDA_OLD ACRE_BUILD "/tests/standin/old/libcuda.so.1"
#define STANDIN_CUDA_BARE ACRE_BUILD "/tests/standin/bare/libcuda.so.1"
#define STANDIN_CUDA_BROKEN ACRE_BUILD "/tests/standin/broken/libcuda.so.1"

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
};

/* Loads a stand-in, for ever, and finds its controls; ends the test without. */
struct standin_control standin_open(const char *path);
/* Makes a stand-in what the library under test finds: the environment is set. */
void standin_use(const char *variable, const char *path);
/* What is held, as text for messages; static. */
const char *standin_text(const struct standin_control *control);

#endif
