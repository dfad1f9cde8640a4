#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Workers that Python's multiprocessing makes by fork, while threads of the parent allocate."""
import multiprocessing
import threading
import unittest

import acre

host = acre.Cache(acre.Device("cpu"))
other = acre.Cache(acre.Device("openreg"))
kept = other.alloc(4096)


def work(number):
    """Uses the cache of the parent on host memory; the reference device refuses."""
    block = host.alloc(1000 + number)
    block.write(bytes([number]) * 1000)
    answer = block.read(1000)
    block.close()
    try:
        other.alloc(100)
        name = "none"
    except acre.Error as error:
        name = error.name
    with acre.Cache(acre.Device("cpu")) as own:
        own.alloc(4 << 20).close()
    return sum(answer), name


class Forked(unittest.TestCase):
    def test_workers_made_by_fork(self):
        is_over = threading.Event()

        def hammer():
            while not is_over.is_set():
                blocks = [host.alloc(4096 << i) for i in range(6)]
                for block in blocks:
                    block.close()

        threads = [threading.Thread(target=hammer) for _ in range(2)]
        for thread in threads:
            thread.start()
        try:
            context = multiprocessing.get_context("fork")
            for _ in range(4):
                with context.Pool(3) as pool:
                    found = pool.map_async(work, range(12)).get(timeout=60)
                self.assertEqual(found, [(1000 * i, "ACRE_ERR_FORKED") for i in range(12)])
        finally:
            is_over.set()
            for thread in threads:
                thread.join()
        kept.write(b"parent")
        self.assertEqual(kept.read(6), b"parent")

    def test_a_process_that_ends_with_open_things(self):
        context = multiprocessing.get_context("fork")
        process = context.Process(target=lambda: None)
        process.start()
        process.join(60)
        self.assertEqual(process.exitcode, 0)


if __name__ == "__main__":
    unittest.main()
