#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""NumPy's own tests with Acre enabled: numpy_suite.py 1|2.

1 is Debian's NumPy, 2 a NumPy 2.x in a virtual environment below the build folder, which the long
form makes. The long form (ACRE_TEST_LONG=1) runs the whole suite, the short form some files of it.
What fails is run once more without Acre: only what passes then is a failure of Acre. Tests that
look at NumPy's own memory handler are left out; they are named in OWN_HANDLER.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PACKAGES = ["numpy==2.2.6", "pytest==8.3.4", "hypothesis==6.122.3"]
SHORT = ["test_arraypad.py", "test_shape_base.py", "test_indexing.py", "test_mem_overlap.py",
         "test_nditer.py", "test_item_selection.py"]
# They set handlers of their own and ask for the name of the one before.
OWN_HANDLER = ["test_mem_policy.py"]

PLUGIN = '''
import acre.numpy
acre.numpy.enable()

def pytest_runtest_setup(item):
    acre.numpy.enable()  # pytest runs tests in contexts of their own

def pytest_unconfigure(config):
    stats = acre.numpy.memory_stats()
    print("blocks from Acre:", stats["allocation.all.allocated"] + stats["small_allocated"])
'''


def leave(reason):
    print(f"skipped: {reason}")
    sys.exit(77)


def interpreter(kind, is_long):
    """A Python that has the NumPy that is asked for, and pytest."""
    python = sys.executable
    if kind == "2":
        folder = pathlib.Path(os.environ["ACRE_BUILD"]) / "numpy2"
        python = str(folder / "bin" / "python")
        if not (folder / "done").exists():
            if not is_long:
                leave("the long form makes the environment with NumPy 2")
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            done = subprocess.run([python, "-m", "pip", "install", "-q", *PACKAGES], check=False,
                                  capture_output=True, text=True)
            if done.returncode:
                leave(f"NumPy 2 cannot be had: {done.stderr[-300:]}")
            (folder / "done").touch()
    done = subprocess.run([python, "-c", "import numpy, pytest, hypothesis\n"
                                         "print(numpy.__version__, numpy.__path__[0])"],
                          check=False, capture_output=True, text=True)
    if done.returncode:
        leave(f"{done.stderr.splitlines()[-1]}; apt-get install python3-numpy python3-pytest "
              "python3-hypothesis")
    version, folder = done.stdout.split()
    assert version.startswith(f"{kind}."), (python, version)
    return python, version, pathlib.Path(folder)


def files_of(folder, is_long):
    """The tests of the suite to be run."""
    files = sorted(folder.rglob("test_*.py"))
    files = [file for file in files if file.name not in OWN_HANDLER and "f2py" not in file.parts
             and "distutils" not in file.parts and "typing" not in file.parts]
    return files if is_long else [file for file in files if file.name in SHORT]


def run(python, work, what, with_acre):
    """Runs tests; the last line of pytest, and the names of those that failed."""
    environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1",
                       PYTHONPATH=f"{work}:{os.environ['PYTHONPATH']}")
    environment.pop("ACRE_TEST_LONG", None)
    command = [python, "-m", "pytest", "-q", "-rfE", "--no-header",
               "-p", "no:cacheprovider", "-m", "not slow", "--tb=short", "-W", "ignore",
               *(["-p", "acre_plugin"] if with_acre else []), *map(str, what)]
    done = subprocess.run(command, cwd=work, env=environment, check=False, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    if done.returncode not in (0, 1):
        print(done.stdout[-4000:])
        sys.exit(f"pytest ended with {done.returncode}")
    return done.stdout, failed


def main():
    is_long = os.environ.get("ACRE_TEST_LONG") == "1"
    python, version, folder = interpreter(sys.argv[1], is_long)
    files = files_of(folder, is_long)
    if not files:
        leave(f"NumPy {version} in {folder} came without its tests")
    with tempfile.TemporaryDirectory() as work:
        pathlib.Path(work, "acre_plugin.py").write_text(PLUGIN)
        said, failed = run(python, work, files, True)
        counts = re.findall(r"(?:\d+ failed, )?\d+ passed.*", said)
        blocks = re.findall(r"blocks from Acre: (\d+)", said)
        print(f"NumPy {version}, {len(files)} files: {counts[-1]}; blocks from Acre: {blocks[-1]}")
        assert int(blocks[-1]) > 1000, "the arrays did not come from Acre"
        if failed:
            where = [os.path.normpath(os.path.join(work, name)) for name in failed]
            _, without = run(python, work, where, False)
            ours = sorted(set(failed) - set(without))
            print(f"{len(without)} of {len(failed)} fail without Acre as well")
            if ours:
                print(said[-20000:])
                sys.exit("these fail with Acre alone: " + " ".join(ours))
    print("1 passed, 0 failed")


main()
