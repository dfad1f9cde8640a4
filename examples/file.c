/* SPDX-License-Identifier: MIT */
/* Weights from a device to a file and back, past the page cache.
 *
 *     build-dev/examples/file [PATH]
 *
 * Buffers that are used again and again are registered: they are then read and written
 * in place.
 */
#include <acre/acre.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LAYERS 4
#define LAYER_BYTES ((size_t)1 << 20)

static void need(acre_status status, const char *what)
{
    if (status == ACRE_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, acre_last_error());
    exit(1);
}

int main(int argc, char **argv)
{
    char name[64];
    const char *path = argc > 1 ? argv[1] : name;
    const acre_file_config config = {.struct_size = sizeof config,
                                     .flags = ACRE_FILE_MAY_BUFFER};
    acre_file_info info = {.struct_size = sizeof info};
    char *layers[LAYERS], first = 0;
    acre_device *device;
    acre_file *file;

    snprintf(name, sizeof name, "/tmp/acre-example-%d", (int)getpid());
    need(acre_device_get(ACRE_DEVICE_PRIVATE, 0, &device), "device");
    need(acre_file_open(path, O_RDWR | O_CREAT | O_TRUNC, &config, &file), "open");
    for (int i = 0; i < LAYERS; i++) {
        char value = (char)('a' + i);

        need(acre_device_alloc(device, LAYER_BYTES, (void **)&layers[i]), "memory");
        need(acre_copy(device, layers[i], &value, 1, ACRE_COPY_HOST_TO_DEVICE), "copy");
        need(acre_file_save(file, device, layers[i], LAYER_BYTES, LAYER_BYTES * (size_t)i), "save");
    }
    need(acre_file_sync(file), "sync");
    need(acre_file_info_get(file, &info), "info");
    printf("%llu bytes saved%s\n", (unsigned long long)info.bytes,
           info.engine == ACRE_FILE_URING ? ", by io_uring" : "");

    /* The layers in reverse, into one buffer that is registered once. */
    need(acre_file_buffer_register(device, layers[0], LAYER_BYTES), "register");
    for (int i = LAYERS - 1; i >= 0; i--) {
        need(acre_file_load(file, device, layers[0], LAYER_BYTES, LAYER_BYTES * (size_t)i), "load");
        need(acre_copy(device, &first, layers[0], 1, ACRE_COPY_DEVICE_TO_HOST), "copy");
        printf("layer %d begins with %c\n", i, first);
    }
    need(acre_file_buffer_deregister(device, layers[0]), "deregister");
    if (acre_file_load(file, device, layers[1], LAYER_BYTES, LAYER_BYTES * LAYERS) != ACRE_OK)
        printf("one too many: %s\n", acre_last_error());
    acre_file_close(file);
    unlink(path);
    for (int i = 0; i < LAYERS; i++)
        need(acre_device_free(device, layers[i]), "free");
    return first == 'a' ? 0 : 1;
}
