/* SPDX-License-Identifier: MIT */
/* A random rank is killed at a random moment of a random operation. All others must come back
 * with an error that names it, within a second, and nothing may stay behind. */
#include "symm/team/group.h"

#include "tests/support/ranks.h"
#include "tests/support/shm.h"

#include <acre/collective.h>

#include <dirent.h>
#include <signal.h>
#include <unistd.h>

enum { COUNT = 4 };

static uint64_t state; /* number of the round */

/* Works until something fails; the victim dies while it does. */
static void work(struct rank *me)
{
    float *base, out[3000];
    acre_symm *symm = ranks_symm(me, 12000, (void **)&base);
    uint64_t random = t_seed() + state;
    int victim = (int)(t_random(&random) % COUNT);
    uint64_t last = t_random(&random) % 300, step = 0;
    acre_status status = ACRE_OK;
    char name[16];

    for (; status == ACRE_OK; step++) {
        uint64_t kind = t_random(&random) % 5;
        if (me->rank == victim && step == last) {
            alarm(0);
            if (t_random(&random) & 1)
                raise(SIGKILL);
            signal(SIGALRM, SIG_DFL);
            ualarm(1 + (useconds_t)(t_random(&random) % 300), 0); /* dies somewhere inside */
        }
        if (kind == 0)
            status = acre_symm_barrier(symm, 0, 0);
        else if (kind == 1)
            status = acre_symm_all_reduce(symm, 0, 200, ACRE_DTYPE_F32, out, NULL);
        else if (kind == 2)
            status = acre_symm_all_reduce(symm, 0, 3000, ACRE_DTYPE_F32, NULL, NULL);
        else if (kind == 3)
            status = acre_symm_broadcast(symm, 0, 4000, 1, NULL);
        else
            status = acre_group_barrier(me->group);
    }
    snprintf(name, sizeof name, "rank %d", victim);
    EXPECT_EQ(status, ACRE_ERR_PEER);
    EXPECT_HAS(acre_last_error(), name);
    /* Nobody leaves before all have said so, or those who leave would be named as well. */
    atomic_fetch_add(&me->shared[1], 1);
    while (atomic_load(&me->shared[1]) < COUNT - 1)
        usleep(1000);
}

static int files_in(const char *folder, const char *prefix)
{
    DIR *dir = opendir(folder);
    int count = 0;

    for (struct dirent *entry; dir && (entry = readdir(dir));)
        count += strncmp(entry->d_name, prefix, strlen(prefix)) == 0;
    if (dir)
        closedir(dir);
    return count;
}

static void kill_and_look(void)
{
    char own[32];

    snprintf(own, sizeof own, "acre-ranks-%d", (int)getpid());
    for (state = 0; state < t_count(12, 500); state++) {
        uint64_t random = t_seed() + state;
        ranks_run_with(COUNT, work, 60000, 1u << (t_random(&random) % COUNT));
    }
    EXPECT(shm_is_clean());
    EXPECT_EQ(files_in("/tmp", own), 0);
}

TEST(a_killed_rank_is_named_by_all_others)
{
    EXPECT_EQ(shm_child(kill_and_look), 0);
}

T_MAIN()
