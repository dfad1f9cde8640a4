# SPDX-License-Identifier: MIT
"""Every operation, in groups of 1 to 4 ranks, on CPU tensors and on acre tensors."""
import pytest

import ranks


@pytest.mark.parametrize("device", ["cpu", "acre"])
def test_operations(device):
    ranks.run(f"work_operations:on_{device}", 4)
