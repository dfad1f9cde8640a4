/* SPDX-License-Identifier: MIT */
/* A store in a file: eight bytes that say so, then every change as a record.
 *
 *     u32 length, message (message.h); length is that of the message
 *
 * Each process replays the records it has not seen into a table of its own, under an
 * advisory lock on the whole file, and appends its changes. Those who wait look again
 * after a while that grows to five milliseconds. A record that is cut short is an error.
 * The lock is only tried, never waited for: a process that was stopped while it holds the
 * lock costs the others no more than their deadlines, and the message names that process. A child
 * of fork keeps no descriptor of the file: it would hold the lock after a parent that was killed.
 * Who destroys a store puts a mark into a queue that keys cannot name; the last of the
 * declared workers removes the file.
 */
#include "base/heap.h"
#include "base/process/fork_fd.h"
#include "base/lock.h"
#include "base/status.h"
#include "symm/deadline.h"
#include "symm/store/store.h"
#include "symm/store/table.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define FILE_MAGIC   "ACRESTO1"
#define FILE_HEAD    8
#define CLOSED_QUEUE "\001closed"
#define WAIT_NS_MIN  100000 /* between the first looks for an answer; doubles up to 5 ms */
#define BUSY_NS      200000 /* between tries of a lock that another process holds        */
#define GRACE_MS     50     /* that a busy lock is tried although the deadline passed    */
#define OPEN_MS      1000   /* that opening waits for the lock before it goes on without */
#define CLOSE_MS     1000   /* that closing waits for the lock to leave its mark         */

struct file {
    acre_store store;
    struct lock lock;   /* between threads; the file's own lock is between processes */
    struct table table; /* what records up to seen say                               */
    off_t seen;         /* bytes of the file that were replayed; 0: none             */
    int fd;
    char *path;
    uint32_t workers; /* of which the last removes the file; 0: nobody does        */
};

static acre_status fail_io(const struct file *file, const char *what)
{
    return status_fail_native(ACRE_ERR_IO, errno, "store \"%s\": %s failed: %s", file->path, what,
                              strerror(errno));
}

static acre_status replay_one(struct file *file, const uint8_t *data, uint32_t bytes)
{
    struct message message;
    struct reply reply = {0};
    acre_status status = message_decode(data, bytes, &message);

    if (status != ACRE_OK)
        return status;
    status = table_apply(&file->table, &message, &reply);
    message_fini(&message);
    reply_fini(&reply);
    if (status == ACRE_ERR_NOT_READY)
        return status_fail(ACRE_ERR_FORMAT, "store \"%s\": a record takes from an empty queue",
                           file->path);
    return status;
}

/* Replays what data holds; a record that is not whole is an error. */
static acre_status store_file_replay(struct file *file, const uint8_t *data, size_t bytes)
{
    while (bytes > 0) {
        uint32_t length = 0;
        if (bytes >= 4) {
            memcpy(&length, data, 4);
            length = le32toh(length);
        }
        if (bytes < 4 || length > bytes - 4)
            return status_fail(ACRE_ERR_FORMAT,
                               "store \"%s\": the record at byte %lld is cut "
                               "short; a writer was killed or the file is damaged",
                               file->path, (long long)file->seen);
        acre_status status = replay_one(file, data + 4, length);
        if (status != ACRE_OK)
            return status;
        file->seen += 4 + (off_t)length;
        data += 4 + length;
        bytes -= 4 + length;
    }
    return ACRE_OK;
}

/* What a full disk takes a part of is tried again, which tells why the rest does not go. */
static bool write_whole(int fd, const void *data, size_t bytes, off_t at)
{
    const char *from = data;

    while (bytes > 0) {
        ssize_t written = pwrite(fd, from, bytes, at);
        if (written < 0)
            return false;
        from += written;
        at += written;
        bytes -= (size_t)written;
    }
    return true;
}

/* Reads and checks the first bytes, or writes them into an empty file. */
static acre_status begin_locked(struct file *file, off_t size)
{
    char magic[FILE_HEAD];

    if (size == 0 && !write_whole(file->fd, FILE_MAGIC, FILE_HEAD, 0))
        return fail_io(file, "writing");
    if (size > 0 && (pread(file->fd, magic, FILE_HEAD, 0) != FILE_HEAD ||
                     memcmp(magic, FILE_MAGIC, FILE_HEAD) != 0))
        return status_fail(ACRE_ERR_FORMAT, "store \"%s\": the file is not a store", file->path);
    file->seen = FILE_HEAD;
    return ACRE_OK;
}

/* Brings the table up to date. */
static acre_status refresh_locked(struct file *file)
{
    struct stat stat;

    if (fstat(file->fd, &stat) != 0)
        return fail_io(file, "fstat");
    if (stat.st_size < file->seen)
        return status_fail(ACRE_ERR_FORMAT,
                           "store \"%s\": the file has %lld bytes, and had %lld before; somebody "
                           "cut it or wrote it anew; give each job a file of its own",
                           file->path, (long long)stat.st_size, (long long)file->seen);
    acre_status status = file->seen == 0 ? begin_locked(file, stat.st_size) : ACRE_OK;
    if (status != ACRE_OK || stat.st_size <= file->seen)
        return status;
    size_t bytes = (size_t)(stat.st_size - file->seen);
    uint8_t *data = heap_alloc(bytes);
    if (!data)
        return ACRE_ERR_HOST_MEMORY;
    if (pread(file->fd, data, bytes, file->seen) != (ssize_t)bytes)
        status = fail_io(file, "reading");
    else
        status = store_file_replay(file, data, bytes);
    heap_free(data);
    return status;
}

/* Writes a change behind the others. On failure the file is as long as before and the
 * table is built anew at the next call. */
static acre_status append_locked(struct file *file, const struct message *request)
{
    acre_blob bytes;
    acre_status status = message_encode(request, &bytes);

    if (status == ACRE_OK) {
        uint32_t length = htole32((uint32_t)bytes.bytes);
        uint8_t *record = heap_alloc(4 + bytes.bytes);
        if (record) {
            memcpy(record, &length, 4);
            memcpy(record + 4, bytes.data, bytes.bytes);
            size_t whole = 4 + bytes.bytes;
            if (write_whole(file->fd, record, whole, file->seen))
                file->seen += (off_t)whole;
            else
                status = fail_io(file, "writing");
        } else {
            status = ACRE_ERR_HOST_MEMORY;
        }
        heap_free(record);
        acre_blob_free(&bytes);
    }
    if (status != ACRE_OK) {
        if (ftruncate(file->fd, file->seen) != 0)
            status = fail_io(file, "cutting back");
        table_fini(&file->table);
        table_init(&file->table);
        file->seen = 0;
    }
    return status;
}

/* Answers a request if the file is free and the answer is there. Without a recorded failure:
 * ACRE_ERR_BUSY (another process holds the lock), ACRE_ERR_NOT_READY (no answer yet). */
static acre_status file_try(struct file *file, const struct message *request, struct reply *reply)
{
    acre_status status;

    lock_take(&file->lock);
    if (flock(file->fd, LOCK_EX | LOCK_NB) != 0) {
        bool is_busy = errno == EWOULDBLOCK || errno == EINTR;
        status = is_busy ? ACRE_ERR_BUSY : fail_io(file, "locking");
        goto unlock;
    }
    status = refresh_locked(file);
    if (status == ACRE_OK)
        status = table_apply(&file->table, request, reply);
    if (status == ACRE_OK && verb_is_change(request->verb))
        status = append_locked(file, request);
    flock(file->fd, LOCK_UN);
unlock:
    lock_drop(&file->lock);
    return status;
}

/* The process that holds the lock of the file, or 0 when the system does not tell. */
static long file_owner(const struct file *file)
{
    struct stat stat;
    FILE *locks = fstat(file->fd, &stat) == 0 ? fopen("/proc/locks", "re") : NULL;
    char line[256];
    long owner = 0;

    while (locks && owner == 0 && fgets(line, sizeof line, locks)) {
        unsigned major_number, minor_number;
        unsigned long long inode;
        long pid;
        if (sscanf(line, "%*s FLOCK %*s %*s %ld %x:%x:%llu", &pid, &major_number, &minor_number,
                   &inode) == 4 &&
            inode == stat.st_ino && makedev(major_number, minor_number) == stat.st_dev)
            owner = pid;
    }
    if (locks)
        fclose(locks);
    return owner;
}

static acre_status fail_late(struct file *file, const struct message *request, bool is_busy)
{
    long owner = is_busy ? file_owner(file) : 0;

    if (owner > 0)
        return status_fail(ACRE_ERR_TIMEOUT,
                           "store \"%s\": process %ld held the lock of the file until the "
                           "deadline; it is stopped, or the file system is slow",
                           file->path, owner);
    if (is_busy)
        return status_fail(ACRE_ERR_TIMEOUT,
                           "store \"%s\": another process held the lock of the file until the "
                           "deadline; `fuser -v` on the file tells which",
                           file->path);
    lock_take(&file->lock);
    acre_status status = store_fail_timeout(table_missing(&file->table, request));
    lock_drop(&file->lock);
    return status;
}

static acre_status file_call(acre_store *self, const struct message *request, int64_t deadline,
                             struct reply *reply)
{
    struct file *file = (struct file *)self;
    int64_t wait = WAIT_NS_MIN, pause;
    int64_t grace = deadline_in_ms(GRACE_MS);
    acre_status status;

    while ((status = file_try(file, request, reply)) == ACRE_ERR_NOT_READY ||
           status == ACRE_ERR_BUSY) {
        bool is_busy = status == ACRE_ERR_BUSY;
        /* Ranks take the lock for microseconds; a deadline that has passed already is no
         * reason to fail because one of them holds it just now. */
        int64_t left = deadline_left_ns(is_busy && deadline < grace ? grace : deadline);
        if (left == 0) {
            status = fail_late(file, request, is_busy);
            break;
        }
        pause = is_busy ? BUSY_NS : wait;
        pause = pause < left ? pause : left;
        nanosleep(&(struct timespec){0, (long)pause}, NULL);
        if (!is_busy && wait < 5 * NS_PER_MS)
            wait *= 2;
    }
    if (status != ACRE_OK)
        reply_fini(reply);
    return status;
}

static void file_destroy(acre_store *self)
{
    struct file *file = (struct file *)self;
    struct bytes items[] = {{CLOSED_QUEUE, sizeof CLOSED_QUEUE - 1}, {"", 0}};
    struct reply reply = {0};

    if (file->workers > 0 && file->fd >= 0 &&
        file_call(self, &(struct message){.verb = VERB_PUSH, .count = 2, .items = items},
                  deadline_in_ms(CLOSE_MS), &reply) == ACRE_OK &&
        file_call(self, &(struct message){.verb = VERB_LENGTH, .count = 1, .items = items},
                  deadline_in_ms(CLOSE_MS), &reply) == ACRE_OK &&
        reply.number >= (int64_t)file->workers)
        unlink(file->path);
    fork_fd_close(file->fd);
    table_fini(&file->table);
    lock_fini(&file->lock);
    heap_free(file->path);
    heap_free(file);
}

static const struct store_ops file_ops = {file_call, file_destroy};

/* Opens the file; somebody else's, a link or a device is refused. */
static acre_status file_open(struct file *file)
{
    struct stat stat;

    file->fd = open(file->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);
    if (file->fd < 0)
        return fail_io(file, "opening");
    if (fstat(file->fd, &stat) != 0)
        return fail_io(file, "fstat");
    if (!S_ISREG(stat.st_mode) || stat.st_uid != geteuid())
        return status_fail(ACRE_ERR_REJECTED, "store \"%s\": not a regular file of user %u",
                           file->path, (unsigned)geteuid());
    return fork_fd_note(file->fd);
}

ACRE_API acre_status acre_store_open_file(const char *path, uint32_t workers, acre_store **out)
{
    struct reply reply = {0};

    if (!path || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_store_open_file: %s is NULL",
                           path ? "out" : "path");
    struct file *file = heap_zalloc(sizeof *file);
    if (!file)
        return ACRE_ERR_HOST_MEMORY;
    store_init(&file->store, &file_ops);
    lock_init(&file->lock, RANK_LEAF, "file store");
    table_init(&file->table);
    file->fd = -1;
    file->path = heap_strdup(path);
    acre_status status = file->path ? file_open(file) : ACRE_ERR_HOST_MEMORY;
    if (status == ACRE_OK)
        status = file_call(&file->store, &(struct message){.verb = VERB_COUNT},
                           deadline_in_ms(OPEN_MS), &reply);
    if (status == ACRE_ERR_TIMEOUT) /* locked: the first call with a deadline tells */
        status = ACRE_OK;
    if (status != ACRE_OK) {
        file_destroy(&file->store);
        return status;
    }
    file->workers = workers;
    *out = &file->store;
    return ACRE_OK;
}
