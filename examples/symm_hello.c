/* SPDX-License-Identifier: MIT */
/* Every rank writes into its neighbour's memory, then all add up a vector.
 *
 *     acre run -n 4 -- ./symm_hello
 */
#include <acre/acre.h>

#include <stdio.h>
#include <stdlib.h>

static void check(acre_status status)
{
    if (status == ACRE_OK)
        return;
    fprintf(stderr, "%s: %s\n", acre_status_name(status), acre_last_error());
    exit(1);
}

int main(void)
{
    acre_group *group;
    acre_symm *symm;
    float *mine, *next;

    check(acre_group_create_env("world", &group));
    int rank = acre_group_rank(group), count = acre_group_world_size(group);

    check(acre_symm_alloc(NULL, 1024 * sizeof(float), (void **)&mine));
    check(acre_symm_rendezvous(mine, "world", &symm));

    /* Directly: a store into the next rank's buffer, then a barrier. */
    check(acre_symm_remote(symm, (rank + 1) % count, 4, (void **)&next));
    *next = (float)rank;
    check(acre_symm_barrier(symm, 0, 10000));
    printf("rank %d of %d got %g from its neighbour\n", rank, count, (double)*mine);

    /* Together: the sum of all buffers, in all buffers. */
    check(acre_symm_barrier(symm, 0, 10000));
    for (int i = 0; i < 1024; i++)
        mine[i] = (float)(rank + 1);
    check(acre_symm_all_reduce(symm, 0, 1024, ACRE_DTYPE_F32, NULL, NULL));
    printf("the sum of 1 to %d is %g\n", count, (double)mine[1023]);

    acre_symm_release(symm);
    acre_symm_free(mine);
    acre_group_destroy(group);
    return 0;
}
