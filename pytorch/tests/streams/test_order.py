# SPDX-License-Identifier: MIT
"""Proof 5: what keeps the order of streams is needed, and is there.

Each program runs twice. The second time a library stands in front of libacre.so in which one
function does nothing; the program must notice.
"""
import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent

# The functions without which each program loses its data.
PROGRAMS = {
    "memory_used_elsewhere": "acre_allocator_record_stream",
    "result_of_a_future": "acre_allocator_record_stream",
    "operator_after_copy": "acre_stream_synchronize",
    "scalar_after_copy": "acre_stream_synchronize",
    "source_of_a_copy": "acre_pinned_record_event",
}
WITH_CONTROL = {"operator_after_copy", "scalar_after_copy"}


def run(name: str, library: str = "", is_broken: bool = False) -> str:
    command = [sys.executable, str(HERE / "work_order.py"), name]
    if name in WITH_CONTROL:
        command.append("broken" if is_broken else "whole")
    done = subprocess.run(command, env={**os.environ, "LD_PRELOAD": library}, text=True,
                          capture_output=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def without(function: str, folder: pathlib.Path) -> str:
    """A library in which a function of Acre does nothing and says that all went well."""
    source, library = folder / "without.c", folder / "libwithout.so"
    source.write_text(f"int {function}(void);\nint {function}(void)\n{{\n    return 0;\n}}\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    return str(library)


@pytest.mark.parametrize("name", PROGRAMS)
def test_order_is_kept(name):
    assert run(name) == "kept"


@pytest.mark.parametrize("name", PROGRAMS)
def test_order_is_lost_without(name, tmp_path):
    """The negative control: the same program, with the call made a no-op."""
    assert run(name, without(PROGRAMS[name], tmp_path), is_broken=True) == "lost"
