/* SPDX-License-Identifier: MIT */
#include <acre/output.h>

#include "base/heap.h"
#include "base/status.h"
#include "format/sink.h"

#include <errno.h>
#include <sys/stat.h>

struct acre_output {
    struct sink sink;
    FILE *stream;
};

static ssize_t stream_write(void *cookie, const char *bytes, size_t count)
{
    acre_output *output = cookie;

    sink_put(&output->sink, bytes, count);
    if (output->sink.failed == ACRE_OK)
        return (ssize_t)count;
    errno = EIO;
    return 0;
}

ACRE_API acre_status acre_output_open(const char *path, acre_output **out)
{
    if (!path || !out)
        return status_fail(ACRE_ERR_INVALID, "acre_output_open: %s is NULL", path ? "out" : "path");
    acre_output *output = heap_zalloc(sizeof *output);
    if (!output)
        return ACRE_ERR_HOST_MEMORY;
    acre_status status = sink_open(&output->sink, path, false);
    if (status != ACRE_OK) {
        heap_free(output);
        return status;
    }
    output->stream = fopencookie(output, "w", (cookie_io_functions_t){.write = stream_write});
    if (!output->stream) {
        sink_abandon(&output->sink);
        heap_free(output);
        return status_fail(ACRE_ERR_HOST_MEMORY, "acre_output_open: no stream");
    }
    *out = output;
    return ACRE_OK;
}

ACRE_API FILE *acre_output_stream(acre_output *output)
{
    return output ? output->stream : NULL;
}

ACRE_API acre_status acre_output_finish(acre_output *output)
{
    if (!output)
        return status_fail(ACRE_ERR_INVALID, "acre_output_finish: output is NULL");
    fclose(output->stream);
    acre_status status = sink_finish(&output->sink);
    heap_free(output);
    return status;
}

ACRE_API void acre_output_abandon(acre_output *output)
{
    if (!output)
        return;
    fclose(output->stream);
    sink_abandon(&output->sink);
    heap_free(output);
}

ACRE_API void acre_output_abandon_all(void)
{
    newfile_abandon_all();
}

ACRE_API void acre_output_limit_set(uint64_t bytes)
{
    sink_limit_set(bytes);
}

ACRE_API acre_status acre_output_check(const char *output, const char *const *inputs, size_t count)
{
    struct stat to, from;

    if (!output || (!inputs && count))
        return status_fail(ACRE_ERR_INVALID, "acre_output_check: an argument is NULL");
    if (stat(output, &to) != 0 || !S_ISREG(to.st_mode))
        return ACRE_OK;
    for (size_t i = 0; i < count; i++)
        if (inputs[i] && stat(inputs[i], &from) == 0 && from.st_dev == to.st_dev &&
            from.st_ino == to.st_ino)
            return status_fail(ACRE_ERR_INVALID,
                               "%s is the file to read and %s the file to write, and both are one "
                               "file; choose another name for the output",
                               inputs[i], output);
    return ACRE_OK;
}
