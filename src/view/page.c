/* SPDX-License-Identifier: MIT */
#include "view/page.h"

#include "base/check.h"
#include "base/heap.h"
#include "base/status.h"
#include "view/pieces.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static void put_escaped(FILE *file, const char *text)
{
    for (; *text; text++) {
        if (*text == '<' || *text == '>' || *text == '&' || *text == '"' || *text == '\'')
            fprintf(file, "&#%d;", *text);
        else
            putc(*text, file);
    }
}

/* Writes the template up to a mark and returns what is behind the mark. */
static const char *put_until(FILE *file, const char *at, const char *mark)
{
    const char *found = strstr(at, mark);

    CHECK(found);
    fwrite(at, 1, (size_t)(found - at), file);
    return found + strlen(mark);
}

static acre_status put_page(const acre_view *view, FILE *file)
{
    const char *at = put_until(file, page_template, "@TITLE@");

    put_escaped(file, view->title);
    at = put_until(file, at, "@DATA@");
    acre_status status = pieces_write(view, file);
    fputs(at, file);
    return status;
}

/* Devices and pipes are written to directly; a file appears when it is whole. */
static bool is_replaced(const char *path)
{
    struct stat facts;

    return stat(path, &facts) != 0 || S_ISREG(facts.st_mode);
}

static acre_status page_fail(const char *path, int code)
{
    return status_fail_native(ACRE_ERR_IO, code, "%s: cannot be written: %s", path, strerror(code));
}

static acre_status write_to(const acre_view *view, const char *path, const char *beside)
{
    FILE *file = fopen(beside, "w");

    if (!file)
        return page_fail(path, errno);
    acre_status status = put_page(view, file);
    int code = ferror(file) ? EIO : 0;
    if (fclose(file) != 0)
        code = errno;
    if (status == ACRE_OK && code)
        status = page_fail(path, code);
    if (status == ACRE_OK && beside != path && rename(beside, path) != 0)
        status = page_fail(path, errno);
    if (status != ACRE_OK && beside != path)
        remove(beside);
    return status;
}

acre_status page_write(const acre_view *view, const char *path)
{
    if (!is_replaced(path))
        return write_to(view, path, path);
    char *beside = heap_alloc(strlen(path) + sizeof ".part");
    if (!beside)
        return ACRE_ERR_HOST_MEMORY;
    strcat(strcpy(beside, path), ".part");
    acre_status status = write_to(view, path, beside);
    heap_free(beside);
    return status;
}
