/* SPDX-License-Identifier: MIT */
#include "cli/advise_page.h"

#include "cli/text/print.h"

#include <acre/output.h>

#include <stdio.h>
#include <string.h>

#define WIDTH  960 /* of the plot, in units of the picture */
#define HEIGHT 420
#define LEFT   90
#define TOP    16

static const char head[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n<style>\n"
    ":root{--ink:#1c2430;--soft:#5b6675;--line:#d8dee6;--page:#fff;--mark:#c8102e}\n"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6eaf0;--soft:#9aa6b5;--line:#323b47;"
    "--page:#14181e;--mark:#ff6b7d}}\n"
    "body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--page);"
    "max-width:1100px;margin:24px auto;padding:0 20px}\n"
    "h1{font-size:20px;margin:0 0 4px}p{margin:4px 0 12px;white-space:pre-line}\n"
    "svg{width:100%;height:auto}text{fill:var(--soft);font-size:12px}\n"
    "path{fill:none;stroke-width:1.6}.grid{stroke:var(--line);stroke-width:1}\n"
    ".limit{stroke:var(--mark);stroke-dasharray:6 4}\n"
    "table{border-collapse:collapse;width:100%}td,th{padding:3px 10px 3px 0;text-align:left;"
    "border-bottom:1px solid var(--line);font-weight:normal}th{color:var(--soft)}\n"
    "td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}"
    "td:first-child{width:26px}i{display:inline-block;width:18px;height:3px;"
    "vertical-align:middle}\n"
    "tr:hover{background:color-mix(in srgb,var(--line) 40%,transparent)}"
    "tr.best td{font-weight:600}\n"
    "svg.one path.curve{opacity:.12}svg.one path.on{opacity:1;stroke-width:3}\n"
    "</style>\n";

static const char script[] =
    "<script>\nconst plot=document.querySelector('svg');\n"
    "document.querySelectorAll('tr[data-i]').forEach(row=>{\n"
    "  const curve=document.getElementById('c'+row.dataset.i);\n"
    "  row.onmouseenter=()=>{plot.classList.add('one');curve.classList.add('on')};\n"
    "  row.onmouseleave=()=>{plot.classList.remove('one');curve.classList.remove('on')};\n"
    "});\n</script>\n";

static void put_text(FILE *file, const char *text)
{
    for (; *text; text++)
        if (*text == '&')
            fputs("&amp;", file);
        else if (*text == '<')
            fputs("&lt;", file);
        else if (*text == '"')
            fputs("&quot;", file);
        else if ((unsigned char)*text >= 0x20 || *text == '\n')
            putc(*text, file);
}

/* Hues far apart for neighbours in the list. */
static int setting_hue(uint64_t index)
{
    return (int)(index * 137 % 360);
}

static uint64_t highest_point(const acre_advice *advice)
{
    uint64_t highest = 1;

    for (uint64_t s = 0; s < advice->setting_count; s++)
        for (uint32_t i = 0; i < advice->curve_points; i++)
            if (advice->curves[s][i] > highest)
                highest = advice->curves[s][i];
    return highest;
}

/* Whether there was time for a curve. */
static bool is_curve_there(const acre_advice *advice, uint64_t index)
{
    uint32_t i = 0;

    while (i < advice->curve_points && !advice->curves[index][i])
        i++;
    return i < advice->curve_points;
}

static double height_of(uint64_t bytes, uint64_t highest)
{
    return TOP + HEIGHT * (1 - (double)bytes / ((double)highest * 1.05));
}

/* Lines across, at round sizes. */
static void put_grid(FILE *file, uint64_t highest)
{
    uint64_t step = 1;

    while (step < highest / 4)
        step *= 2;
    for (uint64_t at = 0; at <= highest + highest / 20; at += step) {
        double y = height_of(at, highest);
        fprintf(file,
                "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" "
                "text-anchor=\"end\">%s</text>\n",
                LEFT, y, LEFT + WIDTH, LEFT - 8, y + 4, print_bytes(at));
    }
}

static void put_curve(FILE *file, const acre_advice *advice, uint64_t index, uint64_t highest)
{
    const uint64_t *points = advice->curves[index];
    bool is_drawn = is_curve_there(advice, index);
    uint64_t last = 0;

    fprintf(file, "<path class=\"curve\" id=\"c%llu\" stroke=\"hsl(%d 65%% 48%%)\" d=\"",
            (unsigned long long)index, setting_hue(index));
    for (uint32_t i = 0; is_drawn && i < advice->curve_points; i++) {
        double x = LEFT + (double)WIDTH * i / advice->curve_points;
        if (i == 0)
            fprintf(file, "M%.1f %.1f", x, height_of(points[0], highest));
        else if (points[i] != last)
            fprintf(file, "H%.1fV%.1f", x, height_of(points[i], highest));
        last = points[i];
    }
    if (is_drawn)
        fprintf(file, "H%d", LEFT + WIDTH);
    fputs("\"/>\n", file);
}

static void put_picture(FILE *file, const acre_advice *advice)
{
    uint64_t highest = highest_point(advice);

    if (advice->device_bytes > highest && advice->device_bytes < 2 * highest)
        highest = advice->device_bytes;
    fprintf(file, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"reserved over time\">\n",
            LEFT + WIDTH + 16, TOP + HEIGHT + 34);
    put_grid(file, highest);
    for (uint64_t i = advice->setting_count; i-- > 0;)
        put_curve(file, advice, i, highest);
    if (advice->device_bytes && advice->device_bytes <= highest) {
        double y = height_of(advice->device_bytes, highest);
        fprintf(file,
                "<path class=\"limit\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\">"
                "the device: %s</text>\n",
                LEFT, y, LEFT + WIDTH, LEFT + 6, y - 5, print_bytes(advice->device_bytes));
    }
    fprintf(file,
            "<text x=\"%d\" y=\"%d\">first event</text><text x=\"%d\" y=\"%d\" "
            "text-anchor=\"end\">event %llu</text>\n</svg>\n",
            LEFT, TOP + HEIGHT + 22, LEFT + WIDTH, TOP + HEIGHT + 22,
            (unsigned long long)advice->events);
}

static void put_row(FILE *file, const acre_advice *advice, uint64_t index)
{
    const acre_setting *setting = &advice->settings[index];
    const char *policy = setting->flags & ACRE_SETTING_PLAN     ? "placed ahead"
                         : setting->policy == ACRE_POLICY_TORCH ? "PyTorch"
                                                                : "acre";

    fprintf(file,
            "<tr data-i=\"%llu\"%s><td><i style=\"background:hsl(%d 65%% 48%%)\"></i></td><td>",
            (unsigned long long)index,
            (int64_t)index == advice->recommended ? " class=\"best\"" : "", setting_hue(index));
    fprintf(file, "%s</td><td>", policy);
    put_text(file, *setting->conf ? setting->conf : "-");
    bool is_tried = !(setting->flags & ACRE_SETTING_UNTRIED);
    fprintf(file, "</td><td class=\"n\">%s</td><td class=\"n\">%s</td><td>%s</td><td>",
            is_tried ? print_bytes(setting->bytes_reserved_peak) : "",
            setting->min_capacity_bytes ? print_bytes(setting->min_capacity_bytes)
            : is_tried                  ? "none"
                                        : "",
            setting->fits < 0 ? ""
            : setting->fits   ? "fits"
                              : "does not fit");
    fputs((int64_t)index == advice->recommended ? "recommended " : "", file);
    put_text(file, setting->note);
    fputs("</td></tr>\n", file);
}

static void put_page(FILE *file, const char *name, const acre_advice *advice)
{
    fputs(head, file);
    fputs("<title>", file);
    put_text(file, name);
    fputs(": settings compared</title></head><body>\n<h1>", file);
    put_text(file, name);
    fputs(": memory held from the device over time</h1>\n<p>", file);
    if (advice->device_count > 1)
        fprintf(file, "Device %u of %u, %s. ", advice->device, advice->device_count,
                advice->device_reason);
    fprintf(file,
            "Each line is the recorded job replayed under one setting on a device with ample "
            "memory. At most %s were live at once. Point at a row to see its line alone.</p>\n",
            print_bytes(advice->bytes_requested_peak));
    put_picture(file, advice);
    fputs("<table><thead><tr><th></th><th>policy</th><th>settings</th><th class=\"n\">reserved</th>"
          "<th class=\"n\">smallest device</th><th></th><th></th></tr></thead><tbody>\n",
          file);
    for (uint64_t i = 0; i < advice->setting_count; i++)
        put_row(file, advice, i);
    fputs("</tbody></table>\n<p>", file);
    put_text(file, advice->why);
    fputs("</p>\n", file);
    fputs(script, file);
    fputs("</body></html>\n", file);
}

bool advise_page(const char *path, const char *name, const acre_advice *advice)
{
    const char *slash = strrchr(name, '/');
    acre_output *output = NULL;
    acre_status status = acre_output_open(path, &output);

    if (status == ACRE_OK) {
        put_page(acre_output_stream(output), slash && slash[1] ? slash + 1 : name, advice);
        status = acre_output_finish(output);
    }
    if (status != ACRE_OK)
        fprintf(stderr, "acre advise: %s\n", acre_last_error());
    return status == ACRE_OK;
}
