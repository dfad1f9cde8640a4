/* SPDX-License-Identifier: MIT */
/* What each thread has chosen.
 *
 * A thread that never chose anything owns nothing: it reads device 0 and the
 * default streams. The first choice about a backend makes a record, found by
 * the number of the backend, which is never reused; so records of backends that
 * are gone are merely useless. They are swept when the next record is made, and
 * all records go when the thread ends.
 *
 * A masquerade shows one backend under two types. Records belong to backends,
 * so both types always agree on the current device and stream.
 */
#include "backend/thread.h"

#include "backend/stream.h"
#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"

#include <pthread.h>

struct thread_record {
    struct thread_record *next;
    uint64_t number;   /* of the backend, which may be gone */
    int device;        /* current one                       */
    int64_t streams[]; /* current id of each of its devices */
};

static _Thread_local struct thread_record *records; /* of this thread, newest first */
static pthread_key_t key;                           /* exists for its destructor    */
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static int key_error;

static void records_free(void *unused)
{
    (void)unused;
    while (records) {
        struct thread_record *next = records->next;

        heap_free(records);
        records = next;
    }
}

static void key_make(void)
{
    key_error = pthread_key_create(&key, records_free);
}

static struct thread_record *record_find(const acre_backend *backend)
{
    struct thread_record *record = records;

    while (record && record->number != backend->number)
        record = record->next;
    return record;
}

static void thread_sweep(const acre_backend *gone)
{
    struct thread_record **link = &records;

    while (*link) {
        struct thread_record *record = *link;

        if (gone ? record->number == gone->number : !backend_number_is_live(record->number)) {
            *link = record->next;
            heap_free(record);
        } else {
            link = &record->next;
        }
    }
}

static acre_status record_make(const acre_backend *backend, struct thread_record **out)
{
    size_t count = (size_t)backend->device_count;
    struct thread_record *record = record_find(backend);

    if (record) {
        *out = record;
        return ACRE_OK;
    }
    pthread_once(&key_once, key_make);
    if (key_error)
        return status_fail_native(ACRE_ERR_HOST_MEMORY, key_error,
                                  "no key for thread-specific data is left");
    thread_sweep(NULL);
    record = heap_zalloc(sizeof *record + count * sizeof record->streams[0]);
    if (!record)
        return ACRE_ERR_HOST_MEMORY;
    /* Any value but NULL makes the destructor run. */
    if (pthread_setspecific(key, &key) != 0) {
        heap_free(record);
        return status_fail(ACRE_ERR_HOST_MEMORY, "thread-specific data could not be had");
    }
    record->number = backend->number;
    for (size_t i = 0; i < count; i++)
        record->streams[i] = stream_default_id(backend);
    record->next = records;
    records = record;
    *out = record;
    return ACRE_OK;
}

int thread_device(const acre_backend *backend)
{
    struct thread_record *record = record_find(backend);

    return record ? record->device : 0;
}

acre_status thread_set_device(acre_backend *backend, int index)
{
    struct thread_record *record;
    acre_status status;

    CHECK(index >= 0 && index < backend->device_count);
    if (thread_device(backend) == index)
        return ACRE_OK;
    status = record_make(backend, &record);
    if (status == ACRE_OK && (backend->groups & ACRE_CAP_CURRENT))
        status = backend->ops.set_current(backend->self, index);
    if (status == ACRE_OK)
        record->device = index;
    return status;
}

int64_t thread_stream(const acre_backend *backend, int index)
{
    struct thread_record *record = record_find(backend);

    CHECK(index >= 0 && index < backend->device_count);
    return record ? record->streams[index] : stream_default_id(backend);
}

acre_status thread_set_stream(acre_backend *backend, int index, int64_t id)
{
    struct thread_record *record;
    acre_status status;

    if (thread_stream(backend, index) == id)
        return ACRE_OK;
    status = record_make(backend, &record);
    if (status == ACRE_OK)
        record->streams[index] = id;
    return status;
}

void thread_forget(const acre_backend *backend)
{
    thread_sweep(backend);
}

void thread_reset(void)
{
    records_free(NULL);
}
