#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sums up what ctest wrote: tools/count.py [--forgive] FOLDER.

FOLDER holds one NAME.xml (JUnit) per preset, and a NAME.broken for a preset
that did not build or run. A test program of ours prints how many of its cases
passed, failed and were skipped; any other test counts as one case. A program
that failed without naming a failed case (a crash, a sanitizer's report) counts
as one failure, and so does a test that could not be started: its program is missing,
or what it needs failed. NAME.again.xml holds what failed and was run once more: what
passed there is named as unsteady. It is a failure all the same; --forgive counts
it as it passed there.
"""
import pathlib
import re
import sys
import xml.etree.ElementTree as tree

SKIPPED = ("SKIP_RETURN_CODE", "SKIP_REGULAR_EXPRESSION")  # what ctest says of one that chose so
CLOSING = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.M)


def count(case):
    """Returns (passed, failed, skipped, reasons for skipping) of a test case of JUnit."""
    output = case.findtext("system-out") or ""
    reasons = re.findall(r"^\s*skipped: (.*)$", output, re.M)
    closing = CLOSING.findall(output)
    passed, failed, skipped = map(int, closing[-1]) if closing else (0, 0, 0)
    skip = case.find("skipped")
    is_failed = case.find("failure") is not None or case.get("status") == "fail" or (
        skip is not None and not skip.get("message", "").startswith(SKIPPED))
    if is_failed:
        return passed, failed or 1, skipped, reasons
    if closing:
        return passed, failed, skipped, reasons
    if skip is not None:
        return 0, 0, 1, reasons or [output.strip().splitlines()[-1] if output.strip() else ""]
    return 1, 0, 0, reasons


def cases(path):
    return tree.parse(path).getroot().iter("testcase") if path.exists() else ()


def main(folder, is_forgiving):
    total = [0, 0, 0]
    failures, unsteady, skips = [], [], {}
    for path in sorted(folder.glob("*.xml")):
        if path.stem.endswith(".again"):
            continue
        again = {case.get("name"): count(case) for case in cases(path.with_suffix(".again.xml"))}
        for case in cases(path):
            *figures, reasons = count(case)
            second = again.get(case.get("name"))
            if figures[1] and second and not second[1]:
                unsteady.append(f"{path.stem}: {case.get('name')}")
                if is_forgiving:
                    *figures, reasons = second
            total = [a + b for a, b in zip(total, figures)]
            if figures[1]:
                failures.append(f"{path.stem}: {case.get('name')}")
            for reason in reasons:
                skips.setdefault(reason, set()).add(case.get("name"))
    for path in sorted(folder.glob("*.broken")):
        total[1] += 1
        failures.append(f"{path.stem}: did not build or run")
    for reason, names in sorted(skips.items()):
        print(f"skipped: {reason} ({', '.join(sorted(names))})")
    for name in unsteady:
        print(f"unsteady, failed once and then passed alone: {name}")
    for failure in failures:
        print(f"failed: {failure}")
    print("{} passed, {} failed, {} skipped".format(*total))
    return 1 if total[1] or not total[0] else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[-1]), "--forgive" in sys.argv))
