/* SPDX-License-Identifier: MIT */
/* What the files of the stand-ins share: entering a call, handles, the books.
 *
 * Handles are numbers that are never used twice, so a handle that was destroyed
 * is known to be one. Everything below is guarded by the books' lock, which is
 * held for looking things up and noting them, not while the device works. A call
 * looks up what it needs, copies it, drops the lock and asks the device, which
 * recognises stale handles of its own.
 */
#ifndef TESTS_STANDIN_CORE_H
#define TESTS_STANDIN_CORE_H

#include "backend/backend.h"
#include "base/list.h"
#include "base/rbtree.h"
#include "tests/standin/cuda_map.h"
#include "tests/standin/cuda_types.h"
#include "tests/standin/standin.h"

#include <acre/sim.h>

#define STANDIN_EXPORT __attribute__((visibility("default")))
#define CUDA_DECLARE(name, parameters) STANDIN_EXPORT CUresult name parameters;
CUDA_MAP(CUDA_DECLARE)
CUDA_OLD_MAP(CUDA_DECLARE)
#undef CUDA_DECLARE

/* What one vendor's library is. */
struct vendor {
    const char *device_name;
    int version;           /* of the driver or runtime           */
    int priority_least;    /* of streams                         */
    int priority_greatest;
    int has_contexts;      /* 0: every thread has a device       */
    void *(*symbol)(const char *name); /* an entry point by name */
};
extern const struct vendor vendor;

/* ---- Entering ---------------------------------------------------------------- */

struct entry {
    const char *name;
    CUresult result; /* what the call answers at once, unless 0 */
};

enum entry_rule { ENTRY_STARTED, ENTRY_EARLY };

struct entry entry_begin(const char *name, enum entry_rule rule);
void entry_end(struct entry *entry);

/* Begins every entry point. Calls between entry points are not counted. */
#define ENTER(name, rule)                                                      \
    __attribute__((cleanup(entry_end))) struct entry entry_ = entry_begin(#name, rule); \
    if (entry_.result)                                                         \
        return entry_.result
#define ENTRY(name) ENTER(name, ENTRY_STARTED)

/* Looks whether a fault applies (control.c). */
CUresult control_apply(const char *name);
void control_environment(void);

/* ---- The device ---------------------------------------------------------------- */

struct settings {
    acre_backend *backend;
    const acre_backend_ops *ops;
    void *self;
    int device_count;
    size_t page_bytes;
    int version;
    CUresult init_code;
    unsigned lacks; /* LACK_* bits */
};
enum { LACK_VIRTUAL = 1, LACK_FABRIC = 2, LACK_POSIX = 4, LACK_MULTICAST = 8, LACK_POOLS = 16,
       LACK_VALUES = 32 };
extern struct settings standin;

/* The vendor's code for what the device answered. */
CUresult result_of(acre_status status);
#define SIM(entry, ...) result_of(standin.ops->entry(standin.self, ##__VA_ARGS__))

CUresult core_start(void);

/* ---- The books -------------------------------------------------------------------- */

void books_lock(void);
void books_unlock(void);

enum kind { KIND_CONTEXT = 1, KIND_STREAM, KIND_EVENT, KIND_MEMORY, KIND_MULTICAST, KIND_GRAPH,
            KIND_EXEC, KIND_POOL, KIND_GREEN, KIND_DESC };

struct object {
    enum kind kind;
    uintptr_t handle;
    int device;
};

/* Gives an object a handle; NULL when there is no memory. */
void *object_create(enum kind kind, size_t bytes, int device);
/* The object of a handle, or NULL: another kind, unknown, destroyed. */
void *object_find(enum kind kind, const void *handle);
/* Forgets the handle and frees the object. */
void object_destroy(void *object);
/* Calls fn for each object of a kind. */
void object_each(enum kind kind, void (*fn)(void *object, void *arg), void *arg);
#define HANDLE(of) ((void *)(of)->object.handle)

struct context {
    struct object object;
    int retain_count;      /* of a primary one                           */
    int is_green;
    void *default_stream;  /* of a green one; else the device's own      */
    uint64_t peers;        /* bit d: may reach memory of device d        */
};

struct stream {
    struct object object;
    struct context *context;
    void *sim;
    unsigned flags;
    int priority;
    CUgraphNode nodes[16];    /* what capture info gave last              */
};

struct event {
    struct object object;
    struct context *context;
    void *sim;
    unsigned flags;
    int was_recorded;
    struct ipc_event *shared; /* of an interprocess event that was shared */
};

enum block_kind { BLOCK_PLAIN, BLOCK_HOST, BLOCK_REGISTERED, BLOCK_POOL, BLOCK_OPENED,
                  BLOCK_RESERVED, BLOCK_MAPPING };

/* A range of addresses. */
struct block {
    struct rbnode node;
    uintptr_t base;
    size_t bytes;
    enum block_kind kind;
    int device;              /* -1 for host memory                  */
    unsigned flags;
    uint64_t number;         /* never used twice: the buffer id     */
    struct memory *memory;   /* of a mapping; NULL when multicast   */
    struct multicast *multicast;
    struct pool *pool;
    uint8_t accesses[64];    /* of a mapping, by device             */
};

/* Mappings lie in reservations and are kept apart from all other blocks. */
struct block *block_add(enum block_kind kind, uintptr_t base, size_t bytes, int device);
struct block *block_at(uintptr_t base);             /* exactly there, mappings excluded */
struct block *block_around(uintptr_t pointer);      /* a mapping first, then others     */
struct block *mapping_at(uintptr_t base);
struct block *mapping_next(struct block *mapping);
struct block *mapping_overlap(uintptr_t base, size_t bytes);
void block_remove(struct block *block);
void block_count(struct standin_live *live);

/* ---- What a call is about (context.c, stream.c) -------------------------------------- */

/* The current context of the thread; the books are locked. NULL: there is none. */
struct context *context_current(void);
/* The same as a result; books not locked. */
CUresult context_device(int *out_device);
void context_live(struct standin_live *live);

/* A stream as the device knows it, and where it is. */
struct place {
    int device;
    void *sim;
    void *context;
};
/* For asking and waiting: any stream. */
CUresult stream_place(CUstream handle, struct place *out);
/* For work: the stream must be of the current context. */
CUresult stream_work_place(CUstream handle, struct place *out);
CUresult stream_make(struct context *context, unsigned flags, int priority, CUstream *out);
/* Whether this thread may make calls that a capture forbids. */
CUresult capture_allows(void);
/* What waiting found on a stream. */
CUresult waited(acre_status status);
/* Pools give back what they need not keep; called where streams are waited for. */
void pools_settle(void);
/* The device is about to go: default pools give everything back. */
void pools_end(void);

#endif
