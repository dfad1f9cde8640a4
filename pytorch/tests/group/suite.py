# SPDX-License-Identifier: MIT
"""PyTorch's own tests of process groups, which come with its wheel, run against "acre".

    build/torch/python pytorch/tests/group/suite.py [--ranks N] [--match TEXT] [--list FILE]
                                                     [--as-gloo]

Many of these tests run only where the backend is called "gloo". With --as-gloo the tests are
chosen as if it were, and the groups are made by "acre" nevertheless.

Prints how many tests passed, were refused or skipped by name (most of them ask for CUDA, NCCL or
gloo by name), and failed. --list writes one line for each test.
"""
from __future__ import annotations

import argparse
import io
import os
import pathlib
import re
import sys
import tempfile
import unittest


# Tests that ask for more than an operation.
KNOWN = {
    "test_ddp_logging_data_cpu": "PyTorch calls every backend of others \"custom\"",
    **{"test_accumulate_gradients_no_sync" + form:
       "the test makes its model only for backends that are called nccl or gloo"
       for form in ("", "_allreduce_hook", "_allreduce_with_then_hook", "_grad_is_view")},
}
# Sentences by which the group, or PyTorch for it, refuses something by name.
REFUSALS = ("is not served; convert it", "is only implemented for GLOO backend")


def suite_make(match: str) -> unittest.TestSuite:
    """The tests of distributed_test.py as a class whose ranks are forked."""
    import torch
    import torch_acre  # noqa: F401
    from torch.testing._internal import common_distributed

    for feature in ("ddp", "subgroup", "plugin"):
        common_distributed.DistTestCases.backend_feature[feature].add("acre")
    from torch.testing._internal.distributed import distributed_test

    class Tests(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
        def setUp(self) -> None:
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)
            torch.set_num_threads(1)

    distributed_test.BACKEND = "acre"  # decorators have read the other name by now
    names = unittest.TestLoader().getTestCaseNames(Tests)
    return unittest.TestSuite(Tests(name) for name in names if re.search(match, name))


class Results(unittest.TestResult):
    """Remembers how each test ended."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[str, tuple[str, str]] = {}

    def _add(self, test, kind: str, text: str = "") -> None:
        self.lines[test.id().rsplit(".", 1)[-1]] = (kind, text)

    def addSuccess(self, test) -> None:
        self._add(test, "passed")

    def addSkip(self, test, reason: str) -> None:
        self._add(test, "refused", reason.splitlines()[0])

    def addFailure(self, test, err) -> None:
        name, text = test.id().rsplit(".", 1)[-1], self._exc_info_to_string(err, test)
        said = [sentence for sentence in REFUSALS if sentence in text]
        if name in KNOWN or said:
            self._add(test, "refused", KNOWN.get(name) or said[0])
        else:
            self._add(test, "failed", text)

    addError = addFailure

    def count(self, kind: str) -> int:
        return sum(line[0] == kind for line in self.lines.values())


def run(ranks: int, match: str, is_gloo: bool = False) -> Results:
    """Runs the tests whose names match; what they print is thrown away."""
    with tempfile.TemporaryDirectory(prefix="acre-suite-") as folder:
        os.environ.update(BACKEND="gloo" if is_gloo else "acre", WORLD_SIZE=str(ranks),
                          TEMP_DIR=folder,
                          TORCH_DEVICE_BACKEND_AUTOLOAD="0", OMP_NUM_THREADS="1",
                          PYTHONWARNINGS="ignore")
        results = Results()
        for name in ("barrier", "test_dir", "init_dir"):
            os.makedirs(os.path.join(folder, name), exist_ok=True)
        suite_make(match).run(results)
        return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, default=3)
    parser.add_argument("--match", default=".", help="a regular expression for names of tests")
    parser.add_argument("--as-gloo", action="store_true", help="also tests that ask for gloo")
    parser.add_argument("--list", type=pathlib.Path, help="where to write a line for each test")
    options = parser.parse_args()
    sys.stderr = io.StringIO()
    results = run(options.ranks, options.match, options.as_gloo)
    sys.stderr = sys.__stderr__
    for name, (kind, text) in sorted(results.lines.items()):
        if kind == "failed":
            print(f"FAILED {name}\n{text[-1500:]}")
    print(f"PyTorch's own tests on {options.ranks} ranks: {results.count('passed')} passed, "
          f"{results.count('refused')} refused by name, {results.count('failed')} failed")
    if options.list:
        options.list.write_text("".join(
            f"{kind} {name}{': ' + text.splitlines()[0] if kind == 'refused' else ''}\n"
            for name, (kind, text) in sorted(results.lines.items())))
    return 1 if results.count("failed") else 0


if __name__ == "__main__":
    sys.exit(main())
