#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""SECURITY.md says what is promised, to whom, and which tests show it: every test exists.

The last cell of each row of its table holds tests as `program: name` for test programs in C, or
as `file` for scripts. A promise without a test is a complaint, and so is a test that is not there.
"""
import os
import pathlib
import re
import sys

ROOT = pathlib.Path(os.environ.get("ACRE_SOURCE") or pathlib.Path(__file__).resolve().parents[2])


def is_there(test):
    """Whether a test exists: `program: name`, or a file below tests/."""
    program, _, name = test.partition(": ")
    if not name:
        return (ROOT / "tests" / program).is_file()
    found = list((ROOT / "tests").rglob(program + ".c")) + \
        [ROOT / "tests" / program for _ in [0] if (ROOT / "tests" / program).is_file()]
    return any(re.search(r"\b(TEST\(|def )" + re.escape(name) + r"\b", path.read_text())
               for path in found)


def main():
    rows, complaints = 0, []
    for number, line in enumerate((ROOT / "SECURITY.md").read_text().splitlines(), 1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|") or len(cells) != 3 or cells[2] == "shown by" \
                or set(cells[0]) <= set("-: "):
            continue
        rows += 1
        tests = re.findall(r"`([^`]+)`", cells[2])
        if not tests:
            complaints.append(f"SECURITY.md:{number}: a promise without a test")
        complaints += [f"SECURITY.md:{number}: there is no test {test}" for test in tests
                       if not is_there(test)]
    if rows < 15:
        complaints.append(f"SECURITY.md: {rows} promises were found; the table has more")
    for complaint in complaints:
        print(complaint)
    print(f"{rows} promises, {len(complaints)} complaints")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
