#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The structs of python/acre have the sizes and offsets that a C compiler gives them."""
import ctypes
import os
import pathlib
import subprocess
import sys
import tempfile

from acre import structs, tool_structs

PARTIAL = set()  # structs of which only the beginning is declared


def program(kinds):
    """A C program that prints a line for each size and offset."""
    lines = ["#include <acre/acre.h>", "#include <stdio.h>", "int main(void)", "{"]
    for kind in kinds:
        name = kind.__name__
        lines.append(f'    printf("{name} %zu\\n", sizeof({name}));')
        lines += [f'    printf("{name}.{field} %zu\\n", offsetof({name}, {field}));'
                  for field, _ in kind._fields_]
    return "\n".join(lines + ["    return 0;", "}", ""])


def declared(kinds):
    """The same lines as ctypes has them."""
    for kind in kinds:
        yield f"{kind.__name__} {ctypes.sizeof(kind)}"
        yield from (f"{kind.__name__}.{field} {getattr(kind, field).offset}"
                    for field, _ in kind._fields_)


def main():
    kinds = [value for value in {**vars(tool_structs), **vars(structs)}.values()
             if isinstance(value, type) and issubclass(value, ctypes.Structure)
             and value is not ctypes.Structure]
    include = pathlib.Path(os.environ["ACRE_SOURCE"]) / "include"
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "sizes.c"
        source.write_text(program(kinds))
        subprocess.run([os.environ.get("CC", "cc"), f"-I{include}", str(source), "-o",
                        f"{folder}/sizes"], check=True)
        said = subprocess.run([f"{folder}/sizes"], check=True, capture_output=True, text=True)
    wrong = [f"C has \"{ours}\", python/acre/structs.py \"{theirs}\""
             for ours, theirs in zip(said.stdout.splitlines(), declared(kinds))
             if ours != theirs and ours.split()[0] not in PARTIAL]
    print("\n".join(wrong) or f"{len(kinds)} structs agree")
    return 1 if wrong or len(kinds) < 46 else 0


if __name__ == "__main__":
    sys.exit(main())
