/* SPDX-License-Identifier: MIT */
/* The test harness: one program per file, tests register themselves.
 *
 *   TEST(name) { EXPECT_EQ(1 + 1, 2); }
 *   T_MAIN()
 *
 * A program accepts names of tests to run, "-l" to list them and "--seed N".
 * Exit status: 0 all passed, 1 some failed, 77 all were skipped. A failed
 * EXPECT goes on, a failed REQUIRE ends its test. T_SKIP says why and leaves.
 */
#ifndef TESTS_SUPPORT_T_H
#define TESTS_SUPPORT_T_H

#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct t_case {
    const char *name;
    void (*run)(void);
    struct t_case *next;
};

void t_register(struct t_case *test);
void t_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void t_leave(void) __attribute__((noreturn));
void t_skip(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
int t_main(int argc, char **argv);

/* Pseudo-random numbers from the printed seed (ACRE_SEED or --seed). */
uint64_t t_seed(void);
uint64_t t_random(uint64_t *state);
/* The count a test runs: the small one, the large one under ACRE_TEST_LONG=1, an eighth
 * of the small one (unless below ten) under ACRE_TEST_SHORT=1, which sanitizers use.
 * ACRE_TEST_SCALE=N divides large ones, down to the small ones at most. */
uint64_t t_count(uint64_t small, uint64_t large);
/* How many times longer this build takes for a step that the library checks: 1,
 * 10 with a sanitizer, 50 where every structure is walked after every call.
 * Millions of such steps are divided by it; the plain build takes them all. */
unsigned t_slowness(void);
/* Whether this runs under qemu's user mode (ACRE_TEST_EMULATED=1, see tests/packages/aarch64.sh),
 * which lacks some of Linux. */
int t_emulated(void);
/* Path of a file below ../shared (ACRE_SHARED overrides), or NULL when absent. */
const char *t_shared(const char *name);
/* Whether AddressSanitizer or ThreadSanitizer is at work; gcc and clang say so in other words. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define T_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define T_SANITIZED 1
#endif
#endif
#ifndef T_SANITIZED
#define T_SANITIZED 0
#endif

/* Open descriptors, mappings and threads of this process, for leak tests. */
int t_fd_count(void);
int t_map_count(void);
int t_thread_count(void);
/* Threads of this process once there are no more than expected. Those that were joined are listed a
 * moment longer, and waited for; others stay, and are counted when patience is over. */
int t_threads_left(int expected);
/* Starts fn in a child process, where a failed REQUIRE ends the process; waits for one and
 * returns its wait status. */
pid_t t_start(void (*fn)(void *), void *arg);
int t_join(pid_t pid);
/* Runs fn in a child process; returns its wait status. */
int t_child(void (*fn)(void *), void *arg);
/* Whether fn dies by a memory fault when run in a child. */
int t_faults(void (*fn)(void *), void *arg);

#ifdef __cplusplus
}
#endif

#define TEST(name)                                                             \
    static void test_##name(void);                                             \
    static struct t_case case_##name = {#name, test_##name, NULL};             \
    __attribute__((constructor)) static void register_##name(void)             \
    {                                                                          \
        t_register(&case_##name);                                              \
    }                                                                          \
    static void test_##name(void)

#define T_MAIN()                                                               \
    int main(int argc, char **argv)                                            \
    {                                                                          \
        return t_main(argc, argv);                                             \
    }

#define T_SKIP(...) t_skip(__VA_ARGS__)

/* Leaves a test that needs what the emulator lacks. */
#define T_NEEDS(what)                                                          \
    do {                                                                       \
        if (t_emulated())                                                      \
            T_SKIP("the emulator lacks it: %s", what);                         \
    } while (0)

#define EXPECT(fact)                                                           \
    do {                                                                       \
        if (!(fact))                                                           \
            t_fail(__FILE__, __LINE__, "%s", #fact);                           \
    } while (0)

#define REQUIRE(fact)                                                          \
    do {                                                                       \
        if (!(fact)) {                                                         \
            t_fail(__FILE__, __LINE__, "%s", #fact);                           \
            t_leave();                                                         \
        }                                                                      \
    } while (0)

#define T_COMPARE(a, op, b, leave)                                             \
    do {                                                                       \
        long long t_a = (long long)(a), t_b = (long long)(b);                  \
        if (!(t_a op t_b)) {                                                   \
            t_fail(__FILE__, __LINE__, "%s " #op " %s: %lld against %lld", #a, #b, t_a, t_b); \
            leave;                                                             \
        }                                                                      \
    } while (0)

#define EXPECT_EQ(a, b) T_COMPARE(a, ==, b, (void)0)
#define EXPECT_NE(a, b) T_COMPARE(a, !=, b, (void)0)
#define EXPECT_LE(a, b) T_COMPARE(a, <=, b, (void)0)
#define EXPECT_LT(a, b) T_COMPARE(a, <, b, (void)0)
#define EXPECT_GE(a, b) T_COMPARE(a, >=, b, (void)0)
#define EXPECT_GT(a, b) T_COMPARE(a, >, b, (void)0)
#define REQUIRE_EQ(a, b) T_COMPARE(a, ==, b, t_leave())

#define EXPECT_PTR_EQ(a, b)                                                    \
    do {                                                                       \
        const void *t_a = (a), *t_b = (b);                                     \
        if (t_a != t_b)                                                        \
            t_fail(__FILE__, __LINE__, "%s == %s: %p against %p", #a, #b, t_a, t_b); \
    } while (0)

#define EXPECT_STR_EQ(a, b)                                                    \
    do {                                                                       \
        const char *t_a = (a), *t_b = (b);                                     \
        if (strcmp(t_a, t_b) != 0)                                             \
            t_fail(__FILE__, __LINE__, "%s == %s: \"%s\" against \"%s\"", #a, #b, t_a, t_b); \
    } while (0)

/* part occurs in text. */
#define EXPECT_HAS(text, part)                                                 \
    do {                                                                       \
        const char *t_a = (text), *t_b = (part);                               \
        if (!strstr(t_a, t_b))                                                 \
            t_fail(__FILE__, __LINE__, "\"%s\" is not in \"%s\"", t_b, t_a);   \
    } while (0)

/* The status is ACRE_OK; otherwise says which and the last error. */
#define REQUIRE_OK(call)                                                       \
    do {                                                                       \
        acre_status t_s = (call);                                              \
        if (t_s != ACRE_OK) {                                                  \
            t_fail(__FILE__, __LINE__, "%s: %s (%s)", #call, acre_status_name(t_s), \
                   acre_last_error());                                         \
            t_leave();                                                         \
        }                                                                      \
    } while (0)

#endif
