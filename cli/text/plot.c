/* SPDX-License-Identifier: MIT */
#include "cli/text/plot.h"

#include <acre/output.h>

#include <math.h>
#include <stdio.h>

/* Of the picture, in its own units. */
enum { LEFT = 170, RIGHT = 60, TOP = 46, BAR = 12, GAP = 14, WIDTH = 860 };

static const char *const colours[] = {"#2a78d6", "#8a63d2", "#eda100", "#1baf7a", "#e34948"};

#define COLOUR_COUNT (int)(sizeof colours / sizeof *colours)

/* Powers of ten around the positive values. */
static void plot_bounds(const double *values, int count, double *low, double *high)
{
    *low = 1e300;
    *high = 0;
    for (int i = 0; i < count; i++) {
        if (values[i] <= 0)
            continue;
        *low = values[i] < *low ? values[i] : *low;
        *high = values[i] > *high ? values[i] : *high;
    }
    if (*high == 0)
        *low = *high = 1;
    *low = floor(log10(*low));
    *high = ceil(log10(*high));
    if (*high <= *low)
        *high = *low + 1;
}

static void draw_axis(FILE *file, const char *axis, double low, double high, int height)
{
    double step = (WIDTH - LEFT - RIGHT) / (high - low);

    fprintf(file, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", WIDTH - RIGHT,
            height - 6, axis);
    for (double power = low; power <= high; power++) {
        double x = LEFT + (power - low) * step;
        fprintf(file,
                "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#888\" "
                "stroke-opacity=\"0.4\"/>\n<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g"
                "</text>\n",
                x, TOP - 6, x, height - 34, x, height - 20, pow(10, power));
    }
}

static void draw_names(FILE *file, const char *const *bars, int bar_count)
{
    for (int bar = 0; bar < bar_count; bar++)
        fprintf(file,
                "<rect x=\"%d\" y=\"14\" width=\"12\" height=\"12\" fill=\"%s\"/>\n"
                "<text x=\"%d\" y=\"24\">%s</text>\n",
                LEFT + bar * 110, colours[bar % COLOUR_COUNT], LEFT + 17 + bar * 110, bars[bar]);
}

static void draw_group(FILE *file, const struct plot *plot, int group, double low, double high)
{
    int bar_count = plot->bar_count, y = TOP + group * (bar_count * BAR + GAP);
    const double *values = plot->values + group * bar_count;
    double step = (WIDTH - LEFT - RIGHT) / (high - low);

    fprintf(file, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", LEFT - 8,
            y + bar_count * BAR / 2 + 4, plot->groups[group]);
    for (int bar = 0; bar < bar_count; bar++, y += BAR) {
        if (values[bar] <= 0)
            continue;
        double width = (log10(values[bar]) - low) * step;
        fprintf(file,
                "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n"
                "<text x=\"%.1f\" y=\"%d\">%.3g</text>\n",
                LEFT, y, width > 1 ? width : 1, BAR - 2, colours[bar % COLOUR_COUNT],
                LEFT + width + 4, y + BAR - 2, values[bar]);
    }
}

bool plot_bars(const char *path, const struct plot *plot)
{
    int height = TOP + plot->group_count * (plot->bar_count * BAR + GAP) + 40;
    acre_output *output;
    double low, high;

    if (acre_output_open(path, &output) != ACRE_OK)
        return false;
    FILE *file = acre_output_stream(output);
    plot_bounds(plot->values, plot->group_count * plot->bar_count, &low, &high);
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
            "font-family=\"sans-serif\" font-size=\"11\">\n<style>text { fill: #222 } "
            "@media (prefers-color-scheme: dark) { text { fill: #ddd } }</style>\n",
            WIDTH, height);
    draw_names(file, plot->bars, plot->bar_count);
    draw_axis(file, plot->axis, low, high, height);
    for (int group = 0; group < plot->group_count; group++)
        draw_group(file, plot, group, low, high);
    fputs("</svg>\n", file);
    return acre_output_finish(output) == ACRE_OK;
}
