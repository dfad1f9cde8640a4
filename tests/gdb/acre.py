#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""tools/gdb/acre.py shows what acre_cache_dump() shows: acre.py PROGRAM.

The program stops once for each policy; what gdb prints there is compared with what the
program dumped."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

MARK = "== "


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def run_gdb(program, dumps):
    """What gdb prints, by what it was asked."""
    script = pathlib.Path(os.environ["ACRE_SOURCE"]) / "tools/gdb/acre.py"
    commands = ["set confirm off", "set debuginfod enabled off", "set width 0",
                f"source {script}", "break stop_here", f"run {' '.join(map(str, dumps))}"]
    for name in ("torch", "acre"):
        for what in ("acre cache cache", "acre pools cache", "acre block cache, memory",
                     "acre block cache, 1",
                     "print *((struct segment *)cache->segments.next)",
                     "print *((struct segment *)cache->segments.next)->first"):
            commands += [f"echo \\n{MARK}{name} {what}\\n", what]
        commands.append("continue")
    arguments = ["gdb", "-nx", "-batch"]
    for command in commands:
        arguments += ["-ex", command]
    done = subprocess.run(arguments + [program], capture_output=True, text=True, timeout=120)
    parts = {}
    for part in done.stdout.split(f"\n{MARK}")[1:]:
        title, _, body = part.partition("\n")
        parts[title] = body
    return parts, done.stdout + done.stderr


def pick(text, starts):
    return [line for line in text.splitlines() if line.startswith(starts)]


def main():
    if not shutil.which("gdb"):
        skip("gdb is not installed")
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        dumps = [pathlib.Path(folder) / name for name in ("torch", "acre")]
        parts, everything = run_gdb(sys.argv[1], dumps)
        if not dumps[0].exists():
            skip("gdb cannot run programs here: " + everything.strip().splitlines()[-1])
        for dump in dumps:
            shown = parts[f"{dump.name} acre cache cache"]
            starts = ("segment 0x", "    0x")
            if dump.name == "torch":  # exact without what threads have at hand
                starts += ("statistic", "allocat", "reserved", "  small", "  large", "num_")
            if pick(dump.read_text(), starts) != pick(shown, starts):
                wrong.append(f"{dump.name}: the picture differs\n{dump.read_text()}\n{shown}")
            expected = {"acre pools cache": "shared, large            holds ",
                        "acre block cache, memory": " live, asked ",
                        "acre block cache, 1": "0x1 is in no segment",
                        "print *((struct segment *)cache->segments.next)": "= segment 0x",
                        "print *((struct segment *)cache->segments.next)->first": ", asked "}
            wrong += [f"{dump.name}: {what}: \"{text}\" is not in\n{parts[dump.name + ' ' + what]}"
                      for what, text in expected.items()
                      if text not in parts[f"{dump.name} {what}"]]
    print("\n".join(wrong) or "gdb shows what the library shows")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
