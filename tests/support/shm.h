/* SPDX-License-Identifier: MIT */
/* What processes leave in /dev/shm. Other programs use that folder as well, so a test looks at one
 * of its own where the machine lets it: the folder is empty then, and every name in it was made by
 * the test. Elsewhere it looks at names of the same user that speak of us in the common one, and
 * waits for those of others to go: what a killed process has left stays. */
#ifndef TESTS_SUPPORT_SHM_H
#define TESTS_SUPPORT_SHM_H

/* Runs fn in a child process with such a folder; its wait status, as t_child. */
int shm_child(void (*fn)(void));
/* In fn: whether there is nothing in the folder that was not there when the child began. */
int shm_is_clean(void);

#endif
