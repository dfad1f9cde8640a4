/* SPDX-License-Identifier: MIT */
/** @file store.h
 *  @brief Key-value stores through which processes find each other.
 *
 * One interface, five kinds: in this process, in a file, on a server reached by TCP, a view
 * of another store under a prefix, and functions of the user. Keys are texts, values are
 * bytes. A call that waits ends at the deadline of its store (acre_store_set_timeout) with
 * ACRE_ERR_TIMEOUT and a sentence that names the key; it never hangs on a server that is gone.
 *
 * Threads: every call may come from any thread; waiting calls do not hinder others.
 * Errors of all calls: ACRE_ERR_INVALID (NULL, a key that is empty or longer than 8 KiB, a
 * value longer than 8 MiB), ACRE_ERR_HOST_MEMORY, ACRE_ERR_IO, ACRE_ERR_PEER (the server is
 * gone or refused), ACRE_ERR_FORMAT (a damaged file or answer).
 *
 * Fork: stores and servers are the parent's; a child opens its own. There, every call on an
 * inherited store is ACRE_ERR_FORKED, and destroying a store or server changes nothing in the
 * parent.
 */
#ifndef ACRE_STORE_H
#define ACRE_STORE_H

#include <acre/base.h>

#include <stdbool.h>

ACRE_BEGIN_DECLS

/** A store, or a view of one. */
typedef struct acre_store acre_store;

/** A server for stores that are reached by TCP. */
typedef struct acre_store_server acre_store_server;

/** Bytes that the library allocated; give them back with acre_blob_free(). */
typedef struct acre_blob {
    void *data;   /**< Never NULL; one zero byte follows the last one. */
    size_t bytes; /**< Without that zero.                              */
} acre_blob;

/** Frees what a blob holds and empties it. NULL is accepted. */
ACRE_API void acre_blob_free(acre_blob *blob);
/** Replaces what a blob holds by a copy of @p bytes bytes. A blob of zeros is empty. */
ACRE_API acre_status acre_blob_set(acre_blob *blob, const void *data, size_t bytes);

/* ---- Kinds of store --------------------------------------------------------------- */

/** A store that lives in this process. */
ACRE_API acre_status acre_store_create_local(acre_store **out);

/** A store in a file, created with mode 0600 when it is not there.
 *
 * The last of @p workers processes that destroys its store removes the file; 0 leaves it.
 * Errors: ACRE_ERR_REJECTED (somebody else's file, or not a regular one), ACRE_ERR_FORMAT
 *         (not a store, or a record is cut short).
 */
ACRE_API acre_status acre_store_open_file(const char *path, uint32_t workers, acre_store **out);

/** A store on a server. Tries until @p timeout_ms have passed (0: 300 seconds).
 *
 * Both sides prove that they know the secret, and every message carries a proof of its own;
 * contents are not encrypted. NULL: the secret of the environment (ACRE_STORE_SECRET), or
 * none. Errors: ACRE_ERR_TIMEOUT (nobody answers), ACRE_ERR_REJECTED (another secret),
 * ACRE_ERR_LIMIT (no descriptor is left here; at once).
 */
ACRE_API acre_status acre_store_connect(const char *host, uint16_t port, const char *secret,
                                        uint64_t timeout_ms, acre_store **out);

/** A view of @p inner in which every key is preceded by the prefix and "/".
 *
 * The inner store must live longer; the view has its own timeout.
 */
ACRE_API acre_status acre_store_create_prefix(acre_store *inner, const char *prefix,
                                              acre_store **out);

/** The functions of a store that the user keeps, each for one key.
 *
 * They may be called from any thread. A function that fails changes nothing. The library
 * records the sentence of the error.
 */
typedef struct acre_store_functions {
    uint32_t struct_size; /**< sizeof(acre_store_functions).                             */
    void *self;           /**< Passed to every function.                                 */
    /** Sets a key. */
    acre_status (*set)(void *self, const char *key, const void *value, size_t bytes);
    /** Waits for a key, at most @p timeout_ms (0: for ever), and fills @p out with
     *  acre_blob_set(). Errors: ACRE_ERR_TIMEOUT. */
    acre_status (*get)(void *self, const char *key, uint64_t timeout_ms, acre_blob *out);
    /** Tells whether a key exists. */
    acre_status (*check)(void *self, const char *key, bool *out);
    /** Removes a key and tells whether it existed. */
    acre_status (*remove)(void *self, const char *key, bool *out_removed);
    /** Called by acre_store_destroy(); may be NULL. */
    void (*destroy)(void *self);
} acre_store_functions;

/** A store over functions of the user. It offers what groups need: set, get, wait, check,
 *  delete, also for several keys, and ping; other calls answer ACRE_ERR_UNSUPPORTED.
 */
ACRE_API acre_status acre_store_create_custom(const acre_store_functions *functions,
                                              acre_store **out);

/** Opens "local", "file:PATH", or "tcp:HOST:PORT" with the secret of the environment.
 *
 * Errors: ACRE_ERR_CONFIG (no such kind), and those of the kinds.
 */
ACRE_API acre_status acre_store_open(const char *address, acre_store **out);

/** Ends a store. NULL is accepted. No call may be under way. */
ACRE_API void acre_store_destroy(acre_store *store);

/** How long calls of this store wait, in milliseconds; 0: for ever. At first 300,000. */
ACRE_API acre_status acre_store_set_timeout(acre_store *store, uint64_t timeout_ms);

/* ---- Servers ---------------------------------------------------------------------- */

/** Starts a server in a thread of this process.
 *
 * @p host NULL means the loopback address; @p port 0 takes a free one. @p secret NULL: none,
 * which is refused for other than loopback addresses.
 * Errors: ACRE_ERR_IO (the address is taken), ACRE_ERR_REJECTED (no secret).
 */
ACRE_API acre_status acre_store_server_create(const char *host, uint16_t port,
                                              const char *secret, acre_store_server **out);
/** The port it listens on. */
ACRE_API uint16_t acre_store_server_port(const acre_store_server *server);
/** Stops it; clients see that it is gone. NULL is accepted. */
ACRE_API void acre_store_server_destroy(acre_store_server *server);

/* ---- Keys and values -------------------------------------------------------------- */

/** Sets a key. */
ACRE_API acre_status acre_store_set(acre_store *store, const char *key, const void *value,
                                    size_t bytes);
/** Waits for a key and gives a copy of its value. Errors: ACRE_ERR_TIMEOUT. */
ACRE_API acre_status acre_store_get(acre_store *store, const char *key, acre_blob *out);
/** Adds to the decimal number under a key, which begins at 0; gives the sum.
 *  Errors: ACRE_ERR_FORMAT (the value is no number). */
ACRE_API acre_status acre_store_add(acre_store *store, const char *key, int64_t amount,
                                    int64_t *out_sum);
/** Stores @p desired when the key has the value @p expected, or is absent and expected is
 *  empty; gives what is there afterwards. Absent and expected not empty: gives expected and
 *  stores nothing. */
ACRE_API acre_status acre_store_compare_set(acre_store *store, const char *key,
                                            const void *expected, size_t expected_bytes,
                                            const void *desired, size_t desired_bytes,
                                            acre_blob *out);
/** Whether all keys exist. */
ACRE_API acre_status acre_store_check(acre_store *store, const char *const *keys, size_t count,
                                      bool *out);
/** Waits until all keys exist, for at most so long (0: the store's own timeout).
 *  Errors: ACRE_ERR_TIMEOUT names the first key that is missing. */
ACRE_API acre_status acre_store_wait(acre_store *store, const char *const *keys, size_t count,
                                     uint64_t timeout_ms);
/** Removes a key; tells whether it was there. */
ACRE_API acre_status acre_store_delete(acre_store *store, const char *key, bool *out_removed);
/** Number of keys; of the whole store also when asked through a prefix. */
ACRE_API acre_status acre_store_count(acre_store *store, uint64_t *out);
/** Sets several keys at once: nobody sees some of them only. */
ACRE_API acre_status acre_store_multi_set(acre_store *store, const char *const *keys,
                                          const void *const *values, const size_t *bytes,
                                          size_t count);
/** Waits for all keys and gives copies of their values; @p out has room for count. */
ACRE_API acre_status acre_store_multi_get(acre_store *store, const char *const *keys,
                                          size_t count, acre_blob *out);
/** Appends to the value of a key; an absent key begins empty. */
ACRE_API acre_status acre_store_append(acre_store *store, const char *key, const void *value,
                                       size_t bytes);
/** Puts a value at the end of a queue. Queues and keys do not share names. */
ACRE_API acre_status acre_store_push(acre_store *store, const char *key, const void *value,
                                     size_t bytes);
/** Waits for a value and takes it from the front of a queue. Errors: ACRE_ERR_TIMEOUT. */
ACRE_API acre_status acre_store_pop(acre_store *store, const char *key, acre_blob *out);
/** Number of values in a queue. */
ACRE_API acre_status acre_store_length(acre_store *store, const char *key, uint64_t *out);
/** Calls @p each with every key, sorted; through a prefix, with those below it, without it. */
ACRE_API acre_status acre_store_list(acre_store *store,
                                     void (*each)(void *arg, const char *key), void *arg);
/** Waits until @p count callers have come to this key, which is used once.
 *
 * Errors: ACRE_ERR_TIMEOUT tells how many came, ACRE_ERR_STATE (all came before). */
ACRE_API acre_status acre_store_barrier(acre_store *store, const char *key, uint64_t count);
/** Sends a number there and back. */
ACRE_API acre_status acre_store_ping(acre_store *store, uint64_t number, uint64_t *out);

ACRE_END_DECLS

#endif
