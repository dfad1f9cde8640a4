/* SPDX-License-Identifier: MIT */
/* A block of one process in another.
 *
 * The handle goes through a pipe here; any other way will do.
 *
 *     cc share.c -lacre && ./a.out
 */
#include <acre/acre.h>

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* What travels: a handle, and where in it the block begins. */
struct parcel {
    uint8_t handle[ACRE_SHARE_HANDLE_MAX];
    size_t bytes;
    uint64_t offset;
};

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, acre_last_error());
    return 1;
}

/* Opens what comes and prints what it finds there. */
static int import(int from)
{
    struct parcel parcel;
    acre_device *device;
    char text[64] = "";
    uint64_t bytes;
    void *base;

    if (read(from, &parcel, sizeof parcel) != (ssize_t)sizeof parcel)
        return 1;
    if (acre_device_get(ACRE_DEVICE_PRIVATE, 0, &device) != ACRE_OK)
        return failed("device");
    if (acre_share_open(device, parcel.handle, parcel.bytes, &base, &bytes) != ACRE_OK)
        return failed("open");
    acre_copy(device, text, (char *)base + parcel.offset, sizeof text,
              ACRE_COPY_DEVICE_TO_HOST);
    printf("the other process reads: %s\n", text);
    return acre_share_close(device, base) == ACRE_OK ? 0 : failed("close");
}

/* Exports a block and waits until the other process is done. */
static int export(int to, pid_t other)
{
    char text[64] = "written by the exporter";
    struct parcel parcel = {.bytes = 0};
    acre_device *device;
    acre_cache *cache;
    void *block;
    int status = 1;

    if (acre_device_get(ACRE_DEVICE_PRIVATE, 0, &device) != ACRE_OK ||
        acre_cache_create(device, NULL, &cache) != ACRE_OK)
        return failed("cache");
    if (acre_cache_alloc(cache, 1 << 20, NULL, &block) != ACRE_OK)
        return failed("alloc");
    acre_copy(device, block, text, sizeof text, ACRE_COPY_HOST_TO_DEVICE);
    if (acre_share_export(cache, block, parcel.handle, sizeof parcel.handle, &parcel.bytes,
                          &parcel.offset) != ACRE_OK)
        return failed("export");
    if (write(to, &parcel, sizeof parcel) != (ssize_t)sizeof parcel)
        return 1;
    waitpid(other, &status, 0);
    acre_cache_free(cache, block);
    acre_cache_destroy(cache);
    return status != 0;
}

int main(void)
{
    int ends[2];

    if (pipe(ends) != 0)
        return 1;
    pid_t other = fork(); /* before either has a device: those do not survive it */
    return other == 0 ? import(ends[0]) : export(ends[1], other);
}
