# SPDX-License-Identifier: MIT
"""The range that cuDNN's choice of algorithms leaves open."""
import pytest

from acre.predict.spread import WIDEST, is_workspace, least, spread
from acre.predict.trace import Trace

MIB = 1 << 20


class Stacks:
    """Frames by number: 1 is a workspace, 2 a result."""

    def frame(self, number):
        return ("conv", "range", 0) if number == 1 else ("conv", "", 0)


def sequence(workspace, result=50 * MIB, layers=4):
    """Layers that each allocate a result, and a workspace while they run."""
    events, address = [], 0
    for _ in range(layers):
        events.append(("alloc", (2,), address, result, 0))
        if workspace:
            events.append(("alloc", (1,), address + 1, workspace, 0))
            events.append(("free", (1,), address + 1, workspace, 0))
        address += 2
    return Trace(events)


def held(trace, **settings):
    return trace.replay(**settings).first["bytes_reserved_peak"]


def test_range_holds_the_least_and_the_most():
    trace, stacks = sequence(8 * MIB), Stacks()
    low, high = spread(trace, stacks, held(trace), 1 << 40, None)
    assert low < held(trace, change=least(stacks)) < held(trace) < high
    assert high - low <= WIDEST * (low + high) / 2 + 2


def test_range_without_a_workspace_is_the_margin():
    trace = sequence(0)
    low, high = spread(trace, Stacks(), held(trace), 1 << 40, None)
    assert (low, high) == pytest.approx((held(trace) * 0.97, held(trace) * 1.03))


def test_range_ends_at_the_card():
    trace = sequence(30 * MIB)
    room = held(trace)
    assert spread(trace, Stacks(), room, room, None)[1] == room


def test_range_is_the_same_each_time():
    trace = sequence(30 * MIB)
    assert len({spread(trace, Stacks(), held(trace), 1 << 40, None) for _ in range(3)}) == 1


def test_workspaces_are_known_by_their_role():
    assert is_workspace(Stacks(), (1, 2)) and not is_workspace(Stacks(), (2, 1))
    assert not is_workspace(Stacks(), ())
