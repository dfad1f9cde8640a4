/* SPDX-License-Identifier: MIT */
/* What "acre bench symm" compares with: the same operations by MPI, timed in the same way.
 * Rank 0 prints lines "operation bytes nanoseconds". */
#include <mpi.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES 15

static int rank, count;
static float *in, *out;

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Rounds of one sample: the same on all ranks, about a millisecond. */
static int rounds_for(size_t bytes)
{
    return bytes <= 4096 ? 1000 : bytes <= 65536 ? 100 : bytes <= 1048576 ? 10 : 1;
}

static void run(const char *name, size_t bytes)
{
    int elements = (int)(bytes / 4), part = elements / count;

    if (strcmp(name, "barrier") == 0)
        MPI_Barrier(MPI_COMM_WORLD);
    else if (strcmp(name, "all_reduce") == 0)
        MPI_Allreduce(in, out, elements, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else if (strcmp(name, "reduce_scatter") == 0)
        MPI_Reduce_scatter_block(in, out, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    else if (strcmp(name, "all_gather") == 0)
        MPI_Allgather(in, part, MPI_FLOAT, out, part, MPI_FLOAT, MPI_COMM_WORLD);
    else if (strcmp(name, "all_to_all") == 0)
        MPI_Alltoall(in, part, MPI_FLOAT, out, part, MPI_FLOAT, MPI_COMM_WORLD);
    else
        MPI_Bcast(in, elements, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void measure(const char *name, size_t bytes)
{
    double samples[SAMPLES];
    int rounds = rounds_for(bytes), used = bytes > 1048576 ? 5 : SAMPLES;

    run(name, bytes);
    for (int s = 0; s < used; s++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        for (int i = 0; i < rounds; i++)
            run(name, bytes);
        samples[s] = (MPI_Wtime() - begin) / rounds * 1e9;
    }
    qsort(samples, (size_t)used, sizeof *samples, compare);
    if (rank == 0) {
        printf("%s %zu %.1f\n", name, bytes, samples[used / 2]);
        fflush(stdout);
    }
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {1024, 65536, 1048576, 16777216, 67108864};
    static const char *const others[] = {"reduce_scatter", "all_gather", "all_to_all",
                                         "broadcast"};
    size_t largest = sizes[4];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &count);
    in = malloc(largest);
    out = malloc(largest);
    memset(in, 0, largest);
    memset(out, 0, largest);
    measure("barrier", 0);
    for (int i = 0; i < 5; i++)
        measure("all_reduce", sizes[i]);
    for (int k = 0; k < 4; k++)
        for (int i = 1; i < 3; i++)
            measure(others[k], sizes[i]);
    MPI_Finalize();
    return 0;
}
