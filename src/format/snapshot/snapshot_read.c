/* SPDX-License-Identifier: MIT */
/* Opens a snapshot, whatever it is written in. */
#include "base/status.h"
#include "format/snapshot/builder_finish.h"
#include "format/snapshot/json_read.h"
#include "format/snapshot/pickle_read.h"
#include "format/snapshot/snapshot.h"

#include <string.h>
#include <sys/stat.h>

/* The first byte that is not blank; -1 for a file without one. */
static acre_status first_byte(struct input *input, int *out)
{
    for (;;) {
        bool is_there;
        acre_status status = input_fill(input, 1, &is_there);
        if (status != ACRE_OK)
            return status;
        *out = is_there ? input->window[input->at] : -1;
        if (*out != ' ' && *out != '\n' && *out != '\r' && *out != '\t')
            return ACRE_OK;
        input->at++;
    }
}

static acre_status read_any(struct input *input, struct builder *builder)
{
    int first = -1;
    acre_status status = first_byte(input, &first);

    builder->offset = input_offset(input);
    if (status != ACRE_OK)
        return status;
    if (first == 0x80)
        return pickle_read(input, builder);
    if (first == '{' || first == '[')
        return json_read_input(input, builder);
    if (first < 0)
        return BUILDER_FAIL(builder, "%s", "the file is empty; save the snapshot again");
    return BUILDER_FAIL(builder,
                        "0x%02x begins neither a pickle nor JSON; this is no memory "
                        "snapshot as torch.cuda.memory._dump_snapshot writes it",
                        first);
}

acre_status snapshot_read(const char *path, struct snapshot **out)
{
    struct source *source;
    acre_status status = source_open(path, &source);

    return status == ACRE_OK ? snapshot_read_source(path, source, out) : status;
}

acre_status snapshot_read_source(const char *path, struct source *source, struct snapshot **out)
{
    struct builder builder;
    struct input input;
    acre_status status = input_adopt(&input, path, source);

    if (status != ACRE_OK)
        return status;
    status = builder_init(&builder, path);
    if (status == ACRE_OK) {
        status = read_any(&input, &builder);
        if (status == ACRE_OK)
            status = builder_finish(&builder, out);
        builder_fini(&builder);
    }
    input_close(&input);
    return status;
}

/* An empty file may be an empty trace; its name tells. */
static bool is_trace_name(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

    return strstr(name, ".trace") || strstr(name, ".txt") || !strchr(name, '.');
}

acre_status snapshot_is_one(const char *path, bool *out)
{
    struct input input;
    struct stat facts;
    int first = -1;

    *out = false;
    if (stat(path, &facts) == 0 && !S_ISREG(facts.st_mode))
        return ACRE_OK; /* a pipe cannot be looked at twice */
    acre_status status = input_open(&input, path);
    if (status != ACRE_OK)
        return status;
    status = first_byte(&input, &first);
    *out = first == 0x80 || first == '{' || first == '[' || (first < 0 && !is_trace_name(path));
    input_close(&input);
    return status;
}
