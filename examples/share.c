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

/* Exports a block; the other process is done with it when its end of the pipe closes. */
static int export(int to, int done)
{
    char text[64] = "written by the exporter";
    struct parcel parcel = {.bytes = 0};
    acre_device *device;
    acre_cache *cache;
    void *block;
    char end;

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
    if (read(done, &end, 1) != 0)
        return 1;
    acre_cache_free(cache, block);
    acre_cache_destroy(cache);
    return 0;
}

int main(void)
{
    int ends[2], done[2], status = 1;

    if (pipe(ends) != 0 || pipe(done) != 0)
        return 1;
    pid_t other = fork(); /* before either has a device: those do not survive it */
    if (other < 0)
        return 1;
    close(ends[other == 0]); /* each keeps its own ends, so that it sees when the other is gone */
    close(done[other != 0]);
    if (other == 0)
        return import(ends[0]);
    int failure = export(ends[1], done[0]);
    close(ends[1]); /* after a failure the other process reads the end, and ends as well */
    waitpid(other, &status, 0);
    return failure || status != 0;
}
