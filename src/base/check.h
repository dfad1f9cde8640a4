/* SPDX-License-Identifier: MIT */
/* Facts the library relies on, tested at run time.
 *
 * ACRE_CHECK  0  none                       (release)
 *             1  arguments and states       (dev, asan, tsan)
 *             2  every structure after every public call  (full)
 *
 * A failed CHECK is a fault of the library, never of its user: it prints where
 * and what, and aborts. Users' mistakes come back as statuses.
 */
#ifndef SRC_BASE_CHECK_H
#define SRC_BASE_CHECK_H

#ifndef ACRE_CHECK
#define ACRE_CHECK 0
#endif

/* Prints the fact that does not hold and aborts. */
_Noreturn void check_failed(const char *file, int line, const char *fact);

#if ACRE_CHECK >= 1
#define CHECK(fact) ((fact) ? (void)0 : check_failed(__FILE__, __LINE__, #fact))
#else
#define CHECK(fact) ((void)sizeof(!(fact)))
#endif

#if ACRE_CHECK >= 2
#define CHECK_FULL(fact) CHECK(fact)
#else
#define CHECK_FULL(fact) ((void)sizeof(!(fact)))
#endif

/* ---- Hints to compiler and processor ------------------------------------------------- */

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Bytes of a line of the processor's cache. */
#define LINE_BYTES 64

/* Asks for a line to write to, ahead of time. */
static inline void line_prepare(const void *line)
{
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)line));
#else
    __builtin_prefetch(line, 1);
#endif
}

#endif
