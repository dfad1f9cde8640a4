/* SPDX-License-Identifier: MIT */
/* One suite for all backends: every rule of acre_backend_ops, by capability.
 *
 * An instance is a program of some lines:
 *
 *     BACKEND_SUITE(.describe = acre_backend_describe)
 *     T_MAIN()
 *
 * with the function that a shared library with a backend exports. Rules about
 * groups that the backend lacks are reported as skipped; for each of those groups
 * its calls must answer ACRE_ERR_UNSUPPORTED.
 *
 * The suite uses the public interface only and is installed, for backends outside
 * of this tree; backend_suite_inside.c, which is not, looks at filled tables.
 */
#ifndef TESTS_CONFORM_BACKEND_SUITE_H
#define TESTS_CONFORM_BACKEND_SUITE_H

#include "tests/support/gate.h"
#include "tests/support/t.h"

#include <acre/acre.h>

/* An instance: describe, or open, which is for this tree. */
struct backend_suite {
    acre_backend_describe_fn describe;         /* registered before each test */
    acre_status (*open)(acre_backend **out);   /* before each test            */
    void (*close)(acre_backend *backend);      /* after it; NULL: leave alone */
    uint64_t (*held)(acre_backend *backend);   /* objects alive, for leaks; may be NULL */
    bool is_dry;           /* nothing moves, kernels do not run               */
    bool is_exact;         /* memory_info counts allocations to the byte      */
    bool is_trusting;      /* foreign handles are not recognised (real drivers) */
    bool fresh_is_zero;    /* fresh memory reads as zero                      */
};

/* What the table of a backend is, beside what Acre makes of it. */
struct suite_table {
    const acre_backend_ops *ops; /* entries of groups that it lacks may be NULL */
    void *self;
    uint32_t flags;              /* ACRE_BACKEND_* bits                         */
};

/* The table of a backend that was opened; in this tree only. */
void suite_table_inside(acre_backend *backend, struct suite_table *out)
    __attribute__((weak));

/* Among capabilities: work goes on after its call returned. */
#define SUITE_QUEUES 0x80000000u

/* What the instance says; defined by BACKEND_SUITE. */
extern struct backend_suite backend_suite;

/* One per file of the suite: naming them links their tests in. */
void suite_memory(void);
void suite_copy(void);
void suite_stream(void);
void suite_event(void);
void suite_virtual(void);
void suite_graph(void);
#ifdef ACRE_SOURCE /* this tree */
void suite_inside(void);
#define SUITE_INSIDE , suite_inside
#else
#define SUITE_INSIDE
#endif

#define BACKEND_SUITE_PARTS                                                    \
    __attribute__((used)) static void (*const suite_parts[])(void) = {         \
        suite_memory, suite_copy, suite_stream, suite_event, suite_virtual,    \
        suite_graph SUITE_INSIDE};

#define BACKEND_SUITE(...)                                                     \
    struct backend_suite backend_suite = {__VA_ARGS__};                        \
    BACKEND_SUITE_PARTS

/* What a test works on. */
struct suite {
    acre_backend *backend;
    acre_device *device;  /* index 0                              */
    acre_device *second;  /* index 1, NULL when there is only one */
    uint64_t held;        /* before the test                      */
    const acre_backend_ops *ops; /* the table, for calls that Acre answers itself */
    void *self;
    uint32_t flags;       /* ACRE_BACKEND_* bits                  */
};

/* Opens the backend; skips the test unless device 0 has all capabilities. */
struct suite suite_begin(uint32_t capabilities);
/* Facts about a device, and whether it has all of some capabilities. */
acre_device_info suite_info(acre_device *device);
bool suite_has(acre_device *device, uint32_t capabilities);
/* The words for the lowest of some capability bits. */
const char *suite_group_name(uint32_t capabilities);
/* Closes it; nothing may be held that was not before. */
void suite_end(struct suite *suite);

/* Fills device memory with a pattern, and expects it there; nothing when dry.
 * Needs ACRE_CAP_COPY. */
void suite_fill(acre_device *device, void *at, size_t bytes, unsigned pattern);
void suite_expect(acre_device *device, const void *at, size_t bytes, unsigned pattern);

/* The status is neither ACRE_OK nor that of a crash report. */
#define EXPECT_REFUSED(call)                                                   \
    do {                                                                       \
        acre_status t_s = (call);                                              \
        if (t_s == ACRE_OK || t_s == ACRE_ERR_INTERNAL)                        \
            t_fail(__FILE__, __LINE__, "%s was not refused: %s", #call,        \
                   acre_status_name(t_s));                                     \
        else if (!*acre_last_error())                                          \
            t_fail(__FILE__, __LINE__, "%s was refused without a word", #call); \
    } while (0)

#define EXPECT_OK(call)                                                        \
    do {                                                                       \
        acre_status t_s = (call);                                              \
        if (t_s != ACRE_OK)                                                    \
            t_fail(__FILE__, __LINE__, "%s: %s (%s)", #call, acre_status_name(t_s), \
                   acre_last_error());                                         \
    } while (0)

#endif
