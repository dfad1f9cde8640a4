#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Times the caching allocator beside host allocators; table, JSON and plot.

    bench/cache.py [--build FOLDER] [--rounds N] [--json FILE] [--svg FILE] [--doc FILE]

Every figure is the best of N rounds, since other work on the machine only adds.
With --doc, the part of a Markdown file between two markers is replaced.
"""
import argparse
import datetime
import json
import os
import re
import subprocess

SIZES = [(512, "512 B"), (4096, "4 KiB"), (1 << 20, "1 MiB"), (20 << 20, "20 MiB")]
PEERS = ["glibc", "mimalloc", "jemalloc"]
COLORS = {"acre": "#1b6ca8", "torch": "#8aa9c4", "glibc": "#c9a227", "mimalloc": "#b5651d",
          "jemalloc": "#7a3b2e"}
BEGIN, END = "<!-- bench/cache.py begins -->", "<!-- bench/cache.py ends -->"


def run(*command):
    """One JSON object of a benchmark program."""
    return json.loads(subprocess.run(command, check=True, capture_output=True,
                                     text=True).stdout)


def best(rounds, key, *command):
    """The smallest value of every key that ends like key, over the rounds."""
    result = {}
    for _ in range(rounds):
        for name, value in run(*command, "--json").items():
            if name.endswith(key):
                result[name] = min(value, result.get(name, value))
    return result


def measure(build, rounds):
    """All figures, in nanoseconds: rows of (what, {allocator: ns})."""
    rows = []
    pair, mix = f"{build}/bench/hot_pair", f"{build}/bench/mix"
    for size, label in SIZES:
        count = "300000" if size <= 4096 else "30000"
        got = best(rounds, "ns_per_pair", pair, "--size", str(size), "--count", count)
        torch = best(rounds, "ns_per_pair", pair, "--size", str(size), "--count", count,
                     "--policy", "torch", "--alone")
        rows.append((f"pair, {label}", split(got, torch, "ns_per_pair")))
    rounds = min(rounds, 3)
    got = best(rounds, "ns_per_op", mix, "--ops", "300000")
    torch = best(rounds, "ns_per_op", mix, "--ops", "300000", "--policy", "torch", "--alone")
    rows.append(("mix, 1,000 live", split(got, torch, "ns_per_op")))
    return rows


def split(got, torch, key):
    row = {"acre": got[key], "torch": torch[key]}
    for peer in PEERS:
        if f"{peer}_{key}" in got:
            row[peer] = got[f"{peer}_{key}"]
    return row


def scaling(build, rounds):
    """Pairs per second of one and two threads, the best of both, and the ratio."""
    rate = {}
    for threads in (1, 2):
        rate[threads] = max(
            run(f"{build}/bench/hot_pair", "--threads", str(threads), "--count", "300000",
                "--alone", "--json")["pairs_per_second"] for _ in range(4 * rounds))
    return {"one": rate[1], "two": rate[2], "ratio": rate[2] / rate[1]}


def machine():
    model = "unknown"
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        match = re.search(r"model name\s*:\s*(.*)", file.read())
        model = match.group(1) if match else model
    return f"{os.cpu_count()} cores {model}"


def table(rows, scale):
    names = ["acre", "torch"] + [p for p in PEERS if any(p in row for _, row in rows)]
    lines = ["| ns | " + " | ".join(names) + " |", "|---|" + "--:|" * len(names)]
    for what, row in rows:
        cells = [f"{row[n]:,.1f}" if n in row else "" for n in names]
        lines.append(f"| {what} | " + " | ".join(cells) + " |")
    lines.append("")
    lines.append(f"Pairs of 512 B: {scale['one'] / 1e6:.1f} million/s on one thread, "
                 f"{scale['two'] / 1e6:.1f} on two with a stream each: "
                 f"{scale['ratio']:.2f}x.")
    return "\n".join(lines)


def plot(rows):
    """Horizontal bars on a logarithmic scale, one group per row."""
    import math
    left, width, bar, gap = 120, 520, 13, 16
    high = max(max(row.values()) for _, row in rows)
    decades = math.ceil(math.log10(high))
    height = sum(len(row) * bar + gap for _, row in rows) + 50
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 110}" '
           f'height="{height}" font-family="sans-serif" font-size="11">',
           '<rect width="100%" height="100%" fill="white"/>']
    for power in range(decades + 1):
        x = left + width * power / decades
        out.append(f'<line x1="{x:.1f}" y1="20" x2="{x:.1f}" y2="{height - 25}" '
                   'stroke="#ddd"/>')
        out.append(f'<text x="{x:.1f}" y="{height - 10}" text-anchor="middle">'
                   f'{10 ** power:,} ns</text>')
    y = 24
    for what, row in rows:
        out.append(f'<text x="{left - 8}" y="{y + len(row) * bar / 2 + 4:.1f}" '
                   f'text-anchor="end">{what}</text>')
        for name, value in row.items():
            length = max(2.0, width * math.log10(max(value, 1)) / decades)
            out.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{bar - 2}" '
                       f'fill="{COLORS[name]}"/>')
            out.append(f'<text x="{left + length + 4:.1f}" y="{y + bar - 4}" '
                       f'fill="#444">{name} {value:,.1f}</text>')
            y += bar
        y += gap
    out.append("</svg>")
    return "\n".join(out) + "\n"


def write_doc(path, text):
    with open(path, encoding="utf-8") as file:
        doc = file.read()
    if BEGIN not in doc:
        doc = doc.rstrip("\n") + f"\n\n{BEGIN}\n{END}\n"
    head, rest = doc.split(BEGIN, 1)
    tail = rest.split(END, 1)[1]
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{head}{BEGIN}\n{text}\n{END}{tail}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--json")
    parser.add_argument("--svg")
    parser.add_argument("--doc")
    options = parser.parse_args()
    rows = measure(options.build, options.rounds)
    scale = scaling(options.build, options.rounds)
    text = table(rows, scale)
    print(text)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump({"machine": machine(), "rounds": options.rounds, "rows": dict(rows),
                       "threads": scale}, file, indent=1)
            file.write("\n")
    if options.svg:
        with open(options.svg, "w", encoding="utf-8") as file:
            file.write(plot(rows))
    if options.doc:
        today = datetime.date.today().strftime("%Y-%m")
        text = (f"`make bench`, {today}, {machine()}, the best of {options.rounds} rounds:"
                f"\n\n{text}")
        if options.svg:
            text += f"\n\n![nanoseconds]({os.path.basename(options.svg)})"
        write_doc(options.doc, text)


main()
