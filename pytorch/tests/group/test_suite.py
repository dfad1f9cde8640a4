# SPDX-License-Identifier: MIT
"""PyTorch's own tests of process groups; see suite.py."""
import os
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent

# A part of the tests, for every day. ACRE_TEST_LONG=1 runs all of them, also those for gloo.
SHORT = ("^test_(all_reduce_(sum|max|group_min|coalesced_sum)|all_gather|all_gather_object|"
         "broadcast|broadcast_object_list|reduce_sum|gather|scatter|barrier|barrier_group|"
         "isend|irecv|send_recv|send_recv_any_source|DistributedDataParallelCPU|ddp_buffer_hook|"
         "get_rank|new_subgroups_by_enumeration)$")


def counts(*arguments: str) -> tuple[int, int, int]:
    """How many passed, were refused, and failed."""
    done = subprocess.run([sys.executable, "-W", "ignore", str(HERE / "suite.py"), *arguments],
                          stdout=subprocess.PIPE, text=True)
    found = re.search(r"(\d+) passed, (\d+) refused by name, (\d+) failed", done.stdout)
    print(done.stdout[-6000:])
    assert found, "the tests did not run"
    return tuple(int(number) for number in found.groups())


def test_a_part_of_the_tests_for_any_backend():
    passed, _, failed = counts("--ranks", "2", "--match", SHORT)
    assert failed == 0 and passed >= 12


def test_all_of_them():
    if not os.environ.get("ACRE_TEST_LONG"):
        import pytest
        pytest.skip("minutes; ACRE_TEST_LONG=1 runs it")
    assert counts("--ranks", "3")[2] == 0
    assert counts("--ranks", "3", "--as-gloo")[2] == 0
