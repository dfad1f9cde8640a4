/* SPDX-License-Identifier: MIT */
/* Backends out of shared libraries.
 *
 * What a library says about itself is checked before it is used: it is somebody else's. A name
 * that is taken is refused, unless the same library took it.
 */
#include "backend/backend.h"

#include "base/dl.h"
#include "base/status.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct load_entry {
    acre_backend_describe_fn describe;
};

/* Whether what a program header maps is in the file. */
static int segment_is_whole(const ElfW(Phdr) * segment, uint64_t bytes)
{
    return segment->p_type != PT_LOAD ||
           (segment->p_offset <= bytes && segment->p_filesz <= bytes - segment->p_offset);
}

/* The dynamic loader maps a file that was cut short and dies of it, so what it would map is
 * looked at before. Anything that is no library at all is left to the loader, which says so.
 * Errors: ACRE_ERR_FORMAT. */
static acre_status file_check(const char *path)
{
    ElfW(Ehdr) header;
    ElfW(Phdr) segment;
    struct stat facts;
    int fd = strchr(path, '/') ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    int is_whole = 1;

    if (fd < 0) /* a name that the loader looks for, or its own message */
        return ACRE_OK;
    if (fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode) &&
        pread(fd, &header, sizeof header, 0) == sizeof header &&
        memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_phentsize == sizeof segment)
        for (int i = 0; i < header.e_phnum && is_whole; i++) {
            off_t at = (off_t)(header.e_phoff + (uint64_t)i * sizeof segment);

            is_whole = pread(fd, &segment, sizeof segment, at) == sizeof segment &&
                       segment_is_whole(&segment, (uint64_t)facts.st_size);
        }
    close(fd);
    if (is_whole)
        return ACRE_OK;
    return status_fail(ACRE_ERR_FORMAT, "%s ends too early: it is not the whole library", path);
}

static int name_is_builtin(const char *name)
{
    const char *builtin;

    for (int i = 0; (builtin = acre_backend_name_at(i)); i++)
        if (strcmp(builtin, name) == 0)
            return 1;
    return 0;
}

/* Whether a library has registered a backend under a name. */
static int library_has(const void *library, const char *name, acre_backend **out)
{
    acre_backend *there = backend_of_library(library);

    if (!there || strcmp(there->name, name) != 0)
        return 0;
    *out = there;
    return 1;
}

/* Asks the library and registers what it describes, unless another thread is faster. */
static acre_status load_register(const char *path, acre_backend_describe_fn describe, void *library,
                                 acre_backend **out)
{
    acre_backend_desc desc = {.struct_size = sizeof desc};
    acre_status status = describe(&desc);

    if (status != ACRE_OK)
        return status_fail(status, "%s: acre_backend_describe answers %s", path,
                           acre_status_text(status));
    if (!desc.name)
        return status_fail(ACRE_ERR_INVALID, "%s: acre_backend_describe gives no name", path);
    if (name_is_builtin(desc.name))
        return status_fail(ACRE_ERR_EXISTS,
                           "%s calls its backend \"%s\", as one is called that comes with Acre; it "
                           "needs another name",
                           path, desc.name);
    if (library_has(library, desc.name, out))
        return ACRE_OK;
    status = backend_register_loaded(&desc, library, out);
    if (status == ACRE_ERR_EXISTS && library_has(library, desc.name, out))
        return ACRE_OK;
    return status;
}

acre_status acre_backend_load(const char *path, acre_backend **out)
{
    static const struct dl_symbol symbols[] = {{.name = "acre_backend_describe",
                                                .offset = offsetof(struct load_entry, describe),
                                                .is_optional = true}};
    struct load_entry entry;
    void *library;

    if (!path || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_backend_load: an argument is NULL");
    acre_status status = file_check(path);
    if (status == ACRE_OK)
        status = dl_open((const char *const[]){path, NULL}, symbols, 1, &entry, &library);
    if (status != ACRE_OK)
        return status;
    if (!entry.describe)
        status = status_fail(ACRE_ERR_UNSUPPORTED,
                             "%s has no acre_backend_describe: it is no backend for Acre "
                             "(docs/BACKENDS.md)",
                             path);
    else
        status = load_register(path, entry.describe, library, out);
    if (status != ACRE_OK)
        dl_close(library);
    return status;
}
