/* SPDX-License-Identifier: MIT */
#include "format/newfile.h"

#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define LINKS_MAX 16 /* that follow one another */
#define SLOTS     16 /* temporary names that a signal handler may remove */

/* A temporary name; written before is_used is set, so that a handler reads it whole. */
struct newfile_slot {
    atomic_int is_used; /* 0 free, 1 being written, 2 in use */
    int folder;
    char name[NEWFILE_TEMPORARY];
};

static struct newfile_slot slots[SLOTS];
static atomic_bool is_named_always;

void newfile_name_always(bool is_named)
{
    atomic_store(&is_named_always, is_named);
}

static acre_status newfile_fail(const char *path, const char *what)
{
    int code = errno;

    return status_fail_native(ACRE_ERR_IO, code, "%s %s: %s", what, path, strerror(code));
}

/* ---- Temporary names ---------------------------------------------------------------------- */

static void slot_take(struct newfile *file)
{
    file->slot = -1;
    for (int i = 0; i < SLOTS && file->slot < 0; i++) {
        int expected = 0;
        if (!atomic_compare_exchange_strong(&slots[i].is_used, &expected, 1))
            continue;
        slots[i].folder = file->folder;
        memcpy(slots[i].name, file->temporary, sizeof file->temporary);
        atomic_store(&slots[i].is_used, 2);
        file->slot = i;
    }
}

static void slot_put(struct newfile *file)
{
    if (file->slot >= 0)
        atomic_store(&slots[file->slot].is_used, 0);
    file->slot = -1;
}

void newfile_abandon_all(void)
{
    for (int i = 0; i < SLOTS; i++)
        if (atomic_load(&slots[i].is_used) == 2)
            unlinkat(slots[i].folder, slots[i].name, 0);
}

static bool temporary_make(struct newfile *file)
{
    uint64_t random[2];

    if (getrandom(random, sizeof random, 0) != sizeof random)
        return false;
    snprintf(file->temporary, sizeof file->temporary, ".acre-%016llx%08llx",
             (unsigned long long)random[0], (unsigned long long)(random[1] & 0xffffffff));
    return true;
}

/* ---- Where the file is to be ---------------------------------------------------------------- */

/* Splits a path at its last slash; folder keeps the slash of the root. */
static bool path_split(const char *path, char folder[PATH_MAX], char name[NAME_MAX + 1])
{
    const char *slash = strrchr(path, '/');
    const char *last = slash ? slash + 1 : path;
    size_t length = slash ? (size_t)(slash - path) : 0;

    if (!*last || strlen(last) > NAME_MAX || length >= PATH_MAX) {
        errno = *last ? ENAMETOOLONG : EISDIR;
        return false;
    }
    memcpy(folder, path, length);
    folder[length] = 0;
    if (!slash)
        memcpy(folder, ".", 2);
    else if (length == 0)
        memcpy(folder, "/", 2);
    memcpy(name, last, strlen(last) + 1);
    return true;
}

static bool user_is_trusted(uid_t user)
{
    return user == geteuid() || user == 0;
}

/* Whether nobody but this user, or root, can have put a link into its folder. Where a group may
 * write, the link itself tells who made it. */
static bool link_is_own(int folder, uid_t maker)
{
    struct stat facts;

    return fstat(folder, &facts) == 0 && user_is_trusted(facts.st_uid) &&
           !(facts.st_mode & S_IWOTH) && (!(facts.st_mode & S_IWGRP) || user_is_trusted(maker));
}

/* Reads a link, and who made it: of one that is open, as another may take its name meanwhile. */
static ssize_t link_read(const struct newfile *file, char target[PATH_MAX], uid_t *out_maker)
{
    int link = openat(file->folder, file->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    ssize_t length = -1;
    struct stat facts;

    if (link < 0)
        return -1;
    if (fstat(link, &facts) == 0)
        length = readlinkat(link, "", target, PATH_MAX - 1);
    close(link);
    if (length >= 0)
        *out_maker = facts.st_uid;
    return length;
}

/* Replaces path, a link of this name in folder, by what it points to. */
static acre_status link_follow(const struct newfile *file, const char *folder, char path[PATH_MAX])
{
    char target[PATH_MAX], longer[2 * PATH_MAX];
    uid_t maker = 0;
    ssize_t length = link_read(file, target, &maker);

    if (length < 0)
        return newfile_fail(path, "cannot read the link");
    target[length] = 0;
    if (!link_is_own(file->folder, maker) && strcmp(folder, "/dev") != 0)
        return status_fail(ACRE_ERR_REJECTED,
                           "%s is a symbolic link in a folder that other users may write; name "
                           "its target instead",
                           path);
    int size = *target == '/' ? snprintf(longer, sizeof longer, "%s", target)
                              : snprintf(longer, sizeof longer, "%s/%s", folder, target);
    if (size < 0 || size >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return newfile_fail(path, "cannot follow the link");
    }
    memcpy(path, longer, (size_t)size + 1);
    return ACRE_OK;
}

static acre_status open_done(struct newfile *file, const char *path)
{
    if (file->fd < 0)
        return newfile_fail(path, "cannot write");
    close(file->folder);
    file->folder = -1;
    return ACRE_OK;
}

/* Opens what is no regular file: a pipe, a terminal, a device. */
static acre_status open_directly(struct newfile *file, const char *path, const struct stat *facts)
{
    if (!user_is_trusted(facts->st_uid))
        return status_fail(ACRE_ERR_REJECTED,
                           "%s is a pipe or device of user %u; choose another name", path,
                           (unsigned)facts->st_uid);
    file->fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW);
    return open_done(file, path);
}

/* Whether the links of a folder are the kernel's, which lead to what is open already. */
static bool folder_is_proc(int folder)
{
    struct statfs facts;

    return fstatfs(folder, &facts) == 0 && facts.f_type == PROC_SUPER_MAGIC;
}

/* Opens what a link of the kernel leads to. A descriptor of this process is written where it is:
 * opened anew, a file would be written from its beginning, and a socket not at all. */
static acre_status open_linked(struct newfile *file, const char *path)
{
    struct stat own, facts;
    char *end;
    long number = strtol(file->name, &end, 10);

    if (!*end && number <= INT_MAX && stat("/proc/self/fd", &own) == 0 &&
        fstat(file->folder, &facts) == 0 && own.st_dev == facts.st_dev &&
        own.st_ino == facts.st_ino) {
        if (number == STDOUT_FILENO)
            fflush(stdout);
        file->fd = fcntl((int)number, F_DUPFD_CLOEXEC, 3);
    } else {
        file->fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    }
    return open_done(file, path);
}

/* Finds folder and name of the wanted file, through links. facts->st_nlink is 0 when there is
 * no file yet. What is no regular file is open afterwards, and folder is -1. */
static acre_status newfile_find(struct newfile *file, const char *wanted, struct stat *facts)
{
    char path[PATH_MAX], folder[PATH_MAX];

    if (strlen(wanted) >= sizeof path || !*wanted) {
        errno = *wanted ? ENAMETOOLONG : ENOENT;
        return newfile_fail(wanted, "cannot write");
    }
    memcpy(path, wanted, strlen(wanted) + 1);
    for (int links = 0; links < LINKS_MAX; links++) {
        if (!path_split(path, folder, file->name))
            return newfile_fail(wanted, "cannot write");
        file->folder = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (file->folder < 0)
            return newfile_fail(wanted, "cannot write");
        if (fstatat(file->folder, file->name, facts, AT_SYMLINK_NOFOLLOW) != 0) {
            facts->st_nlink = 0;
            return errno == ENOENT ? ACRE_OK : newfile_fail(wanted, "cannot write");
        }
        if (S_ISREG(facts->st_mode))
            return ACRE_OK;
        if (!S_ISLNK(facts->st_mode))
            return open_directly(file, path, facts);
        if (folder_is_proc(file->folder))
            return open_linked(file, path);
        acre_status status = link_follow(file, folder, path);
        close(file->folder);
        file->folder = -1;
        if (status != ACRE_OK)
            return status;
    }
    errno = ELOOP;
    return newfile_fail(wanted, "cannot write");
}

/* ---- Opening and naming --------------------------------------------------------------------- */

/* Makes the file that is written first. Where an old file's mode comes later, mode is for this
 * user alone: who could open the file in between would read what is written afterwards. */
static acre_status newfile_make(struct newfile *file, const char *path, mode_t mode)
{
    bool is_named = atomic_load(&is_named_always) || access("/proc/self/fd", X_OK) != 0;

    if (!is_named)
        file->fd = openat(file->folder, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, mode);
    if (file->fd >= 0)
        return ACRE_OK;
    if (!is_named && (errno == EACCES || errno == EROFS || errno == ENOSPC || errno == EDQUOT))
        return newfile_fail(path, "cannot write to the folder of");
    if (!temporary_make(file))
        return newfile_fail(path, "cannot draw a random name for");
    slot_take(file);
    file->fd = openat(file->folder, file->temporary,
                      O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, mode);
    if (file->fd >= 0)
        return ACRE_OK;
    acre_status status = newfile_fail(path, "cannot write");
    slot_put(file);
    file->temporary[0] = 0;
    return status;
}

acre_status newfile_open(struct newfile *file, const char *path)
{
    struct stat facts = {.st_nlink = 0};

    *file = (struct newfile){.fd = -1, .folder = -1, .slot = -1};
    if (strcmp(path, "-") == 0) {
        fflush(stdout);
        file->fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
        return file->fd >= 0 ? ACRE_OK : newfile_fail("standard output", "cannot write");
    }
    acre_status status = newfile_find(file, path, &facts);
    if (status == ACRE_OK && file->fd >= 0)
        return ACRE_OK;
    if (status == ACRE_OK && facts.st_nlink > 0 &&
        faccessat(file->folder, file->name, W_OK, AT_EACCESS) != 0)
        status = newfile_fail(path, "cannot write");
    if (status == ACRE_OK)
        status = newfile_make(file, path, facts.st_nlink > 0 ? 0600 : 0666);
    if (status == ACRE_OK && facts.st_nlink > 0) {
        if (geteuid() == 0 && fchown(file->fd, facts.st_uid, facts.st_gid) != 0)
            status = newfile_fail(path, "cannot keep the owner of");
        if (status == ACRE_OK && fchmod(file->fd, facts.st_mode & 0777) != 0)
            status = newfile_fail(path, "cannot keep the mode of");
    }
    if (status != ACRE_OK)
        newfile_abandon(file);
    return status;
}

/* Gives a file without a name one that nothing has. */
static bool link_as(const struct newfile *file, const char *name)
{
    char source[32];

    snprintf(source, sizeof source, "/proc/self/fd/%d", file->fd);
    return linkat(AT_FDCWD, source, file->folder, name, AT_SYMLINK_FOLLOW) == 0;
}

/* Gives a file without a name a temporary one. */
static bool link_temporarily(struct newfile *file)
{
    if (!temporary_make(file))
        return false;
    slot_take(file);
    if (link_as(file, file->temporary))
        return true;
    slot_put(file);
    file->temporary[0] = 0;
    return false;
}

acre_status newfile_commit(struct newfile *file, const char *path)
{
    acre_status status = ACRE_OK;
    sigset_t all, old;

    if (file->folder >= 0) {
        /* What replaces a file has a temporary name for a moment, since a link replaces nothing. No
         * signal ends this thread between the two names. */
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &old);
        bool is_new = !file->temporary[0] && link_as(file, file->name);
        if (!is_new && ((!file->temporary[0] && !link_temporarily(file)) ||
                        renameat(file->folder, file->temporary, file->folder, file->name) != 0)) {
            status = newfile_fail(path, "cannot replace");
        } else {
            file->temporary[0] = 0;
            slot_put(file);
        }
        pthread_sigmask(SIG_SETMASK, &old, NULL);
    }
    int fd = file->fd;
    file->fd = -1;
    if (close(fd) != 0 && status == ACRE_OK)
        status = newfile_fail(path, "cannot write");
    newfile_abandon(file);
    return status;
}

void newfile_abandon(struct newfile *file)
{
    if (file->temporary[0])
        unlinkat(file->folder, file->temporary, 0);
    slot_put(file);
    if (file->fd >= 0)
        close(file->fd);
    if (file->folder >= 0)
        close(file->folder);
    *file = (struct newfile){.fd = -1, .folder = -1, .slot = -1};
}
