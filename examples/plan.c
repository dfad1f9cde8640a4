/* SPDX-License-Identifier: MIT */
/* A compiled graph plans its memory: lifetimes in, offsets out.
 *
 * Step i of the graph writes activation i, which steps i + 1 and i + 2 read. All
 * activations then live in one arena of the height found.
 *
 *     cc plan.c $(pkg-config --cflags --libs acre) && ./a.out
 */
#include <acre/plan.h>

#include <stdio.h>

#define STEPS 6

int main(void)
{
    static const uint64_t bytes[STEPS] = {4096, 16384, 16384, 8192, 8192, 1024};
    acre_plan_buffer buffers[STEPS] = {{0}};
    acre_plan_result result = {.struct_size = sizeof result};
    uint64_t offsets[STEPS];

    for (uint64_t i = 0; i < STEPS; i++)
        buffers[i] = (acre_plan_buffer){.start = i, .end = i + 3, .size = bytes[i],
                                        .alignment = 256};
    if (acre_plan_place(buffers, STEPS, NULL, offsets, &result) != ACRE_OK) {
        fprintf(stderr, "%s\n", acre_last_error());
        return 1;
    }
    printf("one arena of %llu bytes:\n", (unsigned long long)result.height);
    for (int i = 0; i < STEPS; i++)
        printf("  activation %d at %llu\n", i, (unsigned long long)offsets[i]);
    return 0;
}
