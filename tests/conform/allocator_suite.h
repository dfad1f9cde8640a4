/* SPDX-License-Identifier: MIT */
/* One suite for all allocators: the rules of acre_allocator_ops.
 *
 * An instance is a program of some twenty lines:
 *
 *     static acre_status open_mine(acre_allocator **out) { ... }
 *     ALLOCATOR_SUITE(.open = open_mine, .close = close_mine, .type = ACRE_DEVICE_PRIVATE,
 *                     .label = ACRE_DEVICE_PRIVATE)
 *     T_MAIN()
 *
 * The devices behind it are found by their type; the first is current at the
 * start of each test.
 */
#ifndef TESTS_CONFORM_ALLOCATOR_SUITE_H
#define TESTS_CONFORM_ALLOCATOR_SUITE_H

#include "tests/support/t.h"

#include <acre/acre.h>

struct allocator_suite {
    acre_status (*open)(acre_allocator **out);
    void (*close)(acre_allocator *allocator);
    acre_device_type type;  /* whose current device is asked             */
    acre_device_type label; /* what the memory is labelled with          */
    bool is_host;           /* the host reads and writes it directly     */
    bool is_indexless;      /* labels carry index -1, whatever is current */
    bool has_one_account;   /* statistics are the same for all devices   */
    bool is_mute;           /* lack of host memory shows as that of device memory */
};

/* What the instance says; defined by ALLOCATOR_SUITE. */
extern const struct allocator_suite allocator_suite;

/* Naming them links their tests in. */
void suite_allocator(void);
void suite_allocator_threads(void);

#define ALLOCATOR_SUITE(...)                                                   \
    const struct allocator_suite allocator_suite = {__VA_ARGS__};              \
    __attribute__((used)) static void (*const suite_parts[])(void) = {         \
        suite_allocator, suite_allocator_threads};

/* Opens the allocator with device 0 current, and closes it. */
acre_allocator *allocator_begin(void);
void allocator_end(acre_allocator *allocator);

/* Fills memory of the allocator with a byte, and tells whether it holds it. */
void allocator_fill(const acre_data_ptr *ptr, int value, size_t bytes);
bool allocator_holds(const acre_data_ptr *ptr, int value, size_t bytes);

#endif
