/* SPDX-License-Identifier: MIT */
/* Files of device memory.
 *
 *            acre_file_register                  acre_file_save, _load
 *   OPEN ◄──────────────────────► REGISTERED ◄──────────────────────────► STAGED
 *   a descriptor  deregister      an engine         first time, by device   buffers too
 *
 * The lock is held during a transfer: the engine and the buffers serve one at a time.
 */
#include <acre/file.h>

#include "backend/device.h"
#include "base/bits.h"
#include "base/heap.h"
#include "base/lock.h"
#include "base/status.h"
#include "base/struct_size.h"
#include "exchange/buffer.h"
#include "exchange/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    BLOCK_BYTES = 1 << 20,
    BLOCK_BYTES_MAX = 1 << 30,
    BLOCK_UNIT = 4096,
    RING_BYTES_MAX = 1 << 19, /* see engine_init() */
    DEPTH = 4,
    HUGE_BYTES = 2 << 20,
    ALIGNMENT = 4096, /* where the file system does not tell */
    MODE = 0666,
    FLAGS = O_ACCMODE | O_CREAT | O_EXCL | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_DIRECT | O_SYNC,
};

/* Buffers through which memory goes that the host does not reach. */
struct stage {
    void *mapped; /* NULL: none                                */
    size_t mapped_bytes;
    char *base; /* in it, at a huge page; depth blocks       */
    size_t bytes;
    acre_device *device; /* that has them page-locked, or NULL        */
    bool is_fixed;       /* known to the ring                         */
};

struct acre_file {
    struct lock lock; /* guards what follows the configuration     */
    int fd;
    char *path; /* owned                                     */
    acre_file_config config;
    bool is_direct;
    bool is_readable, is_writable;
    size_t offset_alignment, memory_alignment;
    pid_t owner; /* rings do not work in children             */
    bool is_registered;
    struct io io;       /* while is_registered                       */
    size_t block_bytes; /* of one request; the same                  */
    struct stage stage;
};

/* ---- Opening -------------------------------------------------------------------- */

static acre_status config_read(const acre_file_config *config, acre_file_config *out)
{
    *out = (acre_file_config){.struct_size = sizeof *out};
    if (config) {
        acre_status status = STRUCT_TAKE("acre_file_open", acre_file_config, config, out);
        if (status != ACRE_OK)
            return status;
    }
    out->block_bytes = out->block_bytes ? out->block_bytes : BLOCK_BYTES;
    out->depth = out->depth ? out->depth : DEPTH;
    out->mode = out->mode ? out->mode : MODE;
    if (out->block_bytes % BLOCK_UNIT || out->block_bytes > BLOCK_BYTES_MAX)
        return status_fail(ACRE_ERR_INVALID,
                           "blocks of %" PRIu64 " bytes; they are multiples of "
                           "%d, at most %d",
                           out->block_bytes, BLOCK_UNIT, BLOCK_BYTES_MAX);
    if (out->depth > IO_DEPTH_MAX || out->engine > ACRE_FILE_URING ||
        out->flags & ~(uint32_t)ACRE_FILE_MAY_BUFFER)
        return status_fail(ACRE_ERR_INVALID,
                           "depth %" PRIu32 " (at most %d), engine %" PRIu32
                           " (at most %d), flags %#" PRIx32 ": one is not known",
                           out->depth, IO_DEPTH_MAX, out->engine, ACRE_FILE_URING, out->flags);
    return ACRE_OK;
}

static acre_status open_failed(const char *path, int error)
{
    acre_status status = error == ENOENT   ? ACRE_ERR_NOT_FOUND
                         : error == EEXIST ? ACRE_ERR_EXISTS
                         : error == EINVAL ? ACRE_ERR_UNSUPPORTED
                                           : ACRE_ERR_IO;

    return status_fail_native(status, error, "%s: %s%s", path, strerror(error),
                              error == EINVAL ? "; the file system refuses O_DIRECT, flag "
                                                "ACRE_FILE_MAY_BUFFER does without"
                                              : "");
}

/* The file system refused O_DIRECT: opens without it where that is wanted. The kernel makes a new
 * file before it refuses; with O_EXCL the file is known to be this call's. */
static void descriptor_open_buffered(acre_file *file, int how)
{
    bool is_made = how & O_CREAT && how & O_EXCL;
    int error = errno;

    if (file->config.flags & ACRE_FILE_MAY_BUFFER) {
        how = is_made ? (how & ~O_EXCL) | O_NOFOLLOW : how;
        file->is_direct = false;
        file->fd = open(file->path, how & ~O_DIRECT, file->config.mode);
        return;
    }
    if (is_made)
        unlink(file->path);
    errno = error;
}

/* O_NONBLOCK is for what turns out to be no file: opening a pipe would wait. */
static acre_status descriptor_open(acre_file *file, int flags)
{
    const int how = flags | O_CLOEXEC | O_NONBLOCK;

    file->is_direct = true;
    file->fd = open(file->path, how | O_DIRECT, file->config.mode);
    if (file->fd < 0 && errno == EINVAL)
        descriptor_open_buffered(file, how);
    if (file->fd < 0)
        return open_failed(file->path, errno);
    int now = fcntl(file->fd, F_GETFL);
    if (now < 0 || fcntl(file->fd, F_SETFL, now & ~O_NONBLOCK) < 0)
        return open_failed(file->path, errno);
    return ACRE_OK;
}

/* What the file system asks of requests; without O_DIRECT or an answer, whole pages. */
static acre_status alignment_find(acre_file *file)
{
    struct stat facts;

    if (fstat(file->fd, &facts) < 0)
        return open_failed(file->path, errno);
    if (!S_ISREG(facts.st_mode) && !S_ISBLK(facts.st_mode))
        return status_fail(ACRE_ERR_INVALID, "%s is neither a file nor a block device", file->path);
    file->offset_alignment = file->memory_alignment = ALIGNMENT;
#ifdef STATX_DIOALIGN
    struct statx more;

    if (file->is_direct && statx(file->fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &more) == 0 &&
        more.stx_mask & STATX_DIOALIGN && more.stx_dio_offset_align && more.stx_dio_mem_align) {
        file->offset_alignment = more.stx_dio_offset_align;
        file->memory_alignment = more.stx_dio_mem_align;
    }
#endif
    if (file->config.block_bytes % file->offset_alignment)
        return status_fail(ACRE_ERR_INVALID,
                           "%s: blocks of %" PRIu64 " bytes; its file system "
                           "needs multiples of %zu",
                           file->path, file->config.block_bytes, file->offset_alignment);
    return ACRE_OK;
}

/* The ring gets requests of half a MiB at most, and more of them: with as many bytes under
 * way they were read a tenth faster than whole MiB (docs/BENCHMARKS.md). The plain engine
 * has one under way, whatever was asked for. */
static acre_status engine_init(acre_file *file)
{
    uint64_t block_bytes = file->config.block_bytes;
    uint64_t pieces = (block_bytes + RING_BYTES_MAX - 1) / RING_BYTES_MAX;
    uint64_t depth = file->config.depth * pieces;
    acre_status status =
        io_init(&file->io, file->fd, depth < IO_DEPTH_MAX ? (unsigned)depth : IO_DEPTH_MAX,
                (acre_file_engine)file->config.engine);

    if (!file->io.ring)
        file->io.depth = 1;
    else if (block_bytes > RING_BYTES_MAX)
        block_bytes = RING_BYTES_MAX;
    file->block_bytes = block_bytes;
    return status;
}

static acre_status register_locked(acre_file *file)
{
    acre_status status = engine_init(file);

    if (status != ACRE_OK)
        return status;
    file->owner = getpid();
    file->is_registered = true;
    return ACRE_OK;
}

acre_status acre_file_open(const char *path, int flags, const acre_file_config *config,
                           acre_file **out)
{
    acre_file_config full;

    if (!path || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_file_open: an argument is NULL");
    if (flags & ~FLAGS || (flags & O_ACCMODE) == O_ACCMODE)
        return status_fail(ACRE_ERR_INVALID,
                           "%s: flags %#x of open are not possible here (none of "
                           "O_APPEND, O_NONBLOCK, O_DIRECTORY, O_TMPFILE)",
                           path, flags & ~FLAGS);
    acre_status status = config_read(config, &full);
    if (status != ACRE_OK)
        return status;
    acre_file *file = heap_zalloc(sizeof *file);
    if (!file)
        return ACRE_ERR_HOST_MEMORY;
    lock_init(&file->lock, RANK_FILE, "file");
    file->fd = -1;
    file->config = full;
    file->is_readable = (flags & O_ACCMODE) != O_WRONLY;
    file->is_writable = (flags & O_ACCMODE) != O_RDONLY;
    file->path = heap_strdup(path);
    status = file->path ? descriptor_open(file, flags) : ACRE_ERR_HOST_MEMORY;
    if (status == ACRE_OK)
        status = alignment_find(file);
    if (status == ACRE_OK)
        status = register_locked(file);
    if (status != ACRE_OK) {
        acre_file_close(file);
        return status;
    }
    *out = file;
    return ACRE_OK;
}

/* ---- Buffers of a file ------------------------------------------------------------ */

static void stage_unlock(struct stage *stage)
{
    if (stage->device)
        acre_host_unregister(stage->device, stage->base);
    stage->device = NULL;
}

static void stage_drop(acre_file *file)
{
    struct stage *stage = &file->stage;

    stage_unlock(stage);
    heap_unmap(stage->mapped, stage->mapped_bytes);
    *stage = (struct stage){.base = NULL};
}

/* Huge pages are one piece where small ones are hundreds, to touch and to lock. */
static bool stage_map(struct stage *stage, size_t bytes)
{
    stage->mapped_bytes = bytes + HUGE_BYTES;
    stage->mapped = heap_map(stage->mapped_bytes);
    if (!stage->mapped)
        return false;
    stage->bytes = bytes;
    stage->base = (char *)round_up((uintptr_t)stage->mapped, HUGE_BYTES);
    madvise(stage->base, bytes, MADV_HUGEPAGE); /* or small ones */
    return true;
}

/* Has the buffers, page-locked for the device where it can; copies work without. */
static acre_status stage_prepare(acre_file *file, acre_device *device)
{
    struct stage *stage = &file->stage;
    struct status_saved saved;

    if (!stage->base) {
        if (!stage_map(stage, file->io.depth * file->block_bytes))
            return ACRE_ERR_HOST_MEMORY;
        stage->is_fixed = io_fix(&file->io, stage->base, stage->bytes);
    }
    if (stage->device == device || !device_has(device, ACRE_CAP_HOST_MEMORY))
        return ACRE_OK;
    status_save(&saved);
    stage_unlock(stage);
    if (acre_host_register(device, stage->base, stage->bytes) == ACRE_OK)
        stage->device = device;
    status_restore(&saved);
    return ACRE_OK;
}

/* ---- States --------------------------------------------------------------------- */

static void deregister_locked(acre_file *file)
{
    if (!file->is_registered)
        return;
    io_fini(&file->io); /* the ring holds on to the buffers, so it goes first */
    stage_drop(file);
    file->is_registered = false;
}

acre_status acre_file_register(acre_file *file)
{
    acre_status status;

    NEED(file);
    lock_take(&file->lock);
    status = file->is_registered
                 ? status_fail(ACRE_ERR_STATE, "%s is registered already", file->path)
                 : register_locked(file);
    lock_drop(&file->lock);
    return status;
}

static acre_status check_registered_locked(const acre_file *file)
{
    if (!file->is_registered)
        return status_fail(ACRE_ERR_STATE,
                           "%s is not registered; acre_file_register() makes it "
                           "ready",
                           file->path);
    if (file->owner != getpid())
        return status_fail(ACRE_ERR_FORKED,
                           "%s was opened before the fork; open it again in the "
                           "child",
                           file->path);
    return ACRE_OK;
}

acre_status acre_file_deregister(acre_file *file)
{
    acre_status status;

    NEED(file);
    lock_take(&file->lock);
    status = check_registered_locked(file);
    if (status == ACRE_OK)
        deregister_locked(file);
    lock_drop(&file->lock);
    return status;
}

void acre_file_close(acre_file *file)
{
    struct status_saved saved;

    if (!file)
        return;
    status_save(&saved);
    deregister_locked(file);
    if (file->fd >= 0)
        close(file->fd);
    lock_fini(&file->lock);
    heap_free(file->path);
    heap_free(file);
    status_restore(&saved);
}

/* ---- Transfers ------------------------------------------------------------------ */

static acre_status check_place(const acre_file *file, size_t bytes, uint64_t offset)
{
    if (!bytes)
        return status_fail(ACRE_ERR_INVALID, "%s: 0 bytes cannot be moved", file->path);
    if (offset % file->offset_alignment || bytes % file->offset_alignment)
        return status_fail(ACRE_ERR_INVALID,
                           "%s: %zu bytes at offset %" PRIu64 " are not aligned; "
                           "both must be multiples of %zu",
                           file->path, bytes, offset, file->offset_alignment);
    if (offset > INT64_MAX || bytes > INT64_MAX - offset)
        return status_fail(ACRE_ERR_RANGE,
                           "%s: %zu bytes at offset %" PRIu64 " end beyond what a "
                           "file can have",
                           file->path, bytes, offset);
    return ACRE_OK;
}

static acre_status file_bytes(const acre_file *file, uint64_t *out)
{
    off_t end = lseek(file->fd, 0, SEEK_END); /* block devices too; nobody uses the position */

    if (end < 0)
        return status_fail_native(ACRE_ERR_IO, errno, "%s: %s", file->path, strerror(errno));
    *out = (uint64_t)end;
    return ACRE_OK;
}

/* Before a load: the file has that much. */
static acre_status check_end(const acre_file *file, size_t bytes, uint64_t offset)
{
    uint64_t end = 0;
    acre_status status = file_bytes(file, &end);

    if (status == ACRE_OK && (offset > end || bytes > end - offset))
        return status_fail(ACRE_ERR_IO,
                           "%s: %zu bytes at offset %" PRIu64 " would be a short "
                           "read: the file ends at %" PRIu64,
                           file->path, bytes, offset, end);
    return status;
}

/* Before a save that makes the file longer: the room is there. Its size stays, so that a
 * save that is cut off leaves a file that loads refuse. */
static acre_status file_claim(const acre_file *file, size_t bytes, uint64_t offset)
{
    uint64_t end = 0;
    acre_status status = file_bytes(file, &end);

    if (status != ACRE_OK || offset + bytes <= end)
        return status;
    if (fallocate(file->fd, FALLOC_FL_KEEP_SIZE, (off_t)offset, (off_t)bytes) == 0 ||
        (errno != ENOSPC && errno != EDQUOT && errno != EFBIG))
        return ACRE_OK; /* or writing will tell */
    return status_fail_native(ACRE_ERR_LIMIT, errno,
                              "%s: no room for %zu bytes at offset %" PRIu64
                              ": %s; nothing was written",
                              file->path, bytes, offset, strerror(errno));
}

/* Whether the host reads and writes the memory itself; when the device does not know the
 * pointer, it is the host's. */
static acre_status find_reach(acre_device *device, const void *memory, size_t bytes,
                              bool *out_is_device)
{
    acre_pointer_info info = {.struct_size = sizeof info, .kind = ACRE_MEMORY_DEVICE};
    acre_status status = ACRE_OK;

    if (device_has(device, ACRE_CAP_POINTERS))
        status = acre_pointer_info_get(device, memory, &info);
    if (status != ACRE_OK)
        return status;
    bool is_ours = acre_device_id_of(device).type == ACRE_DEVICE_CPU;
    size_t left =
        info.bytes ? (size_t)((char *)info.base + info.bytes - (const char *)memory) : SIZE_MAX;
    *out_is_device = info.kind == ACRE_MEMORY_DEVICE && !is_ours;
    if (bytes > left && !*out_is_device) /* copies check the others, piece by piece */
        return status_fail(ACRE_ERR_INVALID,
                           "%zu bytes at %p run past the end: the block at %p of "
                           "%" PRIu64 " bytes has %zu left there",
                           bytes, memory, info.base, info.bytes, left);
    return ACRE_OK;
}

/* Chooses between in place and through buffers, and moves. */
static acre_status move_locked(acre_file *file, struct transfer *t)
{
    acre_status status = check_registered_locked(file);

    if (status == ACRE_OK)
        status = t->is_write ? file_claim(file, t->bytes, t->offset)
                             : check_end(file, t->bytes, t->offset);
    if (status == ACRE_OK)
        status = find_reach(t->device, t->memory, t->bytes, &t->is_device_memory);
    if (status != ACRE_OK)
        return status;
    struct buffer *buffer = NULL;
    if (t->is_device_memory)
        buffer = buffer_use(t->device, t->memory, t->bytes);
    bool is_reached = !t->is_device_memory || buffer;
    t->block_bytes = file->block_bytes;
    if (!is_reached || (uintptr_t)t->memory % file->memory_alignment) {
        status = stage_prepare(file, t->device);
        t->stage = file->stage.base;
        t->stage_is_fixed = file->stage.is_fixed;
    }
    if (status == ACRE_OK)
        status = transfer_run(t);
    buffer_unuse(buffer);
    return status;
}

static acre_status file_move(acre_file *file, acre_device *device, const void *memory, size_t bytes,
                             uint64_t offset, bool is_write)
{
    acre_status status;

    NEED(file);
    NEED(memory);
    ENTER(ACRE_CAP_COPY);
    if (is_write ? !file->is_writable : !file->is_readable)
        return status_fail(ACRE_ERR_INVALID, "%s was opened for %s only", file->path,
                           is_write ? "reading" : "writing");
    status = check_place(file, bytes, offset);
    if (status != ACRE_OK)
        return status;
    struct transfer transfer = {.io = &file->io,
                                .device = device,
                                .path = file->path,
                                .memory = (char *)(uintptr_t)memory,
                                .bytes = bytes,
                                .offset = offset,
                                .alignment = file->offset_alignment,
                                .is_write = is_write};
    lock_take(&file->lock);
    status = move_locked(file, &transfer);
    lock_drop(&file->lock);
    return status;
}

acre_status acre_file_save(acre_file *file, acre_device *device, const void *memory, size_t bytes,
                           uint64_t offset)
{
    return file_move(file, device, memory, bytes, offset, true);
}

acre_status acre_file_load(acre_file *file, acre_device *device, void *memory, size_t bytes,
                           uint64_t offset)
{
    return file_move(file, device, memory, bytes, offset, false);
}

acre_status acre_file_sync(acre_file *file)
{
    NEED(file);
    if (fdatasync(file->fd) == 0)
        return ACRE_OK;
    return status_fail_native(errno == ENOSPC || errno == EDQUOT ? ACRE_ERR_LIMIT : ACRE_ERR_IO,
                              errno, "%s: %s", file->path, strerror(errno));
}

acre_status acre_file_info_get(acre_file *file, acre_file_info *info)
{
    acre_file_info full = {.struct_size = sizeof full};

    NEED(file);
    acre_status status = STRUCT_CHECK("acre_file_info_get", acre_file_info, info);
    if (status == ACRE_OK)
        status = file_bytes(file, &full.bytes);
    if (status != ACRE_OK)
        return status;
    full.fd = file->fd;
    full.offset_alignment = file->offset_alignment;
    full.memory_alignment = file->memory_alignment;
    full.is_direct = file->is_direct;
    lock_take(&file->lock);
    full.is_registered = file->is_registered;
    if (file->is_registered)
        full.engine = file->io.ring ? ACRE_FILE_URING : ACRE_FILE_PLAIN;
    lock_drop(&file->lock);
    STRUCT_GIVE(acre_file_info, info, &full);
    return ACRE_OK;
}
