/* SPDX-License-Identifier: MIT */
/** @file base.h
 *  @brief Export marks, version, status codes, the last error, the log.
 *
 * Every call that can fail returns an @ref acre_status. Results go out through
 * the last parameters and are written only on @ref ACRE_OK. The first function
 * that notices a failure records a sentence about it for the calling thread;
 * acre_last_error() returns that sentence.
 *
 * Fork. A child may be made while other threads are inside calls of the library: fork waits
 * until caches, allocators and generators are between two calls, and the child finds them so.
 * Host memory (the backend "host", its caches, memory that it pins) goes on working there. Devices
 * of other backends that the parent had started do not, unless the backend says so
 * (ACRE_BACKEND_FORK_SAFE): every call on them, frees included, answers ACRE_ERR_FORKED at once,
 * and destroying what belongs to them releases host memory only. Groups, stores and their
 * servers are the parent's.
 *
 * Unloading. The shared library stays in the process after dlclose(), since threads that used
 * it call it when they end; dlopen() finds it as it was.
 *
 * Signals. Threads that the library starts have all signals blocked but those that a fault of
 * their own code raises.
 */
#ifndef ACRE_BASE_H
#define ACRE_BASE_H

#include <stddef.h>
#include <stdint.h>

/** Marks a symbol that the shared library exports. */
#if defined(__GNUC__)
#define ACRE_API __attribute__((visibility("default")))
#else
#define ACRE_API
#endif

#ifdef __cplusplus
#define ACRE_BEGIN_DECLS extern "C" {
#define ACRE_END_DECLS }
#else
/** Opens the C linkage of a header for C++ users. */
#define ACRE_BEGIN_DECLS
/** Closes it. */
#define ACRE_END_DECLS
#endif

/** Version of the headers; acre_version() tells that of the library. */
#define ACRE_VERSION_MAJOR 0
#define ACRE_VERSION_MINOR 1 /**< Grows with every release that adds calls. */
#define ACRE_VERSION_PATCH 0 /**< Grows with every release that mends.      */

ACRE_BEGIN_DECLS

/** The one list of status codes: name, number, text. Numbers are ABI. */
#define ACRE_STATUS_MAP(X)                                                     \
    X(OK, 0, "done")                                                           \
    X(ERR_INVALID, 10, "an argument is not valid")                             \
    X(ERR_RANGE, 11, "an index or number is out of range")                     \
    X(ERR_NOT_FOUND, 12, "nothing is known under that name or address")        \
    X(ERR_EXISTS, 13, "it exists already")                                     \
    X(ERR_STATE, 14, "not possible in the present state")                      \
    X(ERR_UNSUPPORTED, 20, "this device or build cannot do that")              \
    X(ERR_NOT_READY, 21, "work is still under way")                            \
    X(ERR_TIMEOUT, 22, "the deadline passed")                                  \
    X(ERR_BUSY, 23, "in use")                                                  \
    X(ERR_HOST_MEMORY, 30, "out of host memory")                               \
    X(ERR_DEVICE_MEMORY, 31, "out of device memory")                           \
    X(ERR_LIMIT, 32, "a limit that was set has been reached")                  \
    X(ERR_REJECTED, 33, "refused ahead by policy")                             \
    X(ERR_DEVICE, 40, "the device or its driver reported a failure")           \
    X(ERR_PEER, 41, "another process failed or is gone")                       \
    X(ERR_IO, 50, "reading or writing failed")                                 \
    X(ERR_FORMAT, 51, "the input is malformed")                                \
    X(ERR_CONFIG, 52, "the configuration is not valid")                        \
    X(ERR_FORKED, 60, "not usable in a child of fork")                         \
    X(ERR_INTERNAL, 90, "a fault inside the library")

/** What a call answers. */
typedef enum acre_status {
#define ACRE_STATUS_ENTRY(name, number, text) ACRE_##name = (number),
    ACRE_STATUS_MAP(ACRE_STATUS_ENTRY)
#undef ACRE_STATUS_ENTRY
} acre_status;

/** How important a log line is. */
typedef enum acre_log_level {
    ACRE_LOG_ERROR = 1, /**< Something failed that no status could carry. */
    ACRE_LOG_WARN = 2,  /**< Worth a look; work goes on.                  */
    ACRE_LOG_INFO = 3,  /**< What the library chose to do.                */
    ACRE_LOG_DEBUG = 4, /**< For finding faults.                          */
} acre_log_level;

/** Receives log lines; text has no newline and is valid during the call. */
typedef void (*acre_log_fn)(void *arg, acre_log_level level, const char *text);

/** Version of the library as "major.minor.patch". Never fails. */
ACRE_API const char *acre_version(void);

/** Name of a status such as "ACRE_ERR_INVALID"; "ACRE_ERR_?" for unknown numbers. */
ACRE_API const char *acre_status_name(acre_status status);

/** What a status means, in one short sentence. */
ACRE_API const char *acre_status_text(acre_status status);

/** The sentence about the last failure on this thread, or "" when there was none.
 *
 * Valid until the next failing call of this thread. Successful calls leave it.
 */
ACRE_API const char *acre_last_error(void);

/** The native code (errno, driver result) behind acre_last_error(), or 0. */
ACRE_API long acre_last_native(void);

/** Records why something failed, for acre_last_error() and acre_last_native() of the calling
 *  thread, and returns @p status. Backends, allocators and stores of users call it before they
 *  return a failure. At most 1023 bytes of @p text are kept; NULL is "". */
ACRE_API acre_status acre_error_set(acre_status status, long native, const char *text);

/** Sends log lines of at most @p level to @p fn; NULL silences the log again.
 *
 * Silent is the default. The environment variable ACRE_LOG ("error", "warn",
 * "info", "debug") sends lines to standard error while no function is set.
 * Threads: any; the function is called without any lock of the library held.
 */
ACRE_API void acre_log_set(acre_log_fn fn, void *arg, acre_log_level level);

/** Limits the host memory that the library takes for itself, in bytes; 0: no limit (default).
 *
 * For programs that read files of strangers: a small compressed file can ask for any amount of
 * memory. Calls that would need more fail with ACRE_ERR_HOST_MEMORY and change nothing. Memory of
 * devices does not count, nor does what was taken before the first limit was set.
 * Threads: any.
 */
ACRE_API void acre_host_limit_set(uint64_t bytes);

/** The limit set last; 0: none. */
ACRE_API uint64_t acre_host_limit_get(void);

/** Counts host memory of the caller against that limit: bytes taken, or given back when
 *  negative. Returns how many bytes are left, UINT64_MAX without a limit. libacre_tools counts
 *  its own memory with it; backends and allocators of users may. Threads: any. */
ACRE_API uint64_t acre_host_limit_count(int64_t bytes);

ACRE_END_DECLS

#endif
