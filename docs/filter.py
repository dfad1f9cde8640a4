#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Doxygen's view of a header: docs/filter.py FILE.

Lists that are written once (`#define NAME_MAP(X) X(...) ...`) are expanded
where they are used, each item with its text as its comment:

    #define ENTRY(name, number, text) ACRE_##name = (number),
        NAME_MAP(ENTRY)
    #undef ENTRY

Line numbers stay as they are.
"""
import re
import sys

MAP = re.compile(r"^#define (\w+)\(X\)((?:.*\\\n)*.*)\n", re.M)
USE = re.compile(r"^#define (\w+)\(([^)]*)\)((?:.*\\\n)*.*)\n\s*(\w+)\(\1\)\n#undef \1\n", re.M)
ITEM = re.compile(r'X\(((?:[^()"]|"(?:[^"\\]|\\.)*")*)\)')
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
# Strings are whole, also with commas in them; several beside each other are one.
ARGUMENT = re.compile(r'(?:[^",]|"(?:[^"\\]|\\.)*")+')


def expand(use, maps):
    """The text of one use, on one line, followed by as many newlines as it had."""
    _, parameters, body, name = use.groups()
    if name not in maps:
        return use.group(0)
    names = [p.strip() for p in parameters.split(",")]
    out = []
    for item in ITEM.findall(maps[name].replace("\\\n", " ")):
        values = [v.strip() for v in ARGUMENT.findall(item) if v.strip()]
        text = "".join(STRING.findall(values[-1])) or values[-1]
        code = body.replace("\\\n", " ").strip()
        for parameter, value in zip(names, values):
            code = re.sub(rf"\s*##\s*{parameter}\b|\b{parameter}\b", lambda _: value, code)
        code = re.sub(r"\s*##\s*", "", code)
        if values[-1][0] != '"':
            text = f"The call {text}."
        out.append(f"{code} /**< {text} */")
    return " ".join(out) + "\n" * use.group(0).count("\n")


def main():
    text = open(sys.argv[1], encoding="utf-8").read()
    maps = {name: body for name, body in MAP.findall(text)}
    sys.stdout.write(USE.sub(lambda use: expand(use, maps), text))


if __name__ == "__main__":
    main()
