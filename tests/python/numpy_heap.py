#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""NumPy's arrays on a heap of Acre: results, lifetimes, limits, history, fork, threads."""
import doctest
import gc
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import acre
import acre.heap
import acre.numpy

try:
    import numpy
except ImportError as reason:
    print(f"skipped: no NumPy here ({reason}); apt-get install python3-numpy")
    sys.exit(77)


def owns(array):
    return acre.numpy.heap().owns(array.ctypes.data)


def live():
    gc.collect()
    return acre.numpy.memory_stats()["allocated_bytes.all.current"]


def resident():
    """Resident memory of this process in bytes."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096


def work(seed):
    """Many kinds of operations; the bytes of all results."""
    random = numpy.random.default_rng(seed)
    values = random.random((300, 500))
    parts = [values @ values.T, numpy.sort(values, axis=0), numpy.cumsum(values),
             numpy.concatenate([values, values[::2]]), numpy.linalg.solve(values[:, :300],
                                                                       values[:, 0]),
             numpy.fromiter(range(50000), dtype="int64"), numpy.pad(values, 3),
             numpy.unique(random.integers(0, 1000, 20000)), numpy.zeros((200, 200)),
             numpy.fft.rfft(values).real, numpy.array(["text", "longer text"] * 500)]
    return b"".join(part.tobytes() for part in parts)


# What "ulimit -v" does: arrays until there are no more addresses, then fewer again.
ADDRESSES = """
import pathlib, resource, numpy, acre.numpy
acre.numpy.enable()
used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * 4096
resource.setrlimit(resource.RLIMIT_AS, (used + (400 << 20),) * 2)
arrays = []
try:
    while True:
        arrays.append(numpy.ones(20 << 20, dtype="uint8"))
except MemoryError as error:
    print(len(arrays), error)
assert all(array.sum(dtype="int64") == 20 << 20 for array in arrays)
del arrays
assert numpy.ones(60 << 20, dtype="uint8").sum(dtype="int64") == 60 << 20
"""


# A NumPy that has no place for handlers, more often than there may be heaps.
IN_VAIN = """
import acre.numpy, numpy
capsule = acre.numpy._capsule
def refuse(heap):
    raise ImportError("no handlers here")
acre.numpy._capsule = refuse
for _ in range(100):
    try:
        acre.numpy.enable()
    except ImportError:
        pass
acre.numpy._capsule = capsule
acre.numpy.enable()
"""


class NumpyHeap(unittest.TestCase):
    def setUp(self):
        acre.numpy.enable()

    def tearDown(self):
        acre.numpy.limit(None)
        acre.numpy.stop_history()
        acre.numpy.disable()

    def test_results_are_the_same_bit_for_bit(self):
        with_acre = [work(seed) for seed in range(5)]
        acre.numpy.disable()
        self.assertEqual(with_acre, [work(seed) for seed in range(5)])

    def test_arrays_come_from_the_heap_and_small_ones_do_not(self):
        self.assertTrue(owns(numpy.ones(1000)))
        self.assertTrue(owns(numpy.zeros(1 << 20)))
        self.assertFalse(owns(numpy.ones(100)))
        array = numpy.ones(1 << 20)
        self.assertEqual(array.ctypes.data % 64, 0)

    def test_each_array_is_freed_where_it_came_from(self):
        before = live()
        here = numpy.ones(1 << 20)
        acre.numpy.disable()
        there = numpy.ones(1 << 20)
        self.assertFalse(owns(there))
        self.assertEqual(here.sum(), 1 << 20)
        here.resize(3 << 20, refcheck=False)
        self.assertEqual(here.sum(), 1 << 20)
        acre.numpy.enable()
        there.resize(3 << 20, refcheck=False)
        self.assertEqual(there.sum(), 1 << 20)
        del here, there
        self.assertEqual(live(), before)

    def test_growing_remaps(self):
        remaps = acre.numpy.memory_stats()["remap_count"]
        array = numpy.arange(1 << 18)
        array.resize(1 << 20, refcheck=False)
        self.assertEqual(acre.numpy.memory_stats()["remap_count"], remaps + 1)
        self.assertTrue((array[:1 << 18] == numpy.arange(1 << 18)).all())
        self.assertFalse(array[1 << 18:].any())

    def test_zeros_take_no_memory_until_touched(self):
        before = resident()
        array = numpy.zeros(128 << 20, dtype="uint8")
        self.assertLess(resident(), before + (16 << 20))
        self.assertEqual(array[100 << 20], 0)

    def test_a_limit_is_a_memory_error_that_names_the_holder(self):
        acre.numpy.record_history()
        kept = numpy.ones(2 << 20)
        acre.numpy.limit(acre.numpy.memory_stats()["reserved_bytes.all.current"] + (32 << 20))
        with self.assertRaises(MemoryError) as caught:
            numpy.ones(1 << 30)
        text = str(caught.exception)
        self.assertIn("Unable to allocate", text)
        self.assertIn("numpy_heap.py", text)
        self.assertIn("16.0 MiB in 1 block", text)
        acre.numpy.limit(None)
        self.assertEqual(kept.sum(), 2 << 20)

    def test_top_names_the_line(self):
        acre.numpy.record_history()
        kept = [numpy.full(200000, 1.0) for _ in range(6)]
        places = [place for place in acre.numpy.top(3) if "full" in "".join(place["frames"][:1])]
        self.assertEqual(places[0]["count"], 6)
        self.assertTrue(any("test_top_names_the_line" in frame for frame in places[0]["frames"]))
        del kept

    def test_two_points_differ_by_what_is_left_behind(self):
        acre.numpy.record_history()
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("before.pickle", "after.pickle")]
            acre.numpy.snapshot(paths[0])
            left = numpy.ones(5 << 20)
            acre.numpy.snapshot(paths[1])
            found = acre.diff(*paths)
        self.assertEqual(found["allocated_b"] - found["allocated_a"], left.nbytes)
        self.assertIn("test_two_points", found["stacks"][0]["text"])

    def test_threads_allocate_and_end(self):
        found = []

        def run():
            found.append(owns(numpy.ones(5000)))
            for seed in range(3):
                work(seed)
        before = live()
        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, [True] * 4)
        self.assertEqual(live(), before)

    def test_a_thread_that_could_not_start_starts_later(self):
        found, start = [], acre.numpy._thread_start
        thread = threading.Thread(target=lambda: found.append(owns(numpy.ones(5000))))

        def refuse(_):
            raise RuntimeError("can't start new thread")
        acre.numpy._thread_start = refuse
        try:
            self.assertRaises(RuntimeError, thread.start)
        finally:
            acre.numpy._thread_start = start
        thread.start()
        thread.join()
        self.assertEqual(found, [True])

    def test_enabling_in_vain_leaves_nothing(self):
        done = subprocess.run([sys.executable, "-c", IN_VAIN], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_child_enables_although_its_parent_was_enabling(self):
        is_held, may_go = threading.Event(), threading.Event()

        def enable():
            with acre.numpy._lock:
                is_held.set()
                may_go.wait()
        thread = threading.Thread(target=enable)
        thread.start()
        is_held.wait()
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            acre.numpy.disable()
            acre.numpy.enable()
            os._exit(0 if owns(numpy.ones(5000)) else 1)
        may_go.set()
        thread.join()
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_a_forked_child_goes_on(self):
        kept = numpy.arange(1 << 20)
        expected = work(1)
        child = os.fork()
        if child == 0:
            fine = kept.sum() == (1 << 19) * ((1 << 20) - 1) and work(1) == expected
            os._exit(0 if fine else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_a_limit_of_addresses_is_a_memory_error(self):
        done = subprocess.run([sys.executable, "-c", ADDRESSES], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        count, text = done.stdout.split(maxsplit=1)
        self.assertIn(int(count), range(5, 20))
        self.assertIn("Unable to allocate 20.0 MiB", text)

    def test_arrays_may_outlive_every_module(self):
        program = ("import numpy, acre.numpy; acre.numpy.enable(); kept = numpy.ones(1 << 20);"
                   "acre.numpy._state.clear();"  # as the interpreter does at its end
                   "assert kept.sum() == 1 << 20")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_idle_memory_goes_back(self):
        array = numpy.ones(32 << 20)
        high = resident()
        del array
        self.assertGreaterEqual(acre.numpy.trim(), 250 << 20)
        self.assertLess(resident(), high - (240 << 20))

    def test_the_library_says_what_is_wrong(self):
        with self.assertRaisesRegex(acre.Error, "idle_seconds"):
            acre.Heap(idle_seconds=0)
        with self.assertRaisesRegex(acre.Error, "keep"):
            acre.Heap(keep=-1)


class Examples(unittest.TestCase):
    def test_examples_of_the_documentation(self):
        for module in (acre.heap, acre.numpy):
            found = doctest.testmod(module)
            self.assertGreater(found.attempted, 3)
            self.assertEqual(found.failed, 0)


class Exec(unittest.TestCase):
    PROGRAM = ("import numpy, acre.numpy, sys; a = numpy.ones(1 << 20); h = acre.numpy.heap();"
               "print(h.owns(a.ctypes.data), h.limit, sys.argv[1:])")

    def run_exec(self, *arguments):
        command = os.environ.get("ACRE")
        if not command:
            self.skipTest("ACRE does not name the command")
        return subprocess.run([command, "exec", *arguments], capture_output=True, text=True,
                              check=False)

    def test_a_program_runs_unchanged(self):
        done = self.run_exec("--numpy", "--limit", "64MiB", "--", sys.executable, "-c",
                             self.PROGRAM, "x")
        self.assertEqual(done.stdout, "True 67108864 ['x']\n", done.stderr)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr, "")

    def test_the_module_of_the_system_runs_if_there_is_one(self):
        program = "import sitecustomize as s; print(getattr(s, 'mark', 'none'))"
        with tempfile.TemporaryDirectory() as folder:
            before = os.environ.get("PYTHONPATH", "")
            os.environ["PYTHONPATH"] = folder + ":" + before
            self.addCleanup(os.environ.__setitem__, "PYTHONPATH", before)
            done = self.run_exec("--numpy", "--", sys.executable, "-c", program)
            self.assertEqual((done.stdout, done.stderr), ("none\n", ""))
            with open(os.path.join(folder, "sitecustomize.py"), "w", encoding="utf-8") as file:
                file.write("mark = 'the system'\n")
            done = self.run_exec("--numpy", "--", sys.executable, "-c", program)
            self.assertEqual((done.stdout, done.stderr), ("the system\n", ""))

    def test_its_exit_status_is_the_programs(self):
        done = self.run_exec("--numpy", "--", sys.executable, "-c", "raise SystemExit(7)")
        self.assertEqual(done.returncode, 7)

    def test_packages_beside_acre_are_not_in_the_way(self):
        """An installed Acre lies among the system's packages; a program has its own."""
        command = os.environ.get("ACRE")
        if not command:
            self.skipTest("ACRE does not name the command")
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            packages = root / "lib" / "python3" / "dist-packages"
            packages.mkdir(parents=True)
            (root / "bin").mkdir()
            shutil.copy2(command, root / "bin" / "acre")
            (packages / "acre").symlink_to(pathlib.Path(acre.__file__).parent)
            (packages / "beside_acre.py").touch()
            program = ("import importlib.util, sys, acre.numpy; print(acre.__file__);"
                       "print(importlib.util.find_spec('beside_acre'))")
            environment = {name: value for name, value in os.environ.items()
                           if name != "PYTHONPATH"}
            environment["LD_LIBRARY_PATH"] = str(pathlib.Path(command).resolve().parent)
            done = subprocess.run([root / "bin" / "acre", "exec", "--numpy", "--", sys.executable,
                                   "-c", program], capture_output=True, text=True, check=False,
                                  env=environment)
            self.assertEqual(done.stdout, f"{packages}/acre/__init__.py\nNone\n", done.stderr)

    def test_a_python_without_sitecustomize_starts_quietly(self):
        """Python looks for the module that it has imported, also where there is no other."""
        folder = pathlib.Path(acre.__file__).parent / "autoload"
        program = (f"import sys\nFOLDER = {str(folder)!r}\nsys.path.insert(0, FOLDER)\n"
                   "class Hide:\n"
                   "    @staticmethod\n"
                   "    def find_spec(name, path=None, target=None):\n"
                   "        if name == 'sitecustomize' and FOLDER not in sys.path:\n"
                   "            raise ModuleNotFoundError(name, name=name)\n"
                   "sys.meta_path.insert(0, Hide)\n"
                   "import sitecustomize\n"
                   "print(sitecustomize.__file__)\n")
        done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.stdout, f"{folder}/sitecustomize.py\n", done.stderr)

    def test_bad_use_is_said(self):
        self.assertIn("required", self.run_exec("--numpy").stderr)
        self.assertEqual(self.run_exec("--", "true").returncode, 2)
        self.assertEqual(self.run_exec("--numpy", "--", "/nowhere/at/all").returncode, 127)


if __name__ == "__main__":
    unittest.main()
