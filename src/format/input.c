/* SPDX-License-Identifier: MIT */
#include "format/input.h"

#include "base/heap.h"
#include "base/status.h"

#include <string.h>

acre_status input_open(struct input *input, const char *path)
{
    struct source *source;

    memset(input, 0, sizeof *input);
    acre_status status = source_open(path, &source);
    return status == ACRE_OK ? input_adopt(input, path, source) : status;
}

acre_status input_adopt(struct input *input, const char *path, struct source *source)
{
    *input = (struct input){.path = path, .source = source};
    input->window = heap_zalloc(INPUT_WINDOW + INPUT_PADDING);
    if (!input->window) {
        input_close(input);
        return ACRE_ERR_HOST_MEMORY;
    }
    return ACRE_OK;
}

void input_close(struct input *input)
{
    source_close(input->source);
    heap_free(input->window);
    heap_free(input->scratch);
    memset(input, 0, sizeof *input);
}

/* Says where in the data the source found its damage. */
static acre_status read_more(struct input *input, void *to, size_t room, size_t *out)
{
    acre_status status = source_read(input->source, to, room, out);

    if (status == ACRE_ERR_FORMAT) {
        struct status_saved why;
        status_save(&why);
        return status_fail_native(status, why.native,
                                  "%.800s (at offset %llu of the decompressed "
                                  "data); copy or save the file again",
                                  why.text, (unsigned long long)(input->base + input->count));
    }
    return status;
}

acre_status input_fill(struct input *input, size_t count, bool *out)
{
    if (input->at && !input_has(input, count)) {
        memmove(input->window, input->window + input->at, input->count - input->at);
        input->base += input->at;
        input->count -= input->at;
        input->at = 0;
    }
    while (!input_has(input, count) && !input->is_end) {
        size_t got;
        acre_status status =
            read_more(input, input->window + input->count, INPUT_WINDOW - input->count, &got);
        if (status != ACRE_OK)
            return status;
        input->count += got;
        input->is_end = got == 0;
    }
    *out = input_has(input, count);
    return ACRE_OK;
}

static acre_status fail_short(struct input *input, uint64_t length, uint64_t left)
{
    return status_fail(ACRE_ERR_FORMAT,
                       "%s: at offset %llu: a text of %llu bytes is announced, "
                       "but only %llu are left; the file is truncated: copy or save it again",
                       input->path, (unsigned long long)input_offset(input),
                       (unsigned long long)length, (unsigned long long)left);
}

/* Collects a text that is larger than the window, piece by piece. */
static acre_status take_long(struct input *input, uint64_t length, const char **out)
{
    uint64_t done = 0;

    while (done < length) {
        bool has_more;
        acre_status status = input_fill(input, 1, &has_more);
        if (status != ACRE_OK)
            return status;
        if (!has_more)
            return fail_short(input, length, done);
        size_t piece = input->count - input->at;
        if (piece > length - done)
            piece = (size_t)(length - done);
        if (done + piece > input->scratch_capacity) {
            size_t capacity = (done + piece) * 2;
            char *bigger = heap_realloc(input->scratch, capacity);
            if (!bigger)
                return ACRE_ERR_HOST_MEMORY;
            input->scratch = bigger;
            input->scratch_capacity = capacity;
        }
        memcpy(input->scratch + done, input->window + input->at, piece);
        input->at += piece;
        done += piece;
    }
    *out = input->scratch;
    return ACRE_OK;
}

acre_status input_take(struct input *input, uint64_t length, const char **out)
{
    uint64_t done, total;
    bool is_there;

    source_progress(input->source, &done, &total);
    if (!source_is_gzip(input->source) && total && length > total - input_offset(input))
        return fail_short(input, length, total - input_offset(input));
    if (length > INPUT_WINDOW)
        return take_long(input, length, out);
    acre_status status = input_fill(input, (size_t)length, &is_there);
    if (status != ACRE_OK)
        return status;
    if (!is_there)
        return fail_short(input, length, input->count - input->at);
    *out = (const char *)input->window + input->at;
    input->at += (size_t)length;
    return ACRE_OK;
}

acre_status input_drain(struct input *input)
{
    acre_status status = ACRE_OK;

    while (status == ACRE_OK && !input->is_end) {
        size_t got = 0;
        input->base += input->count;
        input->at = input->count = 0;
        status = read_more(input, input->window, INPUT_WINDOW, &got);
        input->count = got;
        input->is_end = got == 0;
    }
    return status;
}
