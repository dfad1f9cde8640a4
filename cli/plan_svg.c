/* SPDX-License-Identifier: MIT */
#include "cli/plan_svg.h"

#include <acre/output.h>

#include <stdio.h>

#define WIDTH  1600.0
#define HEIGHT 900.0
#define SEEN   0.05 /* smaller boxes are left out, in units of the picture */

struct scale {
    uint64_t start;
    double per_time, per_byte;
};

static struct scale make_scale(const acre_plan_buffer *buffers, size_t count, uint64_t height)
{
    uint64_t start = UINT64_MAX, end = 0;

    for (size_t i = 0; i < count; i++) {
        start = buffers[i].start < start ? buffers[i].start : start;
        end = buffers[i].end > end ? buffers[i].end : end;
    }
    return (struct scale){start, end > start ? WIDTH / (double)(end - start) : 1,
                          height ? HEIGHT / (double)height : 1};
}

/* A buffer, or a part of it between gaps. */
struct rectangle {
    size_t index; /* of the buffer */
    uint64_t start, end, offset, size;
};

static void plan_svg_draw(FILE *file, const struct scale *scale, const struct rectangle *it)
{
    uint64_t start = it->start, end = it->end, offset = it->offset, size = it->size;
    double width = (double)(end - start) * scale->per_time;
    double height = (double)size * scale->per_byte;

    if (start >= end || width * height < SEEN * SEEN)
        return;
    fprintf(file,
            "<rect x=\"%.3f\" y=\"%.3f\" width=\"%.3f\" height=\"%.3f\" "
            "fill=\"hsl(%u,60%%,65%%)\"><title>row %zu: time %llu to %llu, offset %llu, "
            "%llu bytes</title></rect>\n",
            (double)(start - scale->start) * scale->per_time,
            HEIGHT - (double)offset * scale->per_byte - height, width, height,
            (unsigned)(it->index * 137 % 360), it->index + 1, (unsigned long long)start,
            (unsigned long long)end, (unsigned long long)offset, (unsigned long long)size);
}

bool plan_svg(const char *path, const acre_plan_buffer *buffers, size_t count,
              const uint64_t *offsets, uint64_t height)
{
    struct scale scale = make_scale(buffers, count, height);
    acre_output *output;

    if (acre_output_open(path, &output) != ACRE_OK)
        return false;
    FILE *file = acre_output_stream(output);
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
            "stroke=\"#333\" stroke-width=\"0.2\">\n"
            "<rect width=\"100%%\" height=\"100%%\" fill=\"#fafafa\" stroke=\"none\"/>\n",
            WIDTH, HEIGHT);
    for (size_t i = 0; i < count; i++) {
        uint64_t start = buffers[i].start;
        for (uint32_t g = 0; g < buffers[i].gap_count; g++) {
            plan_svg_draw(file, &scale,
                          &(struct rectangle){i, start, buffers[i].gaps[g].start, offsets[i],
                                              buffers[i].size});
            start = buffers[i].gaps[g].end;
        }
        plan_svg_draw(file, &scale,
                      &(struct rectangle){i, start, buffers[i].end, offsets[i], buffers[i].size});
    }
    fputs("</svg>\n", file);
    return acre_output_finish(output) == ACRE_OK;
}
