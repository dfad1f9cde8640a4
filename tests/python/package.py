#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""python/acre on the reference device: memory, statistics, snapshots, replays, files."""
import contextlib
import doctest
import gc
import importlib
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock

import acre

MIB = 1 << 20


def setUpModule():
    global folder, place
    folder = tempfile.TemporaryDirectory()
    place = pathlib.Path(folder.name)


def tearDownModule():
    folder.cleanup()


@contextlib.contextmanager
def switching_often():
    """Threads take turns after every few steps."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


def run_threads(count, function, *arguments):
    threads = [threading.Thread(target=function, args=arguments) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def live(cache, name="allocated_bytes"):
    return cache.stats()[name]["all"]["current"]


class Devices(unittest.TestCase):
    def test_devices_are_listed_and_described(self):
        found = acre.devices()
        self.assertIn(("openreg", 1), [(device.kind, device.index) for device in found])
        info = acre.Device("openreg", 1).info()
        self.assertIn("virtual", info["capabilities"])
        self.assertGreater(info["total_bytes"], 0)
        free, total = acre.Device("openreg").memory()
        self.assertLessEqual(free, total)

    def test_what_is_not_there_is_an_error_with_a_sentence(self):
        with self.assertRaises(acre.Error) as caught:
            acre.Device("openreg", 99)
        self.assertEqual(caught.exception.name, "ACRE_ERR_RANGE")
        self.assertIn("99", str(caught.exception))
        self.assertTrue(acre.version()[0].isdigit())
        for bad in (lambda: acre.Device("warp"), lambda: acre.Cache(policy="best"),
                    lambda: acre.File(place / "f", "q"), lambda: acre.replay(place, "best")):
            self.assertRaisesRegex(acre.Error, "there are", bad)

    def test_numbers_that_do_not_fit_are_refused(self):
        device = acre.Device("cpu")
        with acre.Cache(device) as cache, acre.File(place / "numbers", "w+",
                                                    may_buffer=True) as file:
            block = cache.alloc(512)
            before = cache.stats()
            for bad in (2**64, 2**64 + 512, -1, 1.5, "512", None):
                for attempt in (lambda: cache.alloc(bad), lambda: block.read(bad, 0) if bad else
                                cache.alloc(bad), lambda: block.read(1, bad),
                                lambda: block.tensor("uint8", (1,), bad),
                                lambda: file.save(block, bad), lambda: file.load(block, bad),
                                lambda: cache.record_history(bad),
                                lambda: acre.Cache(device, limit=bad),
                                lambda: acre.replay(place, device_bytes=bad),
                                lambda: acre.advise(place, device=bad),
                                lambda: acre.File(place / "f", "w", block_bytes=bad)):
                    self.assertRaises(acre.Error, attempt)
            for bad in (2**31, -2**31 - 1, 2**32, 2**64):
                for attempt in (lambda: acre.Device("cpu", bad), lambda: acre.verify(place, -1),
                                lambda: acre.Stream(device, bad),
                                lambda: acre.replay(place, repeat=2**32)):
                    self.assertRaisesRegex(acre.Error, "not between", attempt)
            with self.assertRaisesRegex(acre.Error, "not between"):
                cache.limit = 2**64
            self.assertIsNone(cache.limit)
            for shape in ((2**63,), (-2**63 - 1,)):
                self.assertRaises(acre.Error, block.tensor, "uint8", shape)
            self.assertEqual(cache.stats(), before)

    def test_numbers_of_other_kinds_are_taken_as_what_they_are(self):
        class Count:  # as a small number of NumPy, which fits no greater one beside itself
            def __index__(self):
                return 5

        with acre.Cache(acre.Device("cpu")) as cache:
            block = cache.alloc(Count())
            block.write(b"12345")
            self.assertEqual(block.read(Count()), b"12345")
            self.assertEqual(block.read(offset=Count()), b"")
            self.assertEqual(block.tensor(offset=Count()).shape, (0,))
            self.assertRaises(acre.Error, block.read, offset=6)

    def test_names_with_a_nul_are_refused(self):
        (place / "short").write_bytes(b"kept")
        for attempt in (lambda name: acre.File(name, "w"), acre.Snapshot, acre.replay, acre.plan,
                        lambda name: acre.Cache(conf=name)):
            self.assertRaisesRegex(ValueError, "NUL", attempt, f"{place / 'short'}\0.pickle")
        self.assertEqual((place / "short").read_bytes(), b"kept")

    def test_numbers_that_do_not_fit_are_refused_by_heaps(self):
        with acre.Heap() as heap:
            held = heap.alloc(100)
            for bad in (2**64, 2**64 + 512, -1, 1.5, "512"):
                for attempt in (lambda: heap.alloc(bad), lambda: heap.free(bad),
                                lambda: heap.owns(bad), lambda: heap.trim(bad),
                                lambda: heap.top(bad), lambda: heap.report(bad),
                                lambda: heap.record_history(bad), lambda: acre.Heap(limit=bad)):
                    self.assertRaises(acre.Error, attempt)
            with self.assertRaisesRegex(acre.Error, "not between"):
                heap.limit = 2**64
            self.assertIsNone(heap.limit)
            self.assertTrue(heap.owns(held))
            heap.free(held)
            heap.free(None)

    def test_streams_are_idle_when_waited_for(self):
        device = acre.Device("openreg")
        with acre.Stream(device) as stream, acre.Cache(device) as cache:
            block = cache.alloc(MIB, stream)
            block.record_stream(stream)
            stream.synchronize()
            self.assertTrue(stream.is_idle())
        with self.assertRaises(acre.Error):
            stream.synchronize()


class Caches(unittest.TestCase):
    def test_memory_is_allocated_written_read_and_freed(self):
        with acre.Cache() as cache:
            block = cache.alloc(1000)
            block.write(b"hello", 3)
            self.assertEqual(block.read(5, 3), b"hello")
            self.assertEqual(len(block.read()), 1000)
            self.assertGreaterEqual(live(cache), 1000)
            for bad in (lambda: block.write(b"x", 1000), lambda: block.read(2, 999)):
                self.assertRaises(acre.Error, bad)
            block.close()
            block.close()
            self.assertEqual(live(cache), 0)
            self.assertRaises(acre.Error, block.read)

    def test_blocks_go_with_their_last_reference(self):
        with acre.Cache(policy="torch") as cache:
            cache.alloc(MIB)
            gc.collect()
            self.assertEqual(live(cache), 0)
            self.assertGreater(live(cache, "reserved_bytes"), 0)
            cache.empty()
            self.assertEqual(live(cache, "reserved_bytes"), 0)

    def test_closing_a_cache_frees_what_is_left(self):
        cache = acre.Cache()
        block = cache.alloc(MIB)
        cache.close()
        self.assertTrue(block.is_closed and cache.is_closed)
        self.assertRaises(acre.Error, cache.stats)

    def test_a_block_is_freed_once_whichever_threads_close_it(self):
        failures, rounds = [], 300

        def close(blocks, gate):
            for block in blocks:
                gate.wait()
                try:
                    block.close()
                except acre.Error as error:
                    failures.append(error)

        with switching_often(), acre.Cache(acre.Device("cpu")) as cache:
            blocks, gate = [cache.alloc(4096) for _ in range(rounds)], threading.Barrier(4)
            run_threads(4, close, blocks, gate)
            self.assertEqual(live(cache), 0)
        self.assertEqual(failures, [])

    def test_a_cache_in_use_by_another_thread_is_not_closed(self):
        names = set()

        def work(cache, gate):
            try:
                gate.wait()
                for _ in range(100):
                    cache.alloc(4096).close()
                    cache.stats()
            except acre.Error as error:
                names.add(error.name)

        def close(cache, gate):
            gate.wait()
            while not cache.is_closed:
                try:
                    cache.close()
                except acre.Error as error:
                    names.add(error.name)

        with switching_often():
            for _ in range(50):
                cache, gate = acre.Cache(acre.Device("cpu")), threading.Barrier(4)
                closer = threading.Thread(target=close, args=(cache, gate))
                closer.start()
                run_threads(3, work, cache, gate)
                closer.join()
        self.assertLessEqual(names, {"ACRE_ERR_STATE", "ACRE_ERR_BUSY"})

    def test_closing_a_cache_in_use_closes_none_of_its_blocks(self):
        entered, leave = threading.Event(), threading.Event()
        with acre.Cache() as cache:
            blocks = [cache.alloc(4096) for _ in range(20)]
            cache.device.copy = lambda *_: (entered.set(), leave.wait(60))
            reader = threading.Thread(target=blocks[10].read)
            reader.start()
            entered.wait(60)
            with self.assertRaises(acre.Error) as raised:
                cache.close()
            self.assertEqual(raised.exception.name, "ACRE_ERR_BUSY")
            self.assertEqual([block for block in blocks if block.is_closed], [])
            self.assertEqual(live(cache), 20 * 4096)
            leave.set()
            reader.join()
            blocks[0].close()
            self.assertEqual(live(cache), 19 * 4096)
        self.assertEqual([block for block in blocks if not block.is_closed], [])

    def refused_meanwhile(self, closing, module, name, function):
        """Calls a function, and closes something when it gets to what a module has by that name;
        whether that was refused."""
        names, inner = [], getattr(module, name)

        def close():
            try:
                closing.close()
            except acre.Error as error:
                names.append(error.name)

        def step(*arguments):
            run_threads(1, close)
            return inner(*arguments)

        with unittest.mock.patch.object(module, name, step):
            result = function()
        self.assertEqual(names, ["ACRE_ERR_BUSY"])
        return result

    def test_a_cache_is_not_closed_while_it_makes_a_block(self):
        with acre.Cache() as cache:
            block = self.refused_meanwhile(cache, acre.cache, "Block", lambda: cache.alloc(4096))
            block.write(b"abc")
            self.assertEqual(block.read(3), b"abc")
        self.assertTrue(block.is_closed)

    def test_a_block_is_not_closed_while_it_is_lent(self):
        with acre.Cache(acre.Device("cpu")) as cache, cache.alloc(4096) as block:
            view = self.refused_meanwhile(block, acre.tensor, "buffer_of", block.memory)
            view[0] = 7
            self.assertEqual(block.read(1), bytes([7]))
            del view

    def test_a_child_closes_what_calls_of_its_parent_use(self):
        entered, leave = threading.Event(), threading.Event()
        with acre.Cache(acre.Device("cpu")) as cache, cache.alloc(4096) as block:
            cache.device.copy = lambda *_: (entered.set(), leave.wait(60))
            reader = threading.Thread(target=block.read)
            reader.start()
            entered.wait(60)
            child = os.fork()
            if child == 0:
                try:
                    cache.close()
                finally:
                    os._exit(0 if cache.is_closed else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            leave.set()
            reader.join()

    def test_a_call_that_a_signal_interrupts_keeps_nothing_open(self):
        class Stop(Exception):
            pass

        def stop(*_):
            raise Stop

        before = signal.signal(signal.SIGALRM, stop)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        for turn in range(400):
            cache = acre.Cache()
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0005 + turn * 1e-6)
                while True:
                    cache.limit  # pylint: disable=pointless-statement
            except Stop:
                if turn % 2:
                    cache.close()  # while the exception still has the frames it came through
            cache.close()
            self.assertTrue(cache.is_closed)

    def test_an_end_that_a_signal_interrupts_comes_once(self):
        program = """if True:
            import signal
            import acre
            class Stop(Exception):
                pass
            def stop(*_):
                raise Stop
            signal.signal(signal.SIGALRM, stop)
            for turn in range(1000):
                heap = acre.Heap()
                try:
                    signal.setitimer(signal.ITIMER_REAL, 1e-5 + turn % 300 * 1e-6)
                    heap.close()
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except Stop:
                    heap.close()
            """
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                              timeout=100, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_free_that_a_signal_interrupts_comes_once(self):
        inner = acre.library.lib.acre_cache_free

        def interrupted(*arguments):
            inner(*arguments)
            raise KeyboardInterrupt  # of a signal that came meanwhile

        with acre.Cache() as cache:
            block = cache.alloc(4096)
            address = block.address
            with unittest.mock.patch.object(acre.library.lib, "acre_cache_free", interrupted):
                self.assertRaises(KeyboardInterrupt, block.close)
            other = cache.alloc(4096)
            self.assertEqual(other.address, address)
            block.close()
            self.assertEqual(live(cache), 4096)
            other.close()
            self.assertEqual(live(cache), 0)

    def test_a_stream_that_a_signal_interrupts_ends_once(self):
        inner = acre.library.lib.acre_stream_native_destroy
        ended = []

        def interrupted(device, stream):
            inner(device, stream)
            ended.append(stream.value)
            raise KeyboardInterrupt

        stream = acre.Stream(acre.Device())
        with unittest.mock.patch.object(acre.library.lib, "acre_stream_native_destroy",
                                        interrupted):
            self.assertRaises(KeyboardInterrupt, stream.close)
            stream.close()
        self.assertEqual(len(ended), 1)

    def test_a_handle_that_has_ended_is_refused(self):
        heap = acre.Heap()
        handle = heap.handle
        heap.close()
        with self.assertRaises(acre.Error):
            acre.library.ask("acre_hostmem_usable_bytes", handle, None)

    def test_limits_and_failures(self):
        with acre.Cache(policy="torch", limit=4 * MIB) as cache:
            self.assertEqual(cache.limit, 4 * MIB)
            with self.assertRaises(acre.Error) as caught:
                cache.alloc(64 * MIB)
            self.assertEqual(caught.exception.name, "ACRE_ERR_DEVICE_MEMORY")
            self.assertEqual(cache.stats()["num_ooms"], 1)
            cache.limit = None
            self.assertIsNone(cache.limit)
            cache.alloc(64 * MIB)
            cache.reset_peaks()
        self.assertRaises(acre.Error, acre.Cache, conf="no_such_option:1")

    def test_segments_tile(self):
        with acre.Cache(policy="torch") as cache:
            held = [cache.alloc(size) for size in (100, MIB, 3 * MIB)]
            segments = cache.segments()
            states = [block["state"] for segment in segments for block in segment["blocks"]]
            self.assertEqual(states.count("live"), len(held))
            for segment in segments:
                self.assertEqual(sum(b["bytes"] for b in segment["blocks"]), segment["bytes"])

    def test_history_and_snapshots(self):
        with acre.Cache(policy="torch") as cache:
            cache.record_history()
            kept = cache.alloc(5 * MIB)
            cache.alloc(100).close()
            actions = [entry["action"] for entry in cache.history()]
            self.assertEqual(actions.count("alloc"), 2)
            self.assertIn("free_completed", actions)
            with cache.snapshot() as snapshot:
                snapshot.check()
                self.assertEqual(snapshot.info()["allocated_bytes"], kept.size)
                snapshot.write(place / "live.pickle")
                snapshot.write(place / "live.json")
            cache.stop_history()
        with open(place / "live.pickle", "rb") as file:
            self.assertEqual(len(pickle.load(file)["segments"]), 2)
        with acre.Snapshot(place / "live.json") as snapshot:
            self.assertEqual(snapshot.info()["segment_count"], 2)
        self.assertEqual(acre.why(place / "live.pickle")["verdict"], "none")
        self.assertRaises(acre.Error, acre.Snapshot, place / "nowhere.pickle")


class Replays(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.trace = place / "job.trace"
        cls.trace.write_text("".join(f"a {i} {(i % 7 + 1) * MIB} 0\n" for i in range(20))
                             + "".join(f"f {i}\n" for i in range(0, 20, 2)))

    def test_a_trace_is_replayed(self):
        found = acre.replay(self.trace, policy="torch", repeat=2, min_capacity=True)
        self.assertTrue(found.fits)
        self.assertEqual(found.first["allocs"], 20)
        self.assertIsNotNone(found.warm)
        self.assertGreaterEqual(found.min_capacity_bytes, found.first["bytes_requested_peak"])
        self.assertFalse(acre.replay(self.trace, device_bytes=8 * MIB).fits)

    def test_a_trace_is_advised_on(self):
        advice = acre.advise(self.trace, device_bytes=200 * MIB, threads=1)
        self.assertGreater(len(advice.settings), 2)
        self.assertTrue(advice.settings[0]["fits"])
        self.assertTrue(advice.why)
        self.assertEqual(advice.facts["events"], 30)
        self.assertEqual(acre.advise(self.trace, seconds=1e6).why, acre.advise(self.trace).why)
        self.assertRaisesRegex(acre.Error, "time was over", acre.advise, self.trace, seconds=1e-9)

    def test_a_snapshot_is_verified(self):
        with acre.Cache(policy="torch") as cache:
            cache.record_history()
            held = [cache.alloc(size) for size in (100, MIB, 3 * MIB)]
            with cache.snapshot() as snapshot:
                snapshot.write(place / "verify.pickle")
            del held
        self.assertTrue(acre.verify(place / "verify.pickle")["is_exact"])
        self.assertRaises(acre.Error, acre.replay, place / "nowhere")


class Tools(unittest.TestCase):
    """view, diff, convert and plan of files; answers print as sentences."""

    @classmethod
    def setUpClass(cls):
        with acre.Cache(policy="torch") as cache:
            cache.record_history()
            held = [cache.alloc(size) for size in (100, MIB, 3 * MIB)]
            with cache.snapshot() as snapshot:
                snapshot.write(place / "a.pickle")
            held.append(cache.alloc(30 * MIB))
            with cache.snapshot() as snapshot:
                snapshot.write(place / "b.pickle")
            del held

    def test_differences(self):
        found = acre.diff(place / "a.pickle", place / "b.pickle")
        self.assertEqual(found["allocated_b"] - found["allocated_a"], 30 * MIB)
        self.assertEqual(found["sizes"][0]["bytes_b"], 30 * MIB)
        self.assertIn("grew by 30.00 MiB", str(found))
        self.assertIn("<Diff: Live memory grew", repr(found))
        self.assertRaises(acre.Error, acre.diff, place / "a.pickle", place / "b.pickle", device=5)

    def test_conversion(self):
        acre.convert(place / "b.pickle", place / "b.trace.gz")
        self.assertEqual(acre.replay(place / "b.trace.gz").first["allocs"], 4)
        self.assertRaises(ValueError, acre.convert, place / "b.pickle", place / "b.pickle")
        self.assertRaises(ValueError, acre.convert, place / "b.pickle", place / "b.odd")
        self.assertTrue(acre.verify(place / "b.pickle")["is_exact"])

    def test_pages(self):
        self.assertIsNone(acre.view(place / "b.pickle", place / "b.html", title="a job"))
        self.assertIn("a job", (place / "b.html").read_text())
        self.assertRaises(ValueError, acre.view, place / "b.pickle", place / "b.pickle")
        self.assertRaises(acre.Error, acre.view, place / "nowhere", place / "n.html")

    def test_plans(self):
        found = acre.plan(place / "b.pickle", out=place / "b.csv")
        self.assertEqual(len(found), 4)
        self.assertEqual(found.height, 34 * MIB + 512)
        self.assertTrue((place / "b.csv").read_text().startswith("id,lower,upper,size,offset"))
        self.assertIn("4 buffers", repr(found))
        self.assertRaises(ValueError, acre.plan, place / "b.pickle", out=place / "b.pickle")
        listed = acre.plan([(0, 2, 100), (1, 3, 50), (2, 4, 100)])
        self.assertEqual((listed.height, listed.is_optimal), (150, True))
        self.assertRaises(acre.Error, acre.plan, [(0, 2, 100), (1, 3, 50)], capacity=120)
        for bad in (2**64, 2**64 + 5, -1, -2**64 + 5, 1.5, "512", None):
            for row in ((bad, 2**63, 5), (0, bad, 5), (0, 2, bad)):
                self.assertRaises(acre.Error, acre.plan, [row])
            for name in ("capacity", "seed"):
                self.assertRaises(acre.Error, acre.plan, [(0, 2, 100)], **{name: bad})

    def test_answers_print_as_sentences(self):
        answer = acre.why(place / "b.pickle", device=0)
        self.assertIn("No request failed", str(answer))
        self.assertIn("<Why: No request", repr(answer))
        self.assertEqual(answer["device_reason"], "as asked for")
        advice = acre.advise(place / "b.pickle", curves=True)
        self.assertIn("settings tried", repr(advice))
        self.assertEqual(max(advice.settings[0]["curve"]),
                         advice.settings[0]["bytes_reserved_peak"])
        self.assertIn("events", repr(acre.replay(place / "b.pickle")))
        self.assertEqual(str(acre.verify(place / "b.pickle"))[-5:], "exact")
        with acre.Snapshot(place / "b.pickle") as snapshot:
            self.assertIn("1 device(s), 3 segments", repr(snapshot))
        self.assertIn("closed", repr(snapshot))
        with acre.Cache(acre.Device("cpu")) as cache, cache.alloc(4096) as block:
            self.assertRegex(repr(block), r"<Block: 4096 bytes at 0x[0-9a-f]+ on acre.Device")
            self.assertIn("<Tensor: 4 x 8 of float32, in <Block",
                          repr(block.tensor("float32", (4, 8))))
        for kind in (acre.Device("openreg"), acre.Cache(), acre.Stream(acre.Device("openreg"))):
            self.assertNotIn("object at 0x", repr(kind))

    def test_examples_in_documentation(self):
        for name in ("report", "plan", "number"):
            module = importlib.import_module(f"acre.{name}")
            failed, tried = doctest.testmod(sys.modules[f"acre.{name}"] or module)
            self.assertEqual(failed, 0)
            self.assertGreater(tried, 0)

    def test_predictions_read_well_and_need_no_pytorch_before(self):
        # Running one needs PyTorch: tests/torch.
        self.assertTrue(callable(acre.predict))
        self.assertNotIn("torch", sys.modules)
        found = acre.predict.Prediction({"verdict": "It fits.", "reserved_peak_bytes": 1})
        self.assertEqual(repr(found), "<Prediction: It fits.>")
        self.assertEqual(found["reserved_peak_bytes"], 1)
        hints = acre.predict.predict.__annotations__
        self.assertEqual(sorted(hints), ["function", "gpu", "output", "return", "settings"])

    def test_every_public_function_has_type_hints(self):
        for name in ("advise", "convert", "diff", "plan", "replay", "verify", "view", "why"):
            function = getattr(acre, name)
            hints = function.__annotations__
            self.assertIn("return", hints, name)
            self.assertEqual(len(hints), function.__code__.co_argcount + 1, name)
        self.assertTrue((pathlib.Path(acre.__file__).parent / "py.typed").exists())

    def test_parts_are_imported_when_they_are_asked_for(self):
        said = subprocess.run(
            [sys.executable, "-c",
             "import sys\n"
             "before = set(sys.modules)  # a Python may load modules of its own at its start\n"
             "import acre.heap\n"
             "new = set(sys.modules) - before\n"
             "loaded = [n for n in new if n.startswith('acre.') or n == 'pathlib']\n"
             "assert len(loaded) < 9 and 'pathlib' not in loaded, loaded\n"
             "import acre.view, acre\n"
             "assert acre.view is acre.view.__globals__['view'] and acre.Why.__name__ == 'Why'\n"
             "assert acre.structs.device_id and set(acre.__all__) <= set(dir(acre))\n"
             "assert not hasattr(acre, 'nothing')\n"
             "print(*sorted(set(acre.__all__) - {n for n in acre.__all__ if hasattr(acre, n)}))"],
            check=True, capture_output=True, text=True)
        self.assertEqual(said.stdout.strip(), "")


class Files(unittest.TestCase):
    def test_blocks_are_saved_and_loaded(self):
        data = os.urandom(3 * 4096)
        with acre.Cache() as cache, acre.File(place / "f", "w+", may_buffer=True) as file:
            block, other = cache.alloc(len(data)), cache.alloc(len(data))
            block.write(data)
            file.save(block, 4096)
            file.sync()
            file.load(other, 4096)
            self.assertEqual(other.read(), data)
            self.assertEqual(file.info()["bytes"], 4 * 4096)
            with self.assertRaises(acre.Error) as caught:
                file.load(other, 8192)
            self.assertEqual(caught.exception.name, "ACRE_ERR_IO")
            self.assertRaises(acre.Error, file.save, block, 1)
            self.assertRaises(acre.Error, file.save, block, 0, 1 << 30)
        self.assertRaises(acre.Error, acre.File, place / "nowhere")


if __name__ == "__main__":
    unittest.main()
