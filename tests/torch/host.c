/* SPDX-License-Identifier: MIT */
/* libacre_torch.so as PyTorch uses it: loaded by path, functions found by name,
 * called from several threads with the streams of several devices, each free with
 * what was noted at its allocation. ACRE_BACKEND names the device. */
#include "tests/torch/bed.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>

TEST(memory_is_given_and_taken_back)
{
    char text[8] = "";

    start();
    void *a = torch.malloc(1000, 0, NULL), *b = torch.malloc(5 << 20, 0, NULL);
    REQUIRE(a && b);
    REQUIRE_OK(acre_copy(device, a, "tensor", 7, ACRE_COPY_HOST_TO_DEVICE));
    REQUIRE_OK(acre_copy(device, text, a, 7, ACRE_COPY_DEVICE_TO_HOST));
    EXPECT_STR_EQ(text, "tensor");
    EXPECT_GE(allocated_now(), 1000 + (5 << 20));
    torch.free(a, 1000, 0, NULL);
    EXPECT_PTR_EQ(torch.malloc(1000, 0, NULL), a); /* cached */
    torch.free(a, 1000, 0, NULL);
    torch.free(b, 5 << 20, 0, NULL);
    EXPECT_EQ(allocated_now(), 0);
    EXPECT_GT(reserved_now(), 0);
    torch.reset();
    EXPECT_EQ(reserved_now(), 0);
}

TEST(what_cannot_be_is_NULL_and_changes_nothing)
{
    int foreign;

    start();
    EXPECT(!torch.malloc(0, 0, NULL));
    EXPECT(!torch.malloc(-1, 0, NULL));
    EXPECT(!torch.malloc((ssize_t)1 << 61, 0, NULL));
    EXPECT(*acre_last_error());
    EXPECT(!torch.malloc(100, -1, NULL));
    EXPECT(!torch.malloc(100, 63, NULL));
    EXPECT(!torch.malloc(100, 64, NULL));
    torch.free(NULL, 0, 0, NULL);
    torch.free(&foreign, 4, 0, NULL);
    torch.free(&foreign, 4, 1000, NULL);
    torch.record_stream(&foreign, NULL);
    EXPECT_PTR_EQ(torch.base_alloc(&foreign, NULL), &foreign);
    torch.memory_fraction(7, 0);
    torch.end(0, (acre_pool_id){0, 1234567});
    torch.release(0, (acre_pool_id){0, 1234567});
    EXPECT_EQ(allocated_now(), 0);
}

TEST(the_memory_fraction_is_a_limit)
{
    uint64_t free_bytes, total;

    start();
    torch.reset();
    REQUIRE_OK(acre_device_memory(device, &free_bytes, &total));
    torch.memory_fraction((4 << 20) / (double)total, 0);
    EXPECT(!torch.malloc(64 << 20, 0, NULL));
    torch.memory_fraction(1, 0);
    void *pointer = torch.malloc(64 << 20, 0, NULL);
    EXPECT(pointer);
    torch.free(pointer, 64 << 20, 0, NULL);
    torch.reset();
}

TEST(a_base_holds_its_pointer)
{
    size_t bytes = 0;

    start();
    char *pointer = torch.malloc(3000, 0, NULL);
    char *base = torch.base_alloc(pointer, &bytes);
    EXPECT(base <= pointer && pointer + 3000 <= base + bytes);
    torch.free(pointer, 3000, 0, NULL);
}

static _Atomic int may_pass;

static void hold_up(void *arg)
{
    (void)arg;
    while (!may_pass)
        sched_yield();
}

TEST(a_recorded_stream_keeps_memory_from_reuse)
{
    start();
    if (!has_streams)
        T_SKIP("this backend has no streams");
    void *mine = new_stream(), *other = new_stream();
    may_pass = 0;
    void *pointer = torch.malloc(1000, 0, mine);
    REQUIRE_OK(acre_launch_host(device, other, hold_up, NULL));
    torch.record_stream(pointer, other);
    torch.free(pointer, 1000, 0, mine);
    void *next = torch.malloc(1000, 0, mine);
    EXPECT(next && next != pointer);
    may_pass = 1;
    REQUIRE_OK(acre_stream_native_synchronize(device, other));
    torch.free(next, 1000, 0, mine);
    torch.reset();
    EXPECT_EQ(reserved_now(), 0);
    end_stream(mine);
    end_stream(other);
}

/* ---- Pools ---------------------------------------------------------------------------- */

TEST(pools_take_what_their_filter_passes)
{
    void (*call_begin)(void *, int, unsigned long long, unsigned long long, void *, bool);
    int (*filters_alive)(void);
    char one, two; /* the host backend takes any address for a stream */

    start();
    void *cxx = dlopen(ACRE_BUILD "/tests/plug_cxx.so", RTLD_NOW | RTLD_LOCAL);
    if (!cxx)
        T_SKIP("there is no plug-in in C++: %s", dlerror());
    *(void **)&call_begin = dlsym(cxx, "cxx_call_begin");
    *(void **)&filters_alive = dlsym(cxx, "cxx_filters_alive");
    void *mine = has_streams ? new_stream() : &one, *other = has_streams ? new_stream() : &two;
    acre_pool_id id = acre_pool_id_next();
    for (int is_large = 0; is_large < 2; is_large++) {
        call_begin((void *)torch.begin, 0, id.graph, id.user, mine, is_large);
        EXPECT_EQ(filters_alive(), is_large);
        void *in = torch.malloc(1000, 0, mine), *out = torch.malloc(1000, 0, other);
        EXPECT_EQ(live_in(id), 1);
        torch.end(0, id);
        EXPECT_EQ(filters_alive(), 0);
        void *after = torch.malloc(1000, 0, mine);
        EXPECT_EQ(live_in(id), 1);
        torch.free(in, 1000, 0, mine);
        torch.free(out, 1000, 0, other);
        torch.free(after, 1000, 0, mine);
    }
    torch.release(0, id); /* one for each begin */
    EXPECT_EQ(uses_of(0, id), 1);
    torch.release(0, id);
    torch.reset();
    EXPECT_EQ(reserved_now(), 0);
    if (has_streams) {
        end_stream(mine);
        end_stream(other);
    }
    dlclose(cxx);
}

/* A filter of PyTorch throws when the driver gives no answer; what it was asked for ends with the
 * exception, and nothing else does. */
TEST(a_filter_that_throws_is_in_nobodys_way)
{
    void (*call_begin)(void *, int, unsigned long long, unsigned long long, void *);
    bool (*call_malloc)(void *, ssize_t, int, void *, void **);
    char one, two;
    void *pointer;

    start();
    void *cxx = dlopen(ACRE_BUILD "/tests/plug_cxx.so", RTLD_NOW | RTLD_LOCAL);
    if (!cxx)
        T_SKIP("there is no plug-in in C++: %s", dlerror());
    *(void **)&call_begin = dlsym(cxx, "cxx_call_begin_throwing");
    *(void **)&call_malloc = dlsym(cxx, "cxx_call_malloc");
    void *mine = has_streams ? new_stream() : &one, *bad = has_streams ? new_stream() : &two;
    acre_pool_id id = acre_pool_id_next();
    call_begin((void *)torch.begin, 0, id.graph, id.user, bad);
    for (int i = 0; i < 3; i++) {
        EXPECT(call_malloc((void *)torch.malloc, 1000, 0, bad, &pointer));
        EXPECT(!pointer);
        EXPECT(!call_malloc((void *)torch.malloc, 1000, 0, mine, &pointer));
        EXPECT_EQ(live_in(id), 1);
        torch.free(pointer, 1000, 0, mine);
    }
    REQUIRE_OK(acre_cache_check(torch.cache(0)));
    torch.end(0, id);
    torch.release(0, id);
    EXPECT(!call_malloc((void *)torch.malloc, 1000, 0, bad, &pointer));
    torch.free(pointer, 1000, 0, bad);
    torch.reset();
    EXPECT_EQ(reserved_now(), 0);
    if (has_streams) {
        end_stream(mine);
        end_stream(bad);
    }
    dlclose(cxx);
}

/* PyTorch cannot be told to come again. */
TEST(what_is_freed_while_its_pool_sleeps_is_freed_on_waking)
{
    enum { BYTES = 4 << 20 };
    acre_pool_config config = {.struct_size = sizeof config, .flags = ACRE_POOL_STITCHED};

    start();
    acre_pool_id pool = acre_pool_id_next();
    REQUIRE_OK(acre_pool_create(torch.cache(0), pool, &config));
    torch.begin(0, pool, NULL);
    void *held = torch.malloc(BYTES, 0, NULL), *dropped = torch.malloc(BYTES, 0, NULL);
    torch.end(0, pool);
    acre_status status = acre_cache_sleep(torch.cache(0), &pool, NULL, ACRE_SLEEP_DISCARD);
    if (status == ACRE_OK) {
        torch.free(dropped, BYTES, 0, NULL);
        EXPECT_EQ(live_in(pool), 2);
        REQUIRE_OK(acre_cache_wake(torch.cache(0), &pool, NULL));
    } else {
        EXPECT_EQ(status, ACRE_ERR_UNSUPPORTED); /* a device without pages */
        torch.free(dropped, BYTES, 0, NULL);
    }
    EXPECT_EQ(live_in(pool), 1);
    torch.free(held, BYTES, 0, NULL);
    torch.release(0, pool);
    torch.release(0, pool);
    torch.reset();
    EXPECT_EQ(reserved_now(), 0);
}

/* The two directions meet: Acre as a plug-in of Acre, hooks and all. */
TEST(it_is_a_plugin_like_any_other)
{
    acre_pluggable_hooks hooks = {.struct_size = sizeof hooks};
    acre_pluggable_config config = {.struct_size = sizeof config, .hooks = &hooks};
    acre_allocator *allocator;
    acre_data_ptr ptr;
    size_t bytes;
    void *base;

    start();
    hooks.init = torch.init;
    hooks.reset = torch.reset;
    hooks.memory_fraction = torch.memory_fraction;
    hooks.base_alloc = torch.base_alloc;
    hooks.record_stream = torch.record_stream;
    hooks.begin_allocate_to_pool = torch.begin;
    hooks.end_allocate_to_pool = torch.end;
    hooks.release_pool = torch.release;
    REQUIRE_OK(acre_pluggable_open(acre_device_id_of(device).type, PATH, "acre_torch_malloc",
                                   "acre_torch_free", &config, &allocator));
    acre_pool_id id = acre_pool_id_next();
    REQUIRE_OK(acre_pluggable_pool_begin(allocator, 0, id, NULL, NULL));
    REQUIRE_OK(acre_allocator_allocate(allocator, 1000, &ptr));
    REQUIRE_OK(acre_pluggable_pool_end(allocator, 0, id));
    EXPECT_EQ(live_in(id), 1);
    REQUIRE_OK(acre_pluggable_base(allocator, ptr.data, &base, &bytes));
    EXPECT_GE(bytes, 1000);
    REQUIRE_OK(acre_pluggable_memory_fraction_set(allocator, 0, 0.5));
    EXPECT(acre_cache_memory_fraction_get(torch.cache(0)) < 0.51);
    REQUIRE_OK(acre_pluggable_memory_fraction_set(allocator, 0, 1));
    acre_data_ptr_clear(&ptr);
    EXPECT_EQ(allocated_now(), 0);
    REQUIRE_OK(acre_pluggable_pool_release(allocator, 0, id));
    REQUIRE_OK(acre_allocator_empty_cache(allocator));
    EXPECT_EQ(reserved_now(), 0);
    REQUIRE_OK(acre_pluggable_close(allocator));
}

/* ---- Faults ---------------------------------------------------------------------------- */

enum { PIECES = 4 };
static const ssize_t piece_bytes[PIECES] = {1000, 300000, 3 << 20, 30 << 20};

/* What PyTorch does in a step: memory on two streams, used on both, given back, emptied.
 * Whatever fails is NULL, or is done by the time everything is tried again. */
static void step_of_torch(void *mine, void *other)
{
    void *pieces[PIECES];
    size_t bytes;

    for (int i = 0; i < PIECES; i++)
        pieces[i] = torch.malloc(piece_bytes[i], 0, i % 2 ? mine : other);
    for (int i = 0; i < PIECES; i++)
        if (pieces[i]) {
            torch.record_stream(pieces[i], mine);
            torch.base_alloc(pieces[i], &bytes);
        }
    for (int i = 0; i < PIECES; i++)
        torch.free(pieces[i], piece_bytes[i], 0, i % 2 ? mine : other);
    torch.reset();
}

TEST(every_call_of_the_device_may_fail)
{
    bool is_hit = true;
    uint64_t nth;

    start();
    if (!faults_find())
        T_SKIP("calls of this backend cannot be made to fail");
    void *mine = new_stream(), *other = new_stream();
    torch.reset();
    for (nth = 1; is_hit; nth++) {
        faults_arm(nth);
        step_of_torch(mine, other);
        is_hit = faults_end();
        REQUIRE_OK(acre_cache_check(torch.cache(0)));
        torch.reset();
        EXPECT_EQ(allocated_now(), 0);
        EXPECT_EQ(reserved_now(), 0);
        REQUIRE(nth < 1000);
    }
    EXPECT_GT(nth, 20);
    end_stream(mine);
    end_stream(other);
}

/* ---- Threads --------------------------------------------------------------------------- */

enum { THREADS = 4, SLOTS = 32 };

struct piece {
    void *pointer;
    ssize_t bytes;
    void *stream;
};

static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER;
static struct piece shared[SLOTS]; /* threads free each other's */
static void *streams[THREADS];

static void *work(void *arg)
{
    uint64_t seed = t_seed() + (uintptr_t)arg, steps = t_count(20000, 1000000) / t_slowness();

    for (uint64_t i = 0; i < steps; i++) {
        struct piece piece = {NULL, (ssize_t)(1 + t_random(&seed) % 200000),
                              streams[t_random(&seed) % THREADS]};
        piece.pointer = torch.malloc(piece.bytes, 0, piece.stream);
        if (!piece.pointer)
            t_fail(__FILE__, __LINE__, "%s", acre_last_error());
        if (has_streams && t_random(&seed) % 16 == 0)
            torch.record_stream(piece.pointer, streams[t_random(&seed) % THREADS]);
        struct piece *slot = &shared[t_random(&seed) % SLOTS];
        pthread_mutex_lock(&shared_lock);
        struct piece old = *slot;
        *slot = piece;
        pthread_mutex_unlock(&shared_lock);
        torch.free(old.pointer, old.bytes, 0, old.stream);
        if (t_random(&seed) % 2000 == 0)
            torch.reset();
    }
    return NULL;
}

TEST(threads_and_streams)
{
    pthread_t threads[THREADS];

    start();
    for (int i = 0; i < THREADS; i++)
        streams[i] = new_stream();
    for (int i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < SLOTS; i++)
        torch.free(shared[i].pointer, shared[i].bytes, 0, shared[i].stream);
    memset(shared, 0, sizeof shared);
    EXPECT_EQ(allocated_now(), 0);
    REQUIRE_OK(acre_cache_check(torch.cache(0)));
    torch.reset();
    EXPECT_EQ(reserved_now(), 0);
    for (int i = 0; i < THREADS; i++)
        end_stream(streams[i]);
}

/* PyTorch leaves everything to the end of the process. Here threads of the device end
 * before, for sanitizers that look for them. */
int main(int argc, char **argv)
{
    int status = t_main(argc, argv);
    acre_backend *backend;

    if (device && acre_backend_find(getenv("ACRE_BACKEND") ? getenv("ACRE_BACKEND") : "sim",
                                    &backend) == ACRE_OK) {
        for (int i = 0; i < acre_backend_device_count(backend); i++)
            acre_cache_destroy(torch.cache(i));
        acre_backend_unregister(backend);
    }
    return status;
}
