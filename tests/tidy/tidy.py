#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reads the repository and fails on what breaks its house rules.

    tidy.py [FOLDER]      checks a tree (ACRE_SOURCE, or the one this file is in)
    tidy.py --self-test   breaks every rule in a small tree; each must be noticed

Rules: spdx, width, space, length, function, word, path, layer, part, mirror, room,
prefix, parameters, name, struct.
docs/ARCHITECTURE.md holds the table of layers, exceptions.txt the exceptions.
"""
import fnmatch
import os
import pathlib
import re
import subprocess
import sys
import tempfile

FILE_LINES = 600
FUNCTION_LINES = 70
ROOM_FILES = 30
PARAMETERS = 6
WIDTH = 100
CODE = {".c", ".h", ".cpp", ".hpp", ".py", ".sh", ".js", ".cmake"}
C_LIKE = {".c", ".h", ".cpp", ".hpp"}
TEXT = CODE | {".md", ".txt", ".json", ".in", ".1", ".map", ""}
# Spelled apart, so that this file does not contain what it looks for.
WORDS = re.compile(r"\b(to" + r"do|fix" + r"me|x" + r"xx|ha" + r"ck|not (yet )?imple" +
                   r"mented|place" + r"holder|stub" + r"bed)\b", re.I)
PATHS = re.compile(r"(^|[^A-Za-z0-9_.])/(wo" + r"rk|fa" + r"rm|ro" + r"ot|home|tm" + r"p/w)/")
FOREIGN = {"zlib.h": {"format"}, "mpi.h": {"bind"}, "liburing.h": {"exchange"}}
COMMENT = re.compile(r"/\*.*?\*/", re.S)
FUNCTION = re.compile(r"^(?P<head>[A-Za-z_][\w \*]*?[ \*])(?P<name>\w+)"
                      r"\((?P<arguments>[^;{}]*?)\)\s*\{", re.M)
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]')


def unit_test(folder, room, stem):
    """Where the unit test of a source is: src/cache/acre/bins.c has
    tests/unit/cache/acre/test_cache_bins.c; src/sim/sim_copy.c has test_sim_copy.c."""
    name = stem if stem.startswith(folder + "_") else f"{folder}_{stem}"
    return f"tests/unit/{folder}{room}/test_{name}.c"


class Tidy:
    """One run over one tree; complain() collects what was found."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.found = []
        self.files = self.list_files()
        self.lines = {}
        for name in self.files:
            self.lines[name] = (self.root / name).read_text("utf-8", "replace").split("\n")

    def list_files(self):
        """Files that git knows or would add, or all outside build folders."""
        command = ["git", "-C", str(self.root), "ls-files", "-co", "--exclude-standard"]
        names = []
        if (self.root / ".git").exists():
            names = subprocess.run(command, capture_output=True, text=True).stdout.split("\n")
        if not any(names):
            names = [str(p.relative_to(self.root)) for p in self.root.rglob("*")
                     if not str(p.relative_to(self.root)).startswith(("build", ".git/"))]
        return sorted(n for n in names if n and (self.root / n).is_file()
                      and pathlib.Path(n).suffix in TEXT)

    def complain(self, rule, name, line, text):
        self.found.append((rule, name, line, text))

    def is_code(self, name):
        path = pathlib.Path(name)
        return path.suffix in CODE or path.name in ("Makefile", "CMakeLists.txt", "run")

    # ---- one file at a time ------------------------------------------------

    def check_lines(self, name):
        lines, code = self.lines[name], self.is_code(name)
        if code and not any("SPDX-License-Identifier: MIT" in line for line in lines[:3]):
            self.complain("spdx", name, 1, "no SPDX line at the top")
        if code and len(lines) - 1 > FILE_LINES:
            self.complain("length", name, len(lines) - 1, f"more than {FILE_LINES} lines")
        if lines[-1]:
            self.complain("space", name, len(lines), "no newline at the end of the file")
        for number, line in enumerate(lines, 1):
            if line != line.rstrip():
                self.complain("space", name, number, "space at the end of the line")
            if "\t" in line and pathlib.Path(name).suffix in C_LIKE:
                self.complain("space", name, number, "a tab")
            if code and len(line) > WIDTH:
                self.complain("width", name, number, f"{len(line)} columns of at most {WIDTH}")
            if code and WORDS.search(line):
                self.complain("word", name, number, "a word of unfinished work")
            if PATHS.search(line):
                self.complain("path", name, number, "a path of somebody's machine")

    def check_functions(self, name):
        """The house style opens a function with a brace in the first column."""
        lines, start = self.lines[name], None
        for number, line in enumerate(lines):
            if line == "{" and number and lines[number - 1].rstrip().endswith(")"):
                start = number - 1
                while start > 0 and lines[start].startswith(" "):
                    start -= 1
            elif line.startswith("}") and start is not None:
                if number - start + 1 > FUNCTION_LINES:
                    self.complain("function", name, start + 1,
                                  f"{number - start + 1} lines of at most {FUNCTION_LINES}")
                start = None

    # ---- names ---------------------------------------------------------------

    def code(self, name):
        """The text of a C file without comments and attributes; lines stay where they are."""
        text = "\n".join(self.lines[name])
        text = COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
        return re.sub(r"__attribute__\(\([^)]*\)\)", lambda m: " " * len(m.group()), text)

    def check_names(self):
        """Functions and structs of the library and the command."""
        public, structs = set(), {}
        sources = [n for n in self.files if n.startswith(("src/", "cli/", "include/"))
                   and pathlib.Path(n).suffix in (".c", ".h")]
        for name in sources:
            for declared in re.findall(r"\bACRE_API\b[^;{]*?\b(acre_\w+)\s*\(", self.code(name)):
                public.add(declared)
        for name in sources:
            if name.startswith("include/"):
                continue
            text = self.code(name)
            for match in FUNCTION.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                self.check_function(name, line, match, public)
            for match in re.finditer(r"^struct (\w+) \{", text, re.M):
                line = text.count("\n", 0, match.start()) + 1
                structs.setdefault(match[1], []).append((name, line))
        for tag, places in structs.items():
            for name, line in places[1:]:
                self.complain("struct", name, line, f"struct {tag} is in {places[0][0]} too")

    def check_function(self, name, line, match, public):
        head, word, arguments = match["head"], match["name"], match["arguments"]
        if re.match(r"(else|return|typedef)\b", head) or word.isupper():
            return
        flat = re.sub(r"\([^()]*\)", "", arguments)
        count = flat.count(",") + 1
        if word.startswith("acre_") and word not in public:
            self.complain("prefix", name, line, f"{word} is not public, but its name says so")
        if count > PARAMETERS and word not in public:
            self.complain("parameters", name, line, f"{count} parameters of at most {PARAMETERS}")
        if re.search(r"\bstatic\b", head) and "_" not in word:
            self.complain("name", name, line, f"{word} says too little: noun_verb")

    # ---- layers ------------------------------------------------------------

    def read_layers(self):
        """The table of docs/ARCHITECTURE.md: who may include what; and the wholes."""
        layers, wholes = {}, set()
        text = "\n".join(self.lines.get("docs/ARCHITECTURE.md", []))
        for row in re.findall(r"^\| `([^`]+)` \| (.*) \|$", text, re.M):
            layers[row[0]] = set(re.findall(r"`([^`]+)`", row[1]))
        match = re.search(r"The wholes, which may:([^.]*)\.", text)
        if match:
            wholes = set(re.findall(r"`([^`]+)`", match.group(1)))
        if "base" not in layers or "cache" not in wholes:
            self.complain("layer", "docs/ARCHITECTURE.md", 1, "no table of layers found")
        return layers, wholes

    def check_layers(self, name, layers, wholes):
        parts = name.split("/")
        folder = parts[1] if parts[0] == "src" else parts[0]
        if folder == "include" or pathlib.Path(name).suffix not in C_LIKE or len(parts) < 2:
            return
        inner = "/".join(parts[1:]) if parts[0] == "src" else name
        room = inner
        while room and room not in layers:
            room = room.rpartition("/")[0]
        allowed = layers.get(room)
        if allowed is None:
            self.complain("layer", name, 1, f"{folder} is not in the table of layers")
            return
        for number, line in enumerate(self.lines[name], 1):
            match = INCLUDE.match(line)
            if match:
                self.check_include(name, number, folder, match.group(1), allowed)
                if folder == "cache" and match.group(1) == "cache/cache.h" \
                        and pathlib.Path(name).stem not in wholes:
                    self.complain("part", name, number, "a part of the cache sees the whole")

    def check_include(self, name, number, folder, header, allowed):
        first = header.split("/")[0]
        if "*" in allowed or first == folder:
            return
        if "/" not in header and header != "openreg.h":
            if folder in ("cli", "examples") or folder in FOREIGN.get(header, {folder}):
                return
            self.complain("layer", name, number, f"{folder} must not need <{header}>")
            return
        known = first in ("acre", "tests", "cli", "bench", "openreg.h") or \
            (self.root / "src" / first).is_dir()
        if known and not allowed & {first, first + "/*", header}:
            self.complain("layer", name, number, f"{folder} must not include {header}")

    # ---- tests mirror sources ------------------------------------------------

    def check_mirror(self):
        """Every source has its unit test, or a test that includes its header."""
        included = set()
        for name in self.files:
            if name.startswith("tests/") and pathlib.Path(name).suffix in C_LIKE:
                matches = (INCLUDE.match(line) for line in self.lines[name])
                included |= {m.group(1) for m in matches if m}
        for name in self.files:
            match = re.fullmatch(r"src/(\w+)((?:/\w+)*)/(\w+)\.c", name)
            if match and unit_test(*match.groups()) not in self.lines \
                    and f"{match[1]}{match[2]}/{match[3]}.h" not in included:
                self.complain("mirror", name, 1, "no test has its name or includes its header")
            match = re.fullmatch(r"tests/unit/(\w+)((?:/\w+)*)/test_\w+\.c", name)
            if match and not any(unit_test(match[1], match[2], stem) == name
                                 for stem in self.stems(f"src/{match[1]}{match[2]}")):
                self.complain("mirror", name, 1, f"src/{match[1]}{match[2]} has no such source")

    def stems(self, folder):
        """The names of the sources in one folder, without their endings."""
        return {pathlib.Path(n).stem for n in self.lines
                if str(pathlib.Path(n).parent) == folder
                and pathlib.Path(n).suffix in (".c", ".h", ".cpp")}

    def check_rooms(self):
        """A folder of sources is a room: few enough files to be read as a list."""
        rooms = {}
        for name in self.files:
            if name.startswith(("src/", "cli/", "include/", "tests/unit/", "pytorch/", "python/")):
                rooms.setdefault(str(pathlib.Path(name).parent), []).append(name)
        for room, names in rooms.items():
            if len(names) > ROOM_FILES:
                self.complain("room", room, 1, f"{len(names)} files of at most {ROOM_FILES}")

    # ---- all of it -----------------------------------------------------------

    def exceptions(self):
        """Takes away what exceptions.txt allows; lines without use are complaints."""
        name = "tests/tidy/exceptions.txt"
        for number, line in enumerate(self.lines.get(name, []), 1):
            if not line.strip() or line.startswith("#"):
                continue
            rule, path, *reason = line.split(None, 2)
            kept = [f for f in self.found
                    if f[0] != rule or not fnmatch.fnmatchcase(f[1], path)]
            if len(kept) == len(self.found):
                self.complain("exception", name, number, f"{rule} {path} needs no exception")
            elif not reason:
                self.complain("exception", name, number, "an exception without a reason")
            else:
                self.found = kept

    def run(self):
        layers, wholes = self.read_layers()
        for name in self.files:
            self.check_lines(name)
            if pathlib.Path(name).suffix in (".c", ".cpp"):
                self.check_functions(name)
            self.check_layers(name, layers, wholes)
        self.check_names()
        self.check_mirror()
        self.check_rooms()
        self.exceptions()
        return self.found


def self_test():
    """A tree that breaks every rule once; returns the exit status."""
    spdx = "/* SPDX-License-Identifier: MIT */\n"
    long_function = "int f_run(void)\n{\n" + "    ;\n" * FUNCTION_LINES + "}\n"
    tree = {
        "docs/ARCHITECTURE.md": "| `base` | `acre/base.h` |\n| `cache` | `base` |\n"
                                "| `tests` | `*` |\nThe wholes, which may: `cache`.\n",
        "src/base/a.c": "int a;\n",
        "src/base/b.c": spdx + "#include \"cache/cache.h\"\n#include <acre/device.h>\n",
        "src/base/c.c": spdx + "x" * (WIDTH + 1) + "\n",
        "src/base/d.c": spdx + "int d; \n\tint e;\nint f;",
        "src/base/e.c": spdx + "\n" * FILE_LINES,
        "src/base/f.c": spdx + long_function,
        "src/base/g.c": spdx + "/* to" "do */\n/* see /ro" "ot/x */\n",
        "src/base/h.c": spdx + "static int fill(void)\n{\n}\n",
        "src/base/i.c": spdx + "int acre_hidden(int a, int b)\n{\n}\n",
        "src/base/j.c": spdx + "int j_run(int a, int b, int c, int d, int e, int f,\n"
                        "          int g)\n{\n}\nstruct twin {\n};\n",
        "src/base/k.c": spdx + "ACRE_API int acre_known(int a, int b, int c, int d, int e, int f,\n"
                        "                        int g)\n{\n}\nstruct twin {\n};\n",
        "src/cache/acre/bins.c": spdx + "#include \"cache/cache.h\"\n#include <zlib.h>\n",
        "src/cache/cache.h": spdx,
        "src/lost/a.c": spdx,
        "tests/unit/base/test_base_gone.c": spdx,
        **{f"include/many/h{i}.h": spdx for i in range(ROOM_FILES + 1)},
        "tests/tidy/exceptions.txt": "width src/base/c.c tables read better in one piece\n"
                                     "width src/base/a.c it was once too wide\n",
    }
    expected = {
        ("spdx", "src/base/a.c"), ("layer", "src/base/b.c"), ("space", "src/base/d.c"),
        ("length", "src/base/e.c"), ("function", "src/base/f.c"), ("word", "src/base/g.c"),
        ("path", "src/base/g.c"), ("part", "src/cache/acre/bins.c"),
        ("layer", "src/cache/acre/bins.c"),
        ("name", "src/base/h.c"), ("prefix", "src/base/i.c"), ("parameters", "src/base/j.c"),
        ("struct", "src/base/k.c"),
        ("layer", "src/lost/a.c"), ("mirror", "tests/unit/base/test_base_gone.c"),
        ("exception", "tests/tidy/exceptions.txt"), ("room", "include/many"),
    } | {("mirror", f"src/{n}.c") for n in
         ("base/a base/b base/c base/d base/e base/f base/g base/h base/i base/j base/k "
          "cache/acre/bins lost/a").split()}
    with tempfile.TemporaryDirectory() as folder:
        for name, text in tree.items():
            path = pathlib.Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        found = Tidy(folder).run()
    kinds = {(rule, name) for rule, name, _, _ in found}
    for what, which in (("not noticed", expected - kinds), ("wrongly noticed", kinds - expected)):
        for item in sorted(which):
            print(f"{what}: {item[0]} in {item[1]}")
    if sum(f[0] == "space" for f in found) != 3 or sum(f[1] == "src/base/b.c" for f in found) != 3:
        print("not every line of src/base/b.c and src/base/d.c was noticed")
        return 1
    return 0 if kinds == expected else 1


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    here = pathlib.Path(__file__).resolve().parents[2]
    tidy = Tidy(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("ACRE_SOURCE", here))
    for rule, name, line, text in tidy.run():
        print(f"{name}:{line}: {rule}: {text}")
    print(f"{len(tidy.files)} files read, {len(tidy.found)} complaints")
    return 1 if tidy.found else 0


if __name__ == "__main__":
    sys.exit(main())
