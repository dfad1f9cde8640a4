/* SPDX-License-Identifier: MIT */
#include "tests/support/shm.h"

#include "tests/support/t.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER "/dev/shm"

static int is_own;       /* nobody else sees the folder     */
static int count_before; /* names when the child began      */

/* Whether a name may be one of the test's. */
static int is_ours(DIR *folder, const char *name)
{
    struct stat stat;

    if (is_own)
        return *name != '.';
    return strstr(name, "acre") != NULL &&
           fstatat(dirfd(folder), name, &stat, AT_SYMLINK_NOFOLLOW) == 0 &&
           stat.st_uid == geteuid();
}

static int name_count(void)
{
    DIR *folder = opendir(FOLDER);
    int count = 0;

    for (struct dirent *entry; folder && (entry = readdir(folder));)
        count += is_ours(folder, entry->d_name);
    if (folder)
        closedir(folder);
    return count;
}

static void file_write(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);

    if (fd >= 0 && write(fd, text, strlen(text)) < 0)
        printf("  %s cannot be written\n", path);
    if (fd >= 0)
        close(fd);
}

/* A user without rights has them in a namespace of its own, where it keeps its number. */
static int namespace_enter(void)
{
    char users[32], groups[32];

    snprintf(users, sizeof users, "%u %u 1", geteuid(), geteuid());
    snprintf(groups, sizeof groups, "%u %u 1", getegid(), getegid());
    if (unshare(CLONE_NEWNS) == 0)
        return 1;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return 0;
    file_write("/proc/self/setgroups", "deny");
    file_write("/proc/self/uid_map", users);
    file_write("/proc/self/gid_map", groups);
    return 1;
}

static void begin(void *fn)
{
    is_own = namespace_enter() && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
             mount("tmpfs", FOLDER, "tmpfs", 0, NULL) == 0;
    count_before = name_count();
    (*(void (**)(void))fn)();
}

int shm_child(void (*fn)(void))
{
    return t_child(begin, &fn);
}

int shm_is_clean(void)
{
    for (int i = 0; i < 100 && !is_own && name_count() > count_before; i++)
        usleep(100000);
    return name_count() <= count_before;
}
