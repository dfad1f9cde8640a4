# SPDX-License-Identifier: MIT
"""Symmetric memory in PyTorch, in groups of 2, 3, 4 and 8 ranks; see work_symmetric.py."""
import pytest

import ranks


@pytest.mark.parametrize("device", ["acre", "cpu"])
def test_symmetric_memory(device):
    ranks.run(f"work_symmetric:on_{device}", 8)


def test_the_group_reduces_in_place():
    ranks.run("work_symmetric:in_place", 3)
