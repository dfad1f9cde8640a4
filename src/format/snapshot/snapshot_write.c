/* SPDX-License-Identifier: MIT */
/* Writes a snapshot, in whatever it is asked for. */
#include "format/snapshot/json_write.h"
#include "format/snapshot/pickle_write.h"
#include "format/snapshot/snapshot.h"

acre_status snapshot_write(const struct snapshot *snapshot, const char *path,
                           enum snapshot_format format)
{
    struct sink sink;
    size_t length = strlen(path);
    bool is_gzip = length >= 3 && strcmp(path + length - 3, ".gz") == 0;
    acre_status status = sink_open(&sink, path, is_gzip);

    if (status != ACRE_OK)
        return status;
    if (format == SNAPSHOT_JSON)
        json_write(snapshot, &sink);
    else
        status = sink_check_binary(&sink);
    if (status == ACRE_OK && format != SNAPSHOT_JSON)
        status = pickle_write(snapshot, &sink);
    if (status != ACRE_OK) {
        sink_abandon(&sink);
        return status;
    }
    return sink_finish(&sink);
}
