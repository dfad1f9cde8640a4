/* SPDX-License-Identifier: MIT */
/* What replays ask a trace beyond acre/trace.h. */
#ifndef SRC_FORMAT_TRACE_H
#define SRC_FORMAT_TRACE_H

#include <acre/trace.h>

struct source;

/* acre_trace_open for a source that is open. It is owned afterwards, or closed. */
acre_status trace_adopt(const char *path, struct source *source, acre_trace **out);

/* How many slots were in use at once so far: every slot is below it. */
uint64_t trace_slots(const acre_trace *trace);

/* How much of the file was read, in bytes of the file; *out_total is 0 when it cannot be known. */
void trace_progress(const acre_trace *trace, uint64_t *out_done, uint64_t *out_total);

#endif
