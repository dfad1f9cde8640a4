# SPDX-License-Identifier: MIT
"""The device exists, allocates and copies."""
import torch

import torch_acre


def test_name_and_count():
    assert torch.accelerator.current_accelerator().type == "acre"
    assert torch.acre.device_count() == 2
    assert torch_acre.TORCH_VERSION == torch.__version__.split("+")[0]


def test_empty_and_copy():
    values = torch.arange(12, dtype=torch.float32).reshape(3, 4)
    there = torch.empty(3, 4, device="acre")
    there.copy_(values)
    assert there.device == torch.device("acre", 0)
    assert torch.equal(there.cpu(), values)
    assert torch.equal(values.to("acre:1").to("acre:0").t().cpu(), values.t())


def test_addition_equals_cpu():
    first, second = torch.randn(100), torch.randn(100)
    assert torch.equal((first.to("acre") + second.to("acre")).cpu(), first + second)
