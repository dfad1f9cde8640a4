#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Documents: links lead somewhere, the C example of the README runs, hooks and verdicts exist.

documents.py ACRE
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["ACRE_SOURCE"])
BUILD = pathlib.Path(os.environ["ACRE_BUILD"])


def dead_links():
    """Links of all documents to files that are not there."""
    for document in [SOURCE / "README.md", *sorted((SOURCE / "docs").glob("*.md"))]:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text(encoding="utf-8")):
            if "://" not in target and not (document.parent / target).exists():
                yield f"{document.name}: {target}"


def run_example(folder):
    """Compiles and runs the C program of the README."""
    text = (SOURCE / "README.md").read_text(encoding="utf-8")
    program = pathlib.Path(folder) / "example.c"
    program.write_text(re.search(r"```c\n(.*?)```", text, re.S)[1])
    subprocess.run([os.environ.get("CC", "cc"), "-std=c11", "-Wall", "-Werror",
                    f"-I{SOURCE}/include", program, "-o", f"{folder}/example", f"-L{BUILD}",
                    "-lacre", f"-Wl,-rpath,{BUILD}"], check=True)
    subprocess.run([f"{folder}/example"], check=True,
                   env={**os.environ, "ACRE_BACKENDS": "sim,host"})


def main():
    wrong = list(dead_links())
    readme = (SOURCE / "README.md").read_text(encoding="utf-8")
    screen = readme.split("## ")[0]
    for need in ("acre why", "acre advise", "build/examples/backend", "make demo", "CMake 3.25",
                 "C11", "Linux"):
        if need not in screen:
            wrong.append(f"README.md: the first screen lacks {need}")
    guide = (SOURCE / "docs" / "GUIDE.md").read_text(encoding="utf-8")
    for verdict in ("fragmentation", "shortage", "streams", "pools", "limit", "unused",
                    "unknown"):
        if f"| {verdict} |" not in guide:
            wrong.append(f"GUIDE.md: no verdict {verdict}")
    hooks = set(re.findall(r"\bacre_torch_\w+", (SOURCE / "docs/PYTORCH.md").read_text()))
    known = subprocess.run(["nm", "-D", "--defined-only", BUILD / "libacre_torch.so"], check=True,
                           capture_output=True, text=True).stdout
    wrong += [f"PYTORCH.md: {hook} does not exist" for hook in hooks
              if not re.search(rf"\b{hook}\b", known)]
    wrong += [f"PYTORCH.md: {hook} is not told"
              for hook in set(re.findall(r"\bacre_torch_\w+", known)) - hooks]
    with tempfile.TemporaryDirectory() as folder:
        run_example(folder)
    print("\n".join(wrong) or "documents agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
