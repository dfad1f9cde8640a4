# SPDX-License-Identifier: MIT
"""Trainings over process group "acre" equal those over gloo; see work_training.py."""
import pytest

import ranks


@pytest.mark.parametrize("device", ["cpu", "acre"])
def test_ddp_and_pipeline(device):
    ranks.run(f"work_training:on_{device}", 4)


@pytest.mark.parametrize("size", [2, 4])
def test_sharded(size):
    ranks.run("work_training:sharded", size)
