/* SPDX-License-Identifier: MIT */
/* What is remembered lies in a table of fixed size: it is for moments without host memory. */
#include "bind/torch_use.h"

#include "bind/torch_retry.h"

#include <pthread.h>
#include <stdatomic.h>

enum { USES_MAX = 1024 };

struct missed_use {
    struct torch_home home;
    void *pointer, *stream;
    bool is_freed; /* PyTorch has freed the block */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct missed_use uses[USES_MAX]; /* lock                                      */
static _Atomic size_t count;             /* written under lock                        */
static atomic_bool is_over;              /* more was missed, of blocks nobody knows   */

static bool is_of(const struct missed_use *use, struct torch_home home, const void *pointer)
{
    return use->pointer == pointer && use->home.cache == home.cache;
}

/* Remembers a use; false: there is no room. */
static bool add_locked(struct torch_home home, void *pointer, void *stream)
{
    for (size_t i = 0; i < count; i++)
        if (is_of(&uses[i], home, pointer) && uses[i].stream == stream)
            return true;
    if (count == USES_MAX)
        return false;
    uses[count++] = (struct missed_use){home, pointer, stream, false};
    return true;
}

bool use_note(struct torch_home home, void *pointer, void *stream)
{
    acre_status status = acre_cache_record_stream(home.cache, pointer, stream);

    if (status == ACRE_OK || status == ACRE_ERR_INVALID || status == ACRE_ERR_FORKED)
        return status == ACRE_OK;
    pthread_mutex_lock(&lock);
    bool is_noted = add_locked(home, pointer, stream);
    pthread_mutex_unlock(&lock);
    if (!is_noted)
        atomic_store(&is_over, true);
    return is_noted;
}

/* Notes all uses of a block in its cache; false: some still cannot be. */
static bool settle_locked(struct torch_home home, void *pointer)
{
    bool is_settled = true;

    for (size_t i = 0; i < count;) {
        if (is_of(&uses[i], home, pointer)) {
            acre_status status = acre_cache_record_stream(home.cache, pointer, uses[i].stream);
            if (status == ACRE_OK || status == ACRE_ERR_INVALID) {
                uses[i] = uses[count - 1];
                count--;
                continue;
            }
            uses[i].is_freed = true;
            is_settled = false;
        }
        i++;
    }
    return is_settled;
}

bool use_free(struct torch_home home, void *pointer)
{
    bool is_settled = true;

    if (atomic_load_explicit(&count, memory_order_relaxed)) {
        pthread_mutex_lock(&lock);
        is_settled = settle_locked(home, pointer);
        pthread_mutex_unlock(&lock);
    }
    if (!is_settled)
        return true; /* use_retry() frees it */
    return !atomic_load(&is_over) && retry_free(home.cache, home.allocator, pointer);
}

void use_retry(void)
{
    retry_all();
    if (!atomic_load_explicit(&count, memory_order_relaxed))
        return;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < count;) {
        struct missed_use use = uses[i];
        if (!use.is_freed || !settle_locked(use.home, use.pointer)) {
            i++;
            continue;
        }
        retry_free(use.home.cache, use.home.allocator, use.pointer);
        i = 0; /* others have moved to places before */
    }
    pthread_mutex_unlock(&lock);
}

void use_fork(bool is_before)
{
    if (is_before)
        pthread_mutex_lock(&lock);
    retry_fork(is_before);
    if (!is_before)
        pthread_mutex_unlock(&lock);
}
