# SPDX-License-Identifier: MIT
"""A job that reads its inputs through DataLoader workers: work_loader.py fork|spawn."""
import sys

import torch
from torch.utils.data import DataLoader, Dataset

import torch_acre  # noqa: F401


class Numbers(Dataset):
    """Item i is (8 times i, i)."""

    def __len__(self):
        return 40

    def __getitem__(self, i):
        return torch.full((8,), float(i)), i


def main(method: str) -> None:
    weights = torch.ones(8, device="acre", requires_grad=True)  # the devices run already
    loader = DataLoader(Numbers(), batch_size=4, num_workers=2, pin_memory=True,
                        multiprocessing_context=method, persistent_workers=True)
    side = torch.acre.Stream()
    for _ in range(2):
        seen = []
        for x, labels in loader:
            assert x.is_pinned() and labels.is_pinned() and x.device.type == "cpu"
            with torch.acre.stream(side):
                there = x.to("acre", non_blocking=True)
            torch.acre.current_stream().wait_stream(side)
            there.record_stream(torch.acre.current_stream())
            assert torch.equal((there * weights).sum(1).cpu(), labels * 8.0)
            seen += labels.tolist()
        assert seen == list(range(40))
    print("read", len(seen))


if __name__ == "__main__":
    main(sys.argv[1])
