/* SPDX-License-Identifier: MIT */
/* An OpenCL kernel on memory of a cache. Without OpenCL it says so and leaves.
 *
 *     cc opencl.c -lacre && ./a.out
 */
#include <acre/acre.h>

#include <stdio.h>

#define COUNT 1024

static const char source[] = "__kernel void scale(__global float *x, float by) {"
                             " x[get_global_id(0)] *= by; }";

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, acre_last_error());
    return 1;
}

/* Doubles some numbers on the device; the block goes back to the cache. */
static int show(acre_device *device, acre_cache *cache, acre_opencl_kernel *kernel, void *stream)
{
    const acre_opencl_range range = {.global = {COUNT}, .local = {64}};
    float numbers[COUNT], by = 2;
    void *block;
    int right = 0;

    for (int i = 0; i < COUNT; i++)
        numbers[i] = (float)i;
    if (acre_cache_alloc(cache, sizeof numbers, stream, &block) != ACRE_OK)
        return failed("alloc");
    const acre_opencl_arg args[] = {{ACRE_OPENCL_POINTER, block, 0},
                                    {ACRE_OPENCL_VALUE, &by, sizeof by}};
    if (acre_copy_async(device, block, numbers, sizeof numbers, ACRE_COPY_HOST_TO_DEVICE,
                        stream) != ACRE_OK ||
        acre_opencl_launch(kernel, stream, &range, args, 2) != ACRE_OK ||
        acre_copy_async(device, numbers, block, sizeof numbers, ACRE_COPY_DEVICE_TO_HOST,
                        stream) != ACRE_OK)
        return failed("work");
    acre_cache_free(cache, block); /* the next block on this stream may have it at once */
    if (acre_stream_native_synchronize(device, stream) != ACRE_OK)
        return failed("synchronize");
    for (int i = 0; i < COUNT; i++)
        right += numbers[i] == 2 * (float)i;
    printf("%d of %d numbers are right\n", right, COUNT);
    return right != COUNT;
}

int main(void)
{
    acre_opencl_program *program = NULL;
    acre_opencl_kernel *kernel = NULL;
    acre_device *device;
    acre_cache *cache = NULL;
    void *stream = NULL;
    int result;

    if (acre_device_get(ACRE_DEVICE_OPENCL, 0, &device) != ACRE_OK) {
        fprintf(stderr, "no OpenCL here: %s\n", acre_last_error());
        return 77;
    }
    if (acre_cache_create(device, NULL, &cache) != ACRE_OK ||
        acre_stream_native_create(device, 0, 0, &stream) != ACRE_OK ||
        acre_opencl_program_build(device, source, NULL, &program) != ACRE_OK ||
        acre_opencl_kernel_create(program, "scale", &kernel) != ACRE_OK)
        return failed("set-up");
    result = show(device, cache, kernel, stream);
    acre_opencl_kernel_destroy(kernel);
    acre_opencl_program_destroy(program);
    acre_cache_destroy(cache);
    acre_stream_native_destroy(device, stream);
    return result;
}
