/* SPDX-License-Identifier: MIT */
/* Runs a fuzz target without a fuzzer: every file of the folders given, then
 * damaged copies of them, the same ones in every run. ACRE_TEST_LONG=1 does more, unless
 * ACRE_TEST_SCALE divides that, and others each time; ACRE_SEED repeats such a run. */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define FILE_BYTES 65536
#define SEED_SHORT 2654435761u

static uint64_t state;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Changes, repeats, removes or inserts a few bytes. */
static size_t damage(uint8_t *data, size_t size)
{
    for (uint64_t left = next_random() % 4 + 1; left; left--) {
        size_t at = size ? next_random() % size : 0;
        size_t run = next_random() % 16 + 1;

        switch (next_random() % 4) {
        case 0:
            if (size)
                data[at] = (uint8_t)next_random();
            break;
        case 1:
            if (size)
                data[at] ^= (uint8_t)(1u << next_random() % 8);
            break;
        case 2:
            run = at + run > size ? size - at : run;
            memmove(data + at, data + at + run, size - at - run);
            size -= run;
            break;
        default:
            if (size + run > FILE_BYTES)
                break;
            memmove(data + at + run, data + at, size - at);
            for (size_t i = 0; i < run && at >= run; i++)
                data[at + i] = data[at - run + i];
            size += run;
        }
    }
    return size;
}

static int run_file(const char *path, unsigned copies)
{
    static uint8_t data[FILE_BYTES], work[FILE_BYTES];
    FILE *file = fopen(path, "rb");

    if (!file)
        return 1;
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    LLVMFuzzerTestOneInput(data, size);
    for (unsigned i = 0; i < copies; i++) {
        memcpy(work, data, size);
        LLVMFuzzerTestOneInput(work, damage(work, size));
    }
    return 0;
}

static int run_folder(const char *folder, unsigned copies)
{
    struct dirent **entries = NULL;
    int found = scandir(folder, &entries, NULL, alphasort), count = 0;

    for (int i = 0; i < found; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && run_file(path, copies) == 0)
            count++;
        free(entries[i]);
    }
    free(entries);
    return count;
}

/* Damaged copies of each file. */
static unsigned copy_count(bool does_more)
{
    const char *scale = getenv("ACRE_TEST_SCALE");
    unsigned long divisor = scale ? strtoul(scale, NULL, 10) : 1;

    if (!does_more)
        return 500;
    return divisor <= 1 ? 20000 : divisor < 10 ? 20000 / (unsigned)divisor : 2000;
}

int main(int argc, char **argv)
{
    const char *seed = getenv("ACRE_SEED"), *is_long = getenv("ACRE_TEST_LONG");
    bool does_more = is_long && *is_long == '1';
    unsigned copies = copy_count(does_more);
    int count = 0;

    state = does_more ? (uint64_t)time(NULL) * SEED_SHORT : SEED_SHORT;
    if (seed)
        state = strtoull(seed, NULL, 0);
    state |= 1;
    printf("seed %llu\n", (unsigned long long)state);
    for (int i = 1; i < argc; i++)
        count += run_folder(argv[i], copies);
    printf("%d files, %u damaged copies of each\n", count, copies);
    return count ? 0 : 1;
}
