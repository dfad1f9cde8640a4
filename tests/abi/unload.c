/* SPDX-License-Identifier: MIT */
/* A library that is closed while threads that used it go on, and loaded again and again:
 * unload LIBRARY... Prints what is wrong, or nothing. */
#include <acre/acre.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *library;
static pthread_barrier_t meeting;

static void *find(const char *name)
{
    void *found = library ? dlsym(library, name) : NULL;

    if (!found) {
        printf("%s: %s\n", name, dlerror());
        exit(1);
    }
    return found;
}

/* Leaves everything in this thread that a thread keeps, by whatever the library has. */
static void use_library(void)
{
    if (dlsym(library, "acre_torch_malloc")) {
        void *(*give)(ssize_t, int, void *) = (void *(*)(ssize_t, int, void *))
            find("acre_torch_malloc");
        void (*take)(void *, ssize_t, int, void *) = (void (*)(void *, ssize_t, int, void *))
            find("acre_torch_free");
        void *pointer = give(100000, 0, NULL);
        take(pointer, 100000, 0, NULL);
        if (!pointer)
            puts("nothing was allocated");
        return;
    }
    if (dlsym(library, "acre_predict_device")) {
        int (*device)(void) = (int (*)(void))find("acre_predict_device");
        device();
        return;
    }
    if (dlsym(library, "orActivityPushExternalCorrelationId")) {
        int (*push)(uint64_t) = (int (*)(uint64_t))find("orActivityPushExternalCorrelationId");
        push(7);
        return;
    }
    acre_status (*get)(acre_device_type, int, acre_device **) =
        (acre_status(*)(acre_device_type, int, acre_device **))find("acre_device_get");
    acre_status (*make)(acre_device *, const acre_cache_config *, acre_cache **) =
        (acre_status(*)(acre_device *, const acre_cache_config *, acre_cache **))
            find("acre_cache_create");
    acre_status (*give)(acre_cache *, size_t, void *, void **) =
        (acre_status(*)(acre_cache *, size_t, void *, void **))find("acre_cache_alloc");
    acre_status (*take)(acre_cache *, void *) =
        (acre_status(*)(acre_cache *, void *))find("acre_cache_free");
    acre_device *device;
    acre_cache *cache;
    void *pointer;
    if (get(ACRE_DEVICE_CPU, 0, &device) || make(device, NULL, &cache) ||
        give(cache, 1024, NULL, &pointer) || take(cache, pointer))
        puts("the cache does not work");
    void (*end)(acre_cache *) = (void (*)(acre_cache *))find("acre_cache_destroy");
    if (getenv("UNLOAD_DESTROY"))
        end(cache);
}

static void *run_thread(void *arg)
{
    (void)arg;
    use_library();
    pthread_barrier_wait(&meeting);
    pthread_barrier_wait(&meeting); /* the library is closed meanwhile */
    return NULL;
}

/* Kilobytes of addresses that this process has. */
static long address_kb(void)
{
    char line[256];
    long kb = -1;
    FILE *file = fopen("/proc/self/status", "r");

    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, "VmSize:", 7) == 0)
            kb = atol(line + 7);
    if (file)
        fclose(file);
    return kb;
}

/* The next key of threads, of which a process has 1024. */
static long key_next(void)
{
    pthread_key_t key;

    if (pthread_key_create(&key, NULL) != 0)
        return -1;
    pthread_key_delete(key);
    return (long)key;
}

int main(int argc, char **argv)
{
    pthread_t thread;

    pthread_barrier_init(&meeting, NULL, 2);
    for (int i = 1; i < argc; i++) {
        library = dlopen(argv[i], RTLD_NOW);
        if (pthread_create(&thread, NULL, run_thread, NULL) != 0)
            return 1;
        pthread_barrier_wait(&meeting);
        dlclose(library);
        pthread_barrier_wait(&meeting);
        pthread_join(thread, NULL);
        setenv("UNLOAD_DESTROY", "1", 1);
        long before = 0, key_before = 0;
        for (int k = 0; k < 40; k++) {
            library = dlopen(argv[i], RTLD_NOW);
            use_library();
            dlclose(library);
            if (k == 4) {
                before = address_kb();
                key_before = key_next();
            }
        }
        if (key_next() != key_before)
            printf("%s: 35 times took keys of threads: %ld is next, it was %ld\n", argv[i],
                   key_next(), key_before);
        if (address_kb() > before + 1024)
            printf("%s: %ld KiB of addresses more after 35 times\n", argv[i],
                   address_kb() - before);
    }
    return 0;
}
