#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The closing lines of `make test` tell the truth: gate.py CMAKE CTEST GENERATOR.

tools/count.py sums up what ctest wrote of a small project, in which one test passes, one fails, one
leaves itself out, one passes only when it is repeated, and some cannot be started.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

CMAKE, CTEST, GENERATOR = sys.argv[1:4]
ROOT = pathlib.Path(os.environ.get("ACRE_SOURCE") or pathlib.Path(__file__).resolve().parents[2])

BEGIN = "cmake_minimum_required(VERSION 3.20)\nproject(gate NONE)\nenable_testing()\n"
TESTS = {
    "good": 'add_test(NAME good COMMAND sh -c "echo 3 passed, 0 failed, 1 skipped")',
    "bad": 'add_test(NAME bad COMMAND sh -c "echo 3 passed, 2 failed, 0 skipped; exit 1")',
    "crash": 'add_test(NAME crash COMMAND sh -c "echo 3 passed, 0 failed, 0 skipped; kill -9 $$")',
    "skip": 'add_test(NAME skip COMMAND sh -c "echo skipped: no device; exit 77")\n'
            "set_tests_properties(skip PROPERTIES SKIP_RETURN_CODE 77)",
    "late": 'add_test(NAME late COMMAND sh -c "sleep 100")\n'
            "set_tests_properties(late PROPERTIES TIMEOUT 1)",
    "unsteady": 'add_test(NAME unsteady COMMAND sh -c "mkdir been && exit 1 || exit 0")',
    "missing": "add_test(NAME missing COMMAND ${CMAKE_CURRENT_BINARY_DIR}/no-such-program)",
    "file": "add_test(NAME file COMMAND true)\n"
            "set_tests_properties(file PROPERTIES REQUIRED_FILES no-such-file)",
    "needs": "add_test(NAME needs COMMAND true)\nadd_test(NAME setup COMMAND false)\n"
             "set_tests_properties(setup PROPERTIES FIXTURES_SETUP it)\n"
             "set_tests_properties(needs PROPERTIES FIXTURES_REQUIRED it)",
}


def gate(tests, *options):
    """Runs tests, what fails once more, and sums up: the exit status and the closing lines."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "results").mkdir()
        (folder / "CMakeLists.txt").write_text(BEGIN + "\n".join(TESTS[test] for test in tests))
        subprocess.run([CMAKE, "-G", GENERATOR, "-S", folder, "-B", folder / "build"], check=True,
                       stdout=subprocess.DEVNULL)
        for more, report in (((), "dev.xml"), (("--rerun-failed",), "dev.again.xml")):
            done = subprocess.run([CTEST, "--test-dir", folder / "build", *more, "--output-junit",
                                   folder / "results" / report], stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            if done.returncode == 0:
                break
        done = subprocess.run([sys.executable, ROOT / "tools/count.py", *options,
                               folder / "results"], stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stdout


def expect(tests, status, *parts, options=()):
    """The status, and what the closing lines hold."""
    found, text = gate(tests, *options)
    assert found == status, (tests, found, text)
    for part in parts:
        assert part in text, (tests, part, text)


expect(["good"], 0, "3 passed, 0 failed, 1 skipped")
expect(["good", "skip"], 0, "skipped: no device (skip)", "3 passed, 0 failed, 2 skipped")
expect(["good", "bad"], 1, "failed: dev: bad", "6 passed, 2 failed, 1 skipped")
expect(["crash"], 1, "failed: dev: crash", "3 passed, 1 failed")
expect(["good", "late"], 1, "failed: dev: late")
expect(["good", "unsteady"], 1, "unsteady, failed once and then passed alone: dev: unsteady",
       "failed: dev: unsteady")
expect(["good", "unsteady"], 0, "unsteady, failed once", "4 passed, 0 failed",
       options=["--forgive"])
expect(["good", "missing"], 1, "failed: dev: missing", "3 passed, 1 failed, 1 skipped")
expect(["good", "file"], 1, "failed: dev: file")
expect(["good", "needs"], 1, "failed: dev: needs", "failed: dev: setup")
expect(["skip"], 1, "0 passed, 0 failed, 1 skipped")  # nothing was shown
print("11 passed, 0 failed")
