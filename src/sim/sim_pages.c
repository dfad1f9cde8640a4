/* SPDX-License-Identifier: MIT */
/* Pages and addresses: every system call the simulated memory makes.
 *
 * Each device has one memfd. Extents take ever new offsets of it, so a fresh
 * extent reads as zero and offsets are never searched for; giving an extent back
 * punches a hole. The file is as long as files can be: pages exist only where
 * somebody wrote. A descriptor per extent would hit the limit of descriptors
 * (1024) with 2 GiB of 2 MiB handles; only shareable ones have their own.
 */
#include "sim/sim_memory.h"

#include "base/bits.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define FILE_BYTES_MAX ((uint64_t)1 << 62)

/* ---- Mapping calls, failable ------------------------------------------------ */

static _Atomic uint64_t fail_in; /* mapping calls until one fails; 0: disarmed */
static _Atomic int has_failed;

void pages_fail_nth(uint64_t nth)
{
    atomic_store(&has_failed, 0);
    atomic_store(&fail_in, nth);
}

int pages_fail_disarm(void)
{
    atomic_store(&fail_in, 0);
    return atomic_exchange(&has_failed, 0);
}

static bool must_fail(void)
{
    uint64_t left = atomic_load_explicit(&fail_in, memory_order_relaxed);

    while (UNLIKELY(left)) {
        if (!atomic_compare_exchange_weak(&fail_in, &left, left - 1))
            continue;
        if (left > 1)
            return false;
        atomic_store(&has_failed, 1);
        errno = ENOMEM;
        return true;
    }
    return false;
}

static void *map_call(void *address, size_t bytes, int protection, int flags, int fd,
                      uint64_t offset)
{
    if (must_fail())
        return MAP_FAILED;
    return mmap(address, bytes, protection, flags, fd, (off_t)offset);
}

/* A mapping call failed: the limit of mappings and the address space are both
 * ENOMEM, and both are memory of the host. */
static acre_status map_failed(const char *what, size_t bytes)
{
    int code = errno;

    return status_fail_native(ACRE_ERR_HOST_MEMORY, code,
                              "%s of %zu bytes failed: %s (see vm.max_map_count and ulimit -v)",
                              what, bytes, strerror(code));
}

void pages_unmap(void *address, size_t bytes)
{
    /* The kernel joins neighbouring reservations; parting them may meet the limit
     * of mappings. The addresses are lost then, nothing else. */
    if (munmap(address, bytes) != 0)
        log_line(ACRE_LOG_ERROR, "%zu bytes of addresses stay reserved: %s", bytes,
                 strerror(errno));
}

/* ---- Extents ------------------------------------------------------------------ */

/* Opens a memfd of a size. */
static acre_status file_create(const char *name, uint64_t bytes, unsigned flags, int *out)
{
    int fd = must_fail() ? -1 : memfd_create(name, MFD_CLOEXEC | flags);

    if (fd < 0)
        goto failed;
    if (ftruncate(fd, (off_t)bytes) == 0) {
        *out = fd;
        return ACRE_OK;
    }
failed:;
    int code = errno;
    if (fd >= 0)
        close(fd);
    if (code == EMFILE || code == ENFILE)
        return status_fail_native(ACRE_ERR_LIMIT, code,
                                  "no descriptor left for device memory: raise ulimit -n");
    return status_fail_native(ACRE_ERR_HOST_MEMORY, code, "memfd of %llu bytes failed: %s",
                              (unsigned long long)bytes, strerror(code));
}

/* How long a file may become: all there is, or what ulimit -f leaves. */
static uint64_t file_bytes_max(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < FILE_BYTES_MAX)
        return round_down(limit.rlim_cur, 4096);
    return FILE_BYTES_MAX;
}

/* Takes fresh offsets of the device's file. */
static acre_status file_take(struct sim_memory *memory, int device, size_t bytes,
                             struct sim_extent *out)
{
    acre_status status = ACRE_OK;

    lock_take(&memory->files_lock);
    if (memory->files[device] < 0)
        status = file_create("acre-device", file_bytes_max(), 0, &memory->files[device]);
    if (status == ACRE_OK && bytes > file_bytes_max() - memory->files_end[device])
        status = status_fail(ACRE_ERR_LIMIT,
                             "the file of device %d is at its greatest length; "
                             "raise ulimit -f",
                             device);
    if (status == ACRE_OK) {
        *out = (struct sim_extent){memory->files[device], false, memory->files_end[device], bytes};
        memory->files_end[device] += bytes;
    }
    lock_drop(&memory->files_lock);
    return status;
}

/* A file of its own whose size nobody can change, so that no mapping of it, in
 * whatever process, loses its pages. */
static acre_status file_create_sealed(size_t bytes, struct sim_extent *out)
{
    int fd = -1;
    acre_status status = file_create("acre-handle", bytes, MFD_ALLOW_SEALING, &fd);

    if (status != ACRE_OK)
        return status;
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
        status = status_fail_native(ACRE_ERR_DEVICE, errno, "sealing a memfd failed: %s",
                                    strerror(errno));
        close(fd);
        return status;
    }
    *out = (struct sim_extent){fd, true, 0, bytes};
    return ACRE_OK;
}

acre_status extent_create(struct sim *sim, int device, size_t bytes, bool is_shareable,
                          struct sim_extent *out)
{
    if (sim_is_dry(sim)) {
        *out = (struct sim_extent){-1, false, 0, bytes};
        return ACRE_OK;
    }
    if (is_shareable)
        return file_create_sealed(bytes, out);
    return file_take(sim->memory, device, bytes, out);
}

void extent_destroy(struct sim_extent *extent)
{
    if (extent->fd < 0)
        return;
    if (extent->is_own)
        close(extent->fd);
    else if (fallocate(extent->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                       (off_t)extent->offset, (off_t)extent->bytes) != 0)
        log_line(ACRE_LOG_ERROR, "%zu bytes of device memory stay committed: %s", extent->bytes,
                 strerror(errno));
    extent->fd = -1;
}

acre_status extent_copy(const struct sim_extent *from, const char *view,
                        const struct sim_extent *to)
{
    off_t begin = (off_t)from->offset, end = begin + (off_t)from->bytes, at = begin;

    while (at < end) {
        off_t data = lseek(from->fd, at, SEEK_DATA);
        off_t hole = data < 0 || data >= end ? end : lseek(from->fd, data, SEEK_HOLE);

        if (data < 0 || data >= end)
            break;
        if (hole < 0 || hole > end)
            hole = end;
        for (at = data; at < hole;) {
            ssize_t done =
                must_fail() ? -1
                            : pwrite(to->fd, view + (at - begin), (size_t)(hole - at), at - begin);
            if (done <= 0)
                return status_fail_native(ACRE_ERR_HOST_MEMORY, errno,
                                          "moving %zu bytes of device memory into a file of "
                                          "their own failed: %s",
                                          from->bytes, strerror(errno));
            at += done;
        }
    }
    return ACRE_OK;
}

/* ---- Views ---------------------------------------------------------------------- */

/* Addresses without access. Without MAP_NORESERVE the flag is missing in the
 * kernel's record, nothing else: that keeps it from joining the private view of
 * a reservation to the public one beside it, which every map would have to part
 * again (5.5 instead of 11 microseconds for map and unmap). */
#define RESERVED (MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE)

acre_status views_reserve(size_t bytes, size_t align, char **out_public, char **out_alias)
{
    size_t slack = align > 4096 ? align : 0, apart = round_up(bytes, align), total;

    if (apart < bytes || __builtin_add_overflow(apart, bytes, &total) ||
        __builtin_add_overflow(total, slack, &total))
        return status_fail(ACRE_ERR_DEVICE_MEMORY,
                           "%zu bytes of addresses are more than "
                           "there are",
                           bytes);
    char *base = map_call(NULL, total, PROT_NONE, RESERVED, -1, 0);
    if (base == MAP_FAILED)
        return status_fail_native(ACRE_ERR_DEVICE_MEMORY, errno,
                                  "no %zu bytes of addresses left for two views: %s", bytes,
                                  strerror(errno));
    char *aligned = (char *)round_up((uintptr_t)base, align);
    if (aligned > base)
        pages_unmap(base, (size_t)(aligned - base));
    if (aligned < base + slack)
        pages_unmap(aligned + apart + bytes, (size_t)(base + slack - aligned));
    *out_public = aligned;
    *out_alias = aligned + apart;
    return ACRE_OK;
}

void views_release(char *public_base, char *alias, size_t bytes)
{
    pages_unmap(public_base, (size_t)(alias - public_base) + bytes);
}

acre_status view_map(char *address, const struct sim_extent *extent)
{
    if (map_call(address, extent->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, extent->fd,
                 extent->offset) == MAP_FAILED)
        return map_failed("mapping device memory", extent->bytes);
    return ACRE_OK;
}

static acre_status view_clear(char *address, size_t bytes, int flags)
{
    if (must_fail())
        return map_failed("unmapping device memory", bytes);
    if (mmap(address, bytes, PROT_NONE, flags | MAP_FIXED, -1, 0) != MAP_FAILED)
        return ACRE_OK;
    /* At the limit of mappings the kernel refuses to replace one. Then the old mapping stays,
     * and nobody can use it; the next mapping there, or the end of the range, removes it. */
    if (errno == ENOMEM && mprotect(address, bytes, PROT_NONE) == 0)
        return ACRE_OK;
    return map_failed("unmapping device memory", bytes);
}

acre_status public_unmap(char *address, size_t bytes)
{
    return view_clear(address, bytes, RESERVED);
}

acre_status alias_unmap(char *address, size_t bytes)
{
    return view_clear(address, bytes, RESERVED & ~MAP_NORESERVE);
}

acre_status view_protect(char *address, size_t bytes, bool is_open)
{
    if (must_fail() || mprotect(address, bytes, is_open ? PROT_READ | PROT_WRITE : PROT_NONE))
        return map_failed(is_open ? "opening a window" : "closing a window", bytes);
    return ACRE_OK;
}

acre_status host_pages_map(size_t bytes, char **out)
{
    char *base = map_call(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (base == MAP_FAILED)
        return map_failed("host memory", bytes);
    *out = base;
    return ACRE_OK;
}
