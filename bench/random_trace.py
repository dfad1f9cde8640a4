#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes a trace of random allocations, the same one again from the same seed.

    bench/random_trace.py [--seed N] [--events N] [--live N] > FILE

Sizes are from 512 B to 64 MiB, each magnitude as likely as any other; at most so many are live.
"""
import argparse
import math
import random
import sys

SMALLEST, LARGEST = 512, 64 << 20


def events(number, count, most):
    """Lines of the trace, one by one."""
    live, slot = [], 0
    for _ in range(count):
        if live and (len(live) >= most or number.random() < 0.45):
            at = number.randrange(len(live))
            live[at], live[-1] = live[-1], live[at]
            yield f"f {live.pop()}\n"
        else:
            slot += 1
            size = int(math.exp(number.uniform(math.log(SMALLEST), math.log(LARGEST))))
            yield f"a {slot} {size} 0\n"
            live.append(slot)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--events", type=int, default=100000)
    parser.add_argument("--live", type=int, default=1000)
    options = parser.parse_args()
    sys.stdout.writelines(events(random.Random(options.seed), options.events, options.live))


main()
