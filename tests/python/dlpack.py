#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Arrays of NumPy to Acre and back by DLPack, on host memory."""
import gc
import signal
import sys
import threading
import unittest

import acre

try:
    import numpy
    numpy.from_dlpack
except (ImportError, AttributeError) as reason:
    print(f"skipped: no NumPy with DLPack here ({reason}); apt-get install python3-numpy")
    sys.exit(77)


def live(cache):
    return cache.stats()["allocated_bytes"]["all"]["current"]


class Dlpack(unittest.TestCase):
    def setUp(self):
        self.cache = acre.Cache(acre.Device("cpu"))

    def tearDown(self):
        gc.collect()
        self.cache.close()

    def test_a_block_becomes_an_array_that_shares_its_memory(self):
        block = self.cache.alloc(24 * 4)
        array = numpy.from_dlpack(block.tensor("float32", (2, 3, 4)))
        self.assertEqual(array.shape, (2, 3, 4))
        self.assertEqual(array.ctypes.data, block.address)
        block.write(numpy.arange(24, dtype="float32"))
        self.assertEqual(array[1, 2, 3], 23)
        self.assertEqual(numpy.from_dlpack(block).nbytes, 96)

    def test_types_and_offsets_arrive(self):
        block = self.cache.alloc(64)
        block.write(bytes(range(64)))
        for name in ("int8", "uint16", "int32", "uint64", "float64", "complex64"):
            array = numpy.from_dlpack(block.tensor(name, (2,), 16))
            self.assertEqual(array.dtype, numpy.dtype(name))
            self.assertEqual(array.tobytes()[0], 16)
        for bad in (lambda: block.tensor("text"), lambda: block.tensor("float0"),
                    lambda: block.tensor("float288"), lambda: block.tensor("uint" + "9" * 9999),
                    lambda: block.tensor("float32", (17,)).__dlpack__(),
                    lambda: block.tensor("float32", (1,), 61).__dlpack__()):
            self.assertRaises(acre.Error, bad)

    def test_types_below_a_byte_are_no_arrays(self):
        tensor = self.cache.alloc(64).tensor("uint1")
        self.assertFalse(hasattr(tensor, "__array_interface__"))
        self.assertRaises(AttributeError, tensor.memory)

    def test_a_refused_shape_raises_and_gives_its_memory_back(self):
        block = self.cache.alloc(64)
        for shape, kind in (((0, 2**62, 4), ValueError), ((0, 2**62), ValueError),
                            ((0, 2**31, 2**31, 2**31), ValueError),
                            ((1,) * 64, (RuntimeError, type(None)))):
            tensor = block.tensor("float32", shape)
            try:
                raised = None
                self.assertEqual(numpy.from_dlpack(tensor).shape, shape)
            except Exception as reason:  # pylint: disable=broad-except
                raised = reason
            self.assertIsInstance(raised, kind)
        self.assertEqual(numpy.from_dlpack(block.tensor("float32", (0, 2**30))).shape, (0, 2**30))
        with self.assertRaisesRegex(acre.Error, "dimensions"):
            block.tensor("float32", (1,) * 70).__dlpack__()
        del block, tensor, raised
        gc.collect()
        self.assertEqual(live(self.cache), 0)

    def test_an_exception_on_its_way_survives_the_end_of_a_tensor(self):
        block = self.cache.alloc(64)
        for version in (None, (1, 0)):
            with self.assertRaisesRegex(KeyError, "own"):
                # The capsule is on the stack of the interpreter when the exception comes.
                print(block.tensor("uint8").__dlpack__(max_version=version), {}["own"])
        with self.assertRaisesRegex(KeyError, "own"):
            print(numpy.from_dlpack(block), {}["own"])
        del block
        gc.collect()
        self.assertEqual(live(self.cache), 0)

    def test_empty_shapes_are_imported(self):
        array = numpy.empty((0, 2**30, 2**20), "uint8")
        taken = acre.from_dlpack(array)
        self.assertEqual(taken.size, 0)
        taken.close()

    def test_memory_lives_as_long_as_its_last_user(self):
        block = self.cache.alloc(4096)
        first, second = numpy.from_dlpack(block), numpy.from_dlpack(block)
        del block
        gc.collect()
        self.assertGreaterEqual(live(self.cache), 4096)
        with self.assertRaises(acre.Error) as caught:
            self.cache.close()
        self.assertEqual(caught.exception.name, "ACRE_ERR_BUSY")
        del first
        gc.collect()
        self.assertGreaterEqual(live(self.cache), 4096)
        del second
        gc.collect()
        self.assertEqual(live(self.cache), 0)

    def test_a_block_in_use_is_not_freed(self):
        for take in (numpy.from_dlpack, numpy.asarray, lambda block: block.memory()):
            block = self.cache.alloc(4096)
            block.write(b"\7" * 4096)
            array = take(block)
            with self.assertRaises(acre.Error) as caught:
                block.close()
            self.assertEqual(caught.exception.name, "ACRE_ERR_BUSY")
            self.assertFalse(block.is_closed)
            other = self.cache.alloc(4096)
            other.write(b"Z" * 4096)
            self.assertEqual(array[4095], 7)
            other.close()
            del array
            gc.collect()
            block.close()
            self.assertEqual(live(self.cache), 0)

    def test_with_does_not_hide_the_exception_of_the_user(self):
        with self.assertRaises(KeyError):
            with self.cache.alloc(64) as block:
                array = numpy.from_dlpack(block)
                raise KeyError("mine")
        with self.assertRaisesRegex(acre.Error, "ACRE_ERR_BUSY"):
            with block:
                pass
        self.assertEqual(array.nbytes, 64)
        del array
        block.close()

    def test_arrays_can_be_written(self):
        block = self.cache.alloc(24 * 4)
        array = numpy.asarray(block.tensor("float32", (2, 3, 4)))
        self.assertTrue(array.flags.writeable)
        self.assertEqual((array.shape, array.dtype), ((2, 3, 4), numpy.dtype("float32")))
        array[:] = numpy.arange(24).reshape(2, 3, 4)
        self.assertEqual(block.read(), numpy.arange(24, dtype="float32").tobytes())
        view = block.tensor("int32", (2, 12)).memory()
        view[1, 11] = -5
        self.assertEqual(array.view("int32")[1, 2, 3], -5)
        for name in ("int8", "uint16", "int64", "float16", "float64", "complex128", "bool"):
            self.assertEqual(numpy.asarray(block.tensor(name, (2,), 16)).dtype, numpy.dtype(name))
        self.assertEqual(numpy.asarray(block.tensor("uint8", (0,))).shape, (0,))
        del array, view

    def test_memory_of_a_device_is_no_array_of_the_host(self):
        with acre.Cache(acre.Device("openreg")) as cache:
            block = cache.alloc(64)
            self.assertFalse(hasattr(block, "__array_interface__"))
            self.assertRaisesRegex(AttributeError, "may not touch", block.memory)
        with acre.Cache(acre.Device("cpu")) as cache:
            self.assertFalse(hasattr(cache.alloc(64).tensor("bfloat16"), "__array_interface__"))

    def test_capsules_that_nobody_takes_end_what_they_hold(self):
        block = self.cache.alloc(100)
        for version in (None, (1, 0)):
            capsule = block.__dlpack__(max_version=version)
            self.assertIn("dltensor_versioned" if version else '"dltensor"', repr(capsule))
            del capsule
        del block
        gc.collect()
        self.assertEqual(live(self.cache), 0)

    def test_an_array_is_taken_without_copying(self):
        array = numpy.arange(12, dtype="int32").reshape(3, 4)
        count = sys.getrefcount(array)
        with acre.from_dlpack(array) as taken:
            self.assertEqual(taken.address, array.ctypes.data)
            self.assertEqual(taken.size, 48)
            self.assertEqual(taken.device_id, (0, 0))
            self.assertGreater(sys.getrefcount(array), count)
        self.assertEqual(sys.getrefcount(array), count)
        capsule = array.__dlpack__()
        acre.from_dlpack(capsule).close()
        self.assertRaises(acre.Error, acre.from_dlpack, capsule)
        self.assertRaises(acre.Error, acre.from_dlpack, 5)

    def test_a_capsule_is_taken_by_one_of_several_threads(self):
        capsule = self.cache.alloc(100).__dlpack__()
        taken, threads = [], []

        def take():
            try:
                taken.append(acre.from_dlpack(capsule))
            except acre.Error as error:
                taken.append(error)

        def address_of(*arguments):  # in the middle of taking
            if not threads:
                threads.append(threading.Thread(target=take))
                threads[0].start()
                threads[0].join(0.1)
            return before(*arguments)

        before, acre.capsule.address_of = acre.capsule.address_of, address_of
        try:
            take()
        finally:
            acre.capsule.address_of = before
        threads[0].join()
        self.assertEqual(sorted(type(each).__name__ for each in taken), ["Error", "Imported"])
        next(each for each in taken if isinstance(each, acre.Imported)).close()
        self.assertEqual(live(self.cache), 0)

    def test_nothing_is_lost_where_signals_interrupt(self):
        class Stop(Exception):
            pass

        def stop(*_):
            raise Stop()

        def steps():
            numpy.from_dlpack(block)
            numpy.asarray(block.tensor())
            acre.from_dlpack(block).close()

        block, printed = self.cache.alloc(100), sys.unraisablehook
        sys.unraisablehook = lambda _: None  # what interrupts the end of something
        before = signal.signal(signal.SIGALRM, stop)
        try:
            for turn in range(1500):
                try:
                    signal.setitimer(signal.ITIMER_REAL, 1e-5 + turn * 4e-7)
                    steps()
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except Stop:
                    pass
                try:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                except Stop:
                    pass
        finally:
            signal.signal(signal.SIGALRM, before)
            sys.unraisablehook = printed
        gc.collect()
        self.assertEqual(acre.tensor.users_of(self.cache), 0)  # so that the cache can be closed

    def test_a_copy_and_another_device_are_refused(self):
        block = self.cache.alloc(100)
        own = block.__dlpack_device__()
        for keywords in ({"copy": True}, {"dl_device": (2, 0)}):
            self.assertRaises(BufferError, block.__dlpack__, **keywords)
        for keywords in ({"copy": False}, {"copy": None, "dl_device": None}, {"dl_device": own}):
            self.assertEqual(acre.from_dlpack(block.__dlpack__(**keywords)).address, block.address)

    def test_both_forms_come_back(self):
        for version in (None, (1, 0)):
            block = self.cache.alloc(64)
            taken = acre.from_dlpack(block.__dlpack__(max_version=version))
            self.assertEqual((taken.address, taken.size), (block.address, 64))
            del block
            gc.collect()
            self.assertEqual(acre.tensor.users_of(self.cache), 1)
            taken.close()
            self.assertEqual(live(self.cache), 0)


if __name__ == "__main__":
    unittest.main()
