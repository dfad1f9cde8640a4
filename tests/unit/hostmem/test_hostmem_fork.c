/* SPDX-License-Identifier: MIT */
/* Children forked while threads allocate. */
#include "tests/unit/hostmem/heap_make.h"

#include "tests/unit/hostmem/crowd.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a child does with its copy: uses inherited blocks, makes and frees new ones. */
static int child_run(acre_hostmem *heap, unsigned char *inherited)
{
    struct crowd crowd = {.heap = heap, .seed = 7};
    pthread_t thread;

    if (inherited[0] != 42 || acre_hostmem_free(heap, inherited) != ACRE_OK)
        return 2;
    member_run(&crowd);
    if (pthread_create(&thread, NULL, member_run, &crowd) != 0)
        return 3;
    pthread_join(thread, NULL);
    acre_hostmem_trim(heap, 0, NULL);
    return crowd.failures ? 4 : 0;
}

TEST(children_forked_in_the_middle_use_the_heap)
{
    T_NEEDS("fork beside threads");
#if defined(__SANITIZE_THREAD__)
    T_SKIP("this sanitizer does not follow threads of a forked child");
#endif
    struct crowd crowd = {.heap = heap_make(0, 50), .seed = t_seed(), .is_endless = true};
    unsigned char *block = NULL;
    pthread_t threads[2];

    REQUIRE_OK(acre_hostmem_alloc(crowd.heap, 1 << 20, (void **)&block));
    block[0] = 42;
    for (int i = 0; i < 2; i++)
        REQUIRE_EQ(pthread_create(&threads[i], NULL, member_run, &crowd), 0);
    /* A sanitizer's allocator is not made for forks: not while threads start. */
    while (atomic_load(&crowd.warm_count) < 2)
        sched_yield();
    for (uint64_t i = 0; i < t_count(40, 400); i++) {
        int status = -1;
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            _exit(child_run(crowd.heap, block));
        }
        REQUIRE(child > 0);
        REQUIRE_EQ(waitpid(child, &status, 0), child);
        REQUIRE_EQ(status, 0);
    }
    atomic_store(&crowd.is_over, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    EXPECT_EQ(crowd.failures, 0);
    EXPECT_EQ(block[0], 42);
    REQUIRE_OK(acre_hostmem_free(crowd.heap, block));
    acre_hostmem_destroy(crowd.heap);
}
T_MAIN()
