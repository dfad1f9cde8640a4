/* SPDX-License-Identifier: MIT */
/* snapshot_open FILE: how long a snapshot takes to open, and in how much memory. */
#include <acre/snapshot.h>

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

static double seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
    acre_snapshot *snapshot = NULL;
    acre_snapshot_info info = {.struct_size = sizeof info};
    struct rusage usage;
    struct stat facts;
    double start = seconds();

    if (argc < 2 || strcmp(argv[1], "--help") == 0) {
        puts("usage: snapshot_open FILE");
        return argc < 2 ? 2 : 0;
    }
    if (stat(argv[1], &facts) != 0 || acre_snapshot_open(argv[1], &snapshot) != ACRE_OK ||
        acre_snapshot_info_get(snapshot, &info) != ACRE_OK) {
        fprintf(stderr, "snapshot_open: %s\n", acre_last_error());
        return 2;
    }
    double took = seconds() - start;
    getrusage(RUSAGE_SELF, &usage);
    printf("{\"file_bytes\": %llu, \"events\": %llu, \"seconds\": %.2f, \"peak_bytes\": %llu, "
           "\"ratio\": %.2f}\n", (unsigned long long)facts.st_size,
           (unsigned long long)info.event_count, took,
           (unsigned long long)usage.ru_maxrss * 1024,
           (double)usage.ru_maxrss * 1024 / (double)facts.st_size);
    acre_snapshot_close(snapshot);
    return 0;
}
