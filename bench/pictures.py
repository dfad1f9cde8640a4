#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws the pictures of docs/BENCHMARKS.md, as SVG.

    bench/pictures.py [--build FOLDER] [--out FOLDER] [--traces FOLDER] [--calls N] [NAME...]

waste   bars: what each policy holds from the device above what was asked for, by trace
tail    a distribution: the share of calls that take longer than a time, by allocator

Without names both are drawn. Traces are searched in ACRE_SHARED or ../shared; without any the
first picture is left out, and said so.
"""
import argparse
import glob
import json
import math
import os
import subprocess

COLORS = {"acre": "#1b6ca8", "planned ahead": "#4caf7a", "PyTorch": "#c9a227",
          "PyTorch, expandable": "#b5651d", "torch": "#c9a227", "malloc": "#7a3b2e",
          "glibc": "#7a3b2e"}
OTHER = "#777"


def run(*command):
    """What a program says as JSON."""
    return json.loads(subprocess.run(command, check=True, capture_output=True,
                                     text=True).stdout)


def begin(width, height):
    return [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            'font-family="sans-serif" font-size="11">',
            '<rect width="100%" height="100%" fill="white"/>']


def text(x, y, what, anchor="start", color="#444"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{color}">{what}</text>'


def line(x1, y1, x2, y2):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#ddd"/>'


def legend(names, x, y):
    out = []
    for name in names:
        out.append(f'<rect x="{x}" y="{y - 9}" width="10" height="10" '
                   f'fill="{COLORS.get(name, OTHER)}"/>')
        out.append(text(x + 14, y, name))
        x += 40 + 6 * len(name)
    return out


def waste_of(acre, trace):
    """Percent above what was asked for, by policy."""
    ways = {"acre": ["--policy", "acre"], "planned ahead": ["--policy", "plan"],
            "PyTorch": ["--policy", "torch"],
            "PyTorch, expandable": ["--policy", "torch", "--conf", "expandable_segments:True"]}
    return {name: run(acre, "replay", trace, "--json", *way)["runs"][0]["waste_ppm"] / 1e4
            for name, way in ways.items()}


def draw_waste(options):
    shared = options.traces or os.path.join(os.environ.get("ACRE_SHARED", "../shared"),
                                            "traces/public")
    traces = sorted(glob.glob(os.path.join(shared, "*.trace.gz")))
    if not traces:
        return None
    rows = {os.path.basename(trace).split(".")[0]: waste_of(f"{options.build}/acre", trace)
            for trace in traces}
    left, width, bar, gap = 150, 480, 12, 14
    most = max(max(row.values()) for row in rows.values())
    step = 5 if most < 50 else 25
    most = math.ceil(most / step) * step
    height = sum(len(row) * bar + gap for row in rows.values()) + 70
    out = begin(left + width + 90, height)
    out += legend(next(iter(rows.values())), left, 18)
    for mark in range(0, most + 1, step):
        x = left + width * mark / most
        out.append(line(x, 30, x, height - 25))
        out.append(text(x, height - 10, f"{mark} %", "middle"))
    y = 34
    for name, row in rows.items():
        out.append(text(left - 8, y + len(row) * bar / 2 + 4, name, "end"))
        for way, percent in row.items():
            length = max(1.0, width * percent / most)
            out.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{bar - 2}" '
                       f'fill="{COLORS[way]}"/>')
            out.append(text(left + length + 4, y + bar - 3, f"{percent:.2f} %"))
            y += bar
        y += gap
    return out


def shares(one):
    """Points (ns, share of calls that take longer), for a list of [ns, calls]."""
    left, points = one["calls"], []
    for ns, count in one["counts"]:
        points.append((max(ns, 1), left / one["calls"]))
        left -= count
    points.append((max(one["longest"], 1), 0.5 / one["calls"]))
    return points


def draw_tail(options):
    all_of = run(f"{options.build}/bench/tail", "--json", "--calls", str(options.calls))
    left, top, width, height = 90, 40, 560, 300
    lines = {one["name"]: shares(one) for one in all_of}
    decades = math.ceil(math.log10(max(points[-1][0] for points in lines.values())))
    parts = math.ceil(math.log10(max(one["calls"] for one in all_of)))
    out = begin(left + width + 30, top + height + 50)
    out += legend(lines, left, 18)
    for power in range(1, decades + 1):
        x = left + width * (power - 1) / (decades - 1)
        out.append(line(x, top, x, top + height))
        name = f"{10 ** power} ns" if power < 3 else f"{10 ** (power - 3)} us" if power < 6 \
            else f"{10 ** (power - 6)} ms"
        out.append(text(x, top + height + 16, name, "middle"))
    for power in range(parts + 1):
        y = top + height * power / parts
        out.append(line(left, y, left + width, y))
        out.append(text(left - 6, y + 4, "all" if power == 0 else f"1 in {10 ** power:,}", "end"))
    for name, points in lines.items():
        place = " ".join(
            f"{left + width * max(0, math.log10(ns) - 1) / (decades - 1):.1f},"
            f"{top + height * min(1, -math.log10(share) / parts):.1f}"
            for ns, share in points if share > 0)
        out.append(f'<polyline points="{place}" fill="none" stroke-width="2" '
                   f'stroke="{COLORS.get(name, OTHER)}"/>')
    out.append(text(left + width / 2, top + height + 36,
                    f"calls that take longer than so long; {options.calls:,} calls, two threads, "
                    "statistics 1,000 times a second", "middle"))
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--out", default="build/bench")
    parser.add_argument("--traces")
    parser.add_argument("--calls", type=int, default=10000000)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    pictures = {"waste": draw_waste, "tail": draw_tail}
    for name in options.names or pictures:
        drawing = pictures[name](options)
        if not drawing:
            print(f"{name}: no traces at hand")
            continue
        path = os.path.join(options.out, f"bench-{name}.svg")
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(drawing + ["</svg>"]) + "\n")
        print(f"written: {path}")


main()
