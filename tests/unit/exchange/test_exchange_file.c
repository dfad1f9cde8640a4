/* SPDX-License-Identifier: MIT */
/* Files of device memory: both engines, in place and through buffers, and all that can be
 * wrong with a place in a file. */
#include "exchange/buffer.h"
#include "tests/support/file_bed.h"
#include "tests/support/toy_backend.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- The list ------------------------------------------------------------------- */

static void save_two_and_load_them(acre_file_engine engine)
{
    acre_file *file = file_new("two", engine);

    REQUIRE_OK(acre_file_save(file, device, memory, 4096, 0));
    REQUIRE_OK(acre_file_save(file, device, memory + 4096, 8192, 4096));
    EXPECT_EQ(info_of(file).bytes, 12288);
    REQUIRE_OK(acre_file_sync(file));
    clear_memory();
    REQUIRE_OK(acre_file_load(file, device, memory, 4096, 0));
    REQUIRE_OK(acre_file_load(file, device, memory + 4096, 8192, 4096));
    expect_memory(memory, pattern, 12288);
    acre_file_close(file);
    bed_write(&bed, memory, pattern, RANGE);
}

TEST(D95_two_saves_come_back_and_the_file_is_as_long)
{
    start();
    for (int engine = ACRE_FILE_AUTO; engine <= ACRE_FILE_URING; engine++)
        if (engine_is_there((acre_file_engine)engine))
            save_two_and_load_them((acre_file_engine)engine);
    REQUIRE_OK(acre_file_buffer_register(device, memory, RANGE));
    save_two_and_load_them(ACRE_FILE_AUTO);
    REQUIRE_OK(acre_file_buffer_deregister(device, memory));
    stop();
}

TEST(D96_opening_adds_o_direct_and_registering_has_an_order)
{
    acre_file *file;

    start();
    acre_status status = acre_file_open(files_path("direct"), O_RDWR | O_CREAT, NULL, &file);
    if (status == ACRE_ERR_UNSUPPORTED) {
        stop();
        T_SKIP("the file system of /tmp has no O_DIRECT");
    }
    REQUIRE_OK(status);
    acre_file_info info = info_of(file);
    EXPECT(fcntl(info.fd, F_GETFL) & O_DIRECT);
    EXPECT(!(fcntl(info.fd, F_GETFL) & O_NONBLOCK));
    EXPECT(fcntl(info.fd, F_GETFD) & FD_CLOEXEC);
    EXPECT_EQ(info.is_direct, 1);
    EXPECT_EQ(info.is_registered, 1);
    EXPECT_EQ(acre_file_register(file), ACRE_ERR_STATE);
    REQUIRE_OK(acre_file_save(file, device, memory, PAGE, 0));
    REQUIRE_OK(acre_file_deregister(file));
    EXPECT_EQ(info_of(file).is_registered, 0);
    EXPECT_EQ(acre_file_deregister(file), ACRE_ERR_STATE);
    EXPECT_EQ(acre_file_load(file, device, memory, PAGE, 0), ACRE_ERR_STATE);
    EXPECT_HAS(acre_last_error(), "acre_file_register");
    EXPECT_EQ(acre_file_save(file, device, memory, PAGE, 0), ACRE_ERR_STATE);
    REQUIRE_OK(acre_file_register(file));
    REQUIRE_OK(acre_file_load(file, device, memory, PAGE, 0));
    acre_file_close(file);
    stop();
}

TEST(D97_loading_past_the_end_is_an_error_and_touches_nothing)
{
    acre_file *file;

    start();
    file = file_new("short", ACRE_FILE_AUTO);
    REQUIRE_OK(acre_file_save(file, device, memory + PAGE, 2 * PAGE, 0));
    EXPECT_EQ(acre_file_load(file, device, memory, 3 * PAGE, 0), ACRE_ERR_IO);
    EXPECT_HAS(acre_last_error(), "short read: the file ends at 8192");
    EXPECT_EQ(acre_file_load(file, device, memory, PAGE, 2 * PAGE), ACRE_ERR_IO);
    EXPECT_EQ(acre_file_load(file, device, memory, PAGE, (uint64_t)PAGE << 40), ACRE_ERR_IO);
    expect_memory(memory, pattern, RANGE);
    acre_file_close(file);
    stop();
}

TEST(D98_misaligned_places_are_refused_with_the_requirement)
{
    char needed[64];
    acre_file *file;

    start();
    file = file_new("aligned", ACRE_FILE_AUTO);
    snprintf(needed, sizeof needed, "multiples of %llu",
             (unsigned long long)info_of(file).offset_alignment);
    EXPECT_EQ(acre_file_save(file, device, memory, PAGE, 1), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), needed);
    EXPECT_EQ(acre_file_save(file, device, memory, 100, 0), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), needed);
    EXPECT_EQ(acre_file_load(file, device, memory, PAGE, 1), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_file_load(file, device, memory, 100, 0), ACRE_ERR_INVALID);
    EXPECT_EQ(info_of(file).bytes, 0);
    EXPECT_EQ(acre_file_save(file, device, memory, PAGE, UINT64_MAX - PAGE + 1), ACRE_ERR_RANGE);
    EXPECT_EQ(acre_file_save(file, device, memory, PAGE, (uint64_t)INT64_MAX - PAGE + 1),
              ACRE_ERR_RANGE);
    EXPECT_EQ(acre_file_load(file, device, memory, 0, 0), ACRE_ERR_INVALID);
    acre_file_close(file);
    stop();
}

/* ---- Memory of all kinds -------------------------------------------------------- */

TEST(host_memory_is_moved_too_at_any_address)
{
    static unsigned char from[RANGE + 64], to[RANGE + 64];
    acre_file *file;

    start();
    file = file_new("host", ACRE_FILE_AUTO);
    for (int shift = 0; shift < 3; shift++) {
        memcpy(from + shift, pattern, RANGE);
        REQUIRE_OK(acre_file_save(file, device, from + shift, RANGE, 0));
        memset(to, 0, sizeof to);
        REQUIRE_OK(acre_file_load(file, device, to + shift, RANGE, 0));
        EXPECT_EQ(memcmp(to + shift, pattern, RANGE), 0);
        EXPECT(to[shift + RANGE] == 0 && (shift == 0 || to[0] == 0));
    }
    acre_file_close(file);
    stop();
}

/* The part of a block, at an address that only the stage has aligned. */
TEST(interior_pointers_keep_their_neighbours)
{
    acre_file *file;

    start();
    file = file_new("interior", ACRE_FILE_AUTO);
    REQUIRE_OK(acre_file_save(file, device, memory + 100, 3 * PAGE, PAGE));
    clear_memory();
    REQUIRE_OK(acre_file_load(file, device, memory + 8, 3 * PAGE, PAGE));
    expect_memory(memory + 8, pattern + 100, 3 * PAGE);
    expect_memory(memory, (unsigned char[8]){0}, 8);
    expect_memory(memory + 8 + 3 * PAGE, (unsigned char[8]){0}, 8);
    EXPECT_EQ(acre_file_save(file, device, memory + PAGE, RANGE, 0), ACRE_ERR_INVALID);
    acre_file_close(file);
    stop();
}

TEST(memory_of_the_host_backend_is_moved_in_place)
{
    acre_device *host;
    acre_file *file;
    void *block;

    REQUIRE_OK(acre_device_get(ACRE_DEVICE_CPU, 0, &host)); /* it stays */
    start();
    REQUIRE_OK(acre_device_alloc(host, RANGE, &block));
    memcpy(block, pattern, RANGE);
    file = file_new("cpu", ACRE_FILE_AUTO);
    REQUIRE_OK(acre_file_save(file, host, block, RANGE, 0));
    REQUIRE_OK(acre_file_load(file, device, memory, RANGE, 0));
    expect_memory(memory, pattern, RANGE);
    EXPECT_EQ(acre_file_save(file, host, block, RANGE + 8 * PAGE, 0), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "run past the end");
    EXPECT_EQ(acre_file_buffer_register(host, block, RANGE), ACRE_ERR_UNSUPPORTED);
    acre_file_close(file);
    REQUIRE_OK(acre_device_free(host, block));
    stop();
}

/* Memory of a cache is pages from several places; registering opens all of them. */
TEST(memory_of_a_cache_is_moved)
{
    enum { BYTES = 7 << 20, SEEN = 64 };
    const acre_cache_config config = {.struct_size = sizeof config, .policy = ACRE_POLICY_ACRE,
                                      .flags = ACRE_CACHE_NO_ENVIRONMENT};
    acre_cache *cache;
    acre_file *file;
    void *block;

    start();
    REQUIRE_OK(acre_cache_create(device, &config, &cache));
    REQUIRE_OK(acre_cache_alloc(cache, BYTES, NULL, &block));
    file = file_with_blocks("cache", ACRE_FILE_AUTO, 0);
    for (int is_registered = 0; is_registered < 2; is_registered++) {
        char *last = (char *)block + BYTES - SEEN;

        bed_write(&bed, block, pattern, SEEN);
        bed_write(&bed, last, pattern + SEEN, SEEN);
        if (is_registered)
            REQUIRE_OK(acre_file_buffer_register(device, block, BYTES));
        REQUIRE_OK(acre_file_save(file, device, block, BYTES, 0));
        bed_write(&bed, block, seen, SEEN);
        bed_write(&bed, last, seen, SEEN);
        REQUIRE_OK(acre_file_load(file, device, block, BYTES, 0));
        if (is_registered)
            REQUIRE_OK(acre_file_buffer_deregister(device, block));
        expect_memory(block, pattern, SEEN);
        expect_memory(last, pattern + SEEN, SEEN);
    }
    EXPECT_EQ(bed_usage(&bed).window_count, 0);
    acre_file_close(file);
    REQUIRE_OK(acre_cache_free(cache, block));
    acre_cache_destroy(cache);
    stop();
}

/* A device whose memory the host is never let into. */
TEST(memory_that_cannot_be_opened_goes_through_buffers)
{
    struct toy_backend toy;
    acre_device *at;
    acre_file *file;
    void *block;

    start();
    REQUIRE_OK(toy_backend_start(&toy, "toy", ACRE_DEVICE_CUDA, 1));
    REQUIRE_OK(acre_backend_device(toy.backend, 0, &at));
    REQUIRE_OK(acre_device_alloc(at, RANGE, &block));
    REQUIRE_OK(acre_copy(at, block, pattern, RANGE, ACRE_COPY_HOST_TO_DEVICE));
    EXPECT_EQ(acre_file_buffer_register(at, block, RANGE), ACRE_ERR_UNSUPPORTED);
    file = file_new("toy", ACRE_FILE_AUTO);
    REQUIRE_OK(acre_file_save(file, at, block, RANGE, 0));
    clear_memory();
    REQUIRE_OK(acre_file_load(file, device, memory, RANGE, 0)); /* another device */
    expect_memory(memory, pattern, RANGE);
    acre_file_close(file);
    REQUIRE_OK(acre_device_free(at, block));
    toy_backend_stop(&toy);
    stop();
}

TEST(registered_buffers_have_rules)
{
    struct buffer *buffer;

    start();
    REQUIRE_OK(acre_file_buffer_register(device, memory, RANGE));
    EXPECT_EQ(bed_usage(&bed).window_count, 1);
    EXPECT_EQ(acre_file_buffer_register(device, memory, RANGE), ACRE_ERR_EXISTS);
    EXPECT_EQ(acre_file_buffer_register(device, memory + PAGE, PAGE), ACRE_ERR_EXISTS);
    EXPECT_EQ(bed_usage(&bed).window_count, 1);
    EXPECT_PTR_EQ(buffer_use(device, memory + PAGE, RANGE), NULL);
    buffer = buffer_use(device, memory + PAGE, RANGE - PAGE);
    EXPECT(buffer != NULL);
    EXPECT_EQ(acre_file_buffer_deregister(device, memory), ACRE_ERR_BUSY);
    buffer_unuse(buffer);
    EXPECT_EQ(acre_file_buffer_deregister(device, memory + PAGE), ACRE_ERR_NOT_FOUND);
    REQUIRE_OK(acre_file_buffer_deregister(device, memory));
    EXPECT_EQ(acre_file_buffer_deregister(device, memory), ACRE_ERR_NOT_FOUND);
    EXPECT_EQ(acre_file_buffer_register(device, pattern, PAGE), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_file_buffer_register(device, memory, 4 * RANGE), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_file_buffer_register(device, memory, 0), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_file_buffer_register(device, NULL, PAGE), ACRE_ERR_INVALID);
    EXPECT_EQ(bed_usage(&bed).window_count, 0);
    stop();
}

/* ---- What can go wrong ------------------------------------------------------------ */

static void open_refused(const char *path, int flags, acre_status expected)
{
    acre_file *file = NULL;

    EXPECT_EQ(acre_file_open(path, flags, NULL, &file), expected);
    EXPECT(acre_last_error()[0] != '\0');
    EXPECT_PTR_EQ(file, NULL);
}

TEST(what_cannot_be_opened_is_told)
{
    acre_file *file = NULL;
    acre_file_config config = {.struct_size = sizeof config, .block_bytes = 100};

    start();
    open_refused(files_path("nowhere"), O_RDONLY, ACRE_ERR_NOT_FOUND);
    files_write("there", "x", 1);
    open_refused(files_path("there"), O_RDWR | O_CREAT | O_EXCL, ACRE_ERR_EXISTS);
    open_refused(files_path("there"), O_RDWR | O_APPEND, ACRE_ERR_INVALID);
    open_refused(NULL, O_RDWR, ACRE_ERR_INVALID);
    EXPECT_EQ(mkfifo(files_path("pipe"), 0600), 0);
    EXPECT_NE(acre_file_open(files_path("pipe"), O_RDWR, NULL, &file), ACRE_OK);
    EXPECT_NE(acre_file_open(files_path("pipe"), O_WRONLY, NULL, &file), ACRE_OK);
    EXPECT_NE(acre_file_open("/", O_RDONLY, NULL, &file), ACRE_OK);
    EXPECT_EQ(acre_file_open(files_path("there"), O_RDWR, &config, &file), ACRE_ERR_INVALID);
    config = (acre_file_config){.struct_size = sizeof config, .depth = 65};
    EXPECT_EQ(acre_file_open(files_path("there"), O_RDWR, &config, &file), ACRE_ERR_INVALID);
    config = (acre_file_config){.struct_size = sizeof config, .engine = 3};
    EXPECT_EQ(acre_file_open(files_path("there"), O_RDWR, &config, &file), ACRE_ERR_INVALID);
    config = (acre_file_config){.struct_size = 1};
    EXPECT_EQ(acre_file_open(files_path("there"), O_RDWR, &config, &file), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_file_open(files_path("there"), O_RDWR, NULL, NULL), ACRE_ERR_INVALID);
    EXPECT_PTR_EQ(file, NULL);
    acre_file_close(NULL);
    EXPECT_EQ(acre_file_register(NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_file_deregister(NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_file_sync(NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_file_info_get(NULL, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_file_save(NULL, device, memory, PAGE, 0), ACRE_ERR_INVALID);
    file = file_new("arguments", ACRE_FILE_AUTO);
    EXPECT_EQ(acre_file_save(file, NULL, memory, PAGE, 0), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_file_load(file, device, NULL, PAGE, 0), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_file_info_get(file, NULL), ACRE_ERR_INVALID);
    acre_file_close(file);
    stop();
}

static bool is_direct_refused;

/* Stands before that of the C library. File systems without O_DIRECT, such as ramfs, make a file
 * before they refuse to open it. */
int open(const char *path, int flags, ...)
{
    bool is_refused = is_direct_refused && flags & O_DIRECT;
    mode_t mode = 0;
    va_list args;

    if (flags & O_CREAT) {
        va_start(args, flags);
        mode = va_arg(args, mode_t);
        va_end(args);
    }
    flags &= is_refused ? ~(O_DIRECT | O_TRUNC) : ~0;
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
    if (fd < 0 || !is_refused)
        return fd;
    close(fd);
    errno = EINVAL;
    return -1;
}

TEST(a_new_file_where_nothing_is_direct_is_opened_or_gone)
{
    const acre_file_config config = {.struct_size = sizeof config, .flags = ACRE_FILE_MAY_BUFFER};
    const int flags = O_RDWR | O_CREAT | O_EXCL;
    const char *path = files_path("new");
    acre_file *file = NULL;

    start();
    is_direct_refused = true;
    open_refused(path, flags, ACRE_ERR_UNSUPPORTED);
    EXPECT(access(path, F_OK) != 0);
    EXPECT_EQ(acre_file_open(path, flags, &config, &file), ACRE_OK);
    acre_file_close(file);
    EXPECT_EQ(acre_file_open(path, flags, &config, &file), ACRE_ERR_EXISTS);
    open_refused(path, flags, ACRE_ERR_EXISTS);
    open_refused(path, O_RDWR, ACRE_ERR_UNSUPPORTED);
    EXPECT_EQ(access(path, F_OK), 0);
    is_direct_refused = false;
    stop();
}

TEST(rights_of_the_descriptor_are_looked_at)
{
    const acre_file_config config = {.struct_size = sizeof config, .flags = ACRE_FILE_MAY_BUFFER};
    acre_file *file;

    start();
    acre_file_close(file_new("rights", ACRE_FILE_AUTO));
    REQUIRE_OK(acre_file_open(files_path("rights"), O_RDONLY, &config, &file));
    EXPECT_EQ(acre_file_save(file, device, memory, PAGE, 0), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), "for reading only");
    acre_file_close(file);
    REQUIRE_OK(acre_file_open(files_path("rights"), O_WRONLY, &config, &file));
    EXPECT_EQ(acre_file_load(file, device, memory, PAGE, 0), ACRE_ERR_INVALID);
    REQUIRE_OK(acre_file_save(file, device, memory, PAGE, 0));
    acre_file_close(file);
    stop();
}

TEST(host_memory_may_run_out_at_every_step)
{
    const acre_file_config config = {.struct_size = sizeof config, .flags = ACRE_FILE_MAY_BUFFER};
    const char *path = files_path("heap");
    bool is_hit = true;

    start();
    for (unsigned nth = 1; is_hit; nth++) {
        acre_file *file = NULL;

        heap_fail_nth(nth);
        acre_status status = acre_file_open(path, O_RDWR | O_CREAT, &config, &file);
        if (status == ACRE_OK)
            status = acre_file_save(file, device, memory, RANGE, 0);
        is_hit = heap_fail_disarm();
        if (!is_hit)
            EXPECT_EQ(status, ACRE_OK);
        else if (status != ACRE_OK) /* page-locking the buffers is only tried */
            EXPECT_EQ(status, ACRE_ERR_HOST_MEMORY);
        acre_file_close(file);
        REQUIRE(nth < 100);
    }
    stop();
}

/* ---- Processes and threads ---------------------------------------------------------- */

static acre_file *inherited;

static void use_inherited(void *arg)
{
    static char page[PAGE] __attribute__((aligned(4096)));
    acre_device *host;

    (void)arg;
    REQUIRE_OK(acre_device_get(ACRE_DEVICE_CPU, 0, &host));
    EXPECT_EQ(acre_file_save(inherited, host, page, PAGE, 0), ACRE_ERR_FORKED);
}

TEST(a_child_opens_its_own)
{
    start();
    inherited = file_new("fork", ACRE_FILE_AUTO);
    EXPECT_EQ(t_child(use_inherited, NULL), 0);
    REQUIRE_OK(acre_file_save(inherited, device, memory, PAGE, 0));
    acre_file_close(inherited);
    stop();
}

enum { THREADS = 4 };

static void *save_and_load(void *arg)
{
    size_t part = RANGE / THREADS, at = (size_t)(uintptr_t)arg * part;

    for (uint64_t round = t_count(10, 1000); round; round--) {
        EXPECT_EQ(acre_file_save(inherited, device, memory + at, part, at), ACRE_OK);
        EXPECT_EQ(acre_file_load(inherited, device, memory + at, part, at), ACRE_OK);
    }
    return NULL;
}

TEST(threads_take_turns)
{
    pthread_t threads[THREADS];

    start();
    inherited = file_new("threads", ACRE_FILE_AUTO);
    for (uintptr_t i = 0; i < THREADS; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, save_and_load, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    expect_memory(memory, pattern, RANGE);
    clear_memory();
    REQUIRE_OK(acre_file_load(inherited, device, memory, RANGE, 0));
    expect_memory(memory, pattern, RANGE);
    acre_file_close(inherited);
    stop();
}

T_MAIN()
