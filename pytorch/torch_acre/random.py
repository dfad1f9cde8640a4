# SPDX-License-Identifier: MIT
"""Random numbers of the devices: Philox, one generator a device."""
from typing import Iterable, List, Union

import torch

from torch_acre import _C
from torch_acre._index import Device, index_of


def _generator(device: Device = None) -> torch.Generator:
    return _C._default_generator(index_of(device))


def manual_seed(seed: int) -> None:
    """Seeds the current device's generator.

        >>> torch.acre.manual_seed(7)
        >>> first = torch.rand(2, device="acre")
        >>> torch.acre.manual_seed(7)
        >>> torch.equal(first, torch.rand(2, device="acre"))
        True
    """
    _generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all devices. Starts no device: torch.manual_seed calls it in
    programs that never use one, and those may fork."""
    _C._seed_first(int(seed) % 2**64)
    if not _C._is_started():
        return
    for index in range(_C._device_count()):
        _generator(index).manual_seed(int(seed))


def seed() -> None:
    """Seeds the current device's generator at random."""
    _generator().seed()


def seed_all() -> None:
    """Seeds all generators at random, alike."""
    first = _generator(0).seed()
    for index in range(1, _C._device_count()):
        _generator(index).manual_seed(first)


def initial_seed() -> int:
    """The seed of the current device's generator."""
    return _generator().initial_seed()


def get_rng_state(device: Device = None) -> torch.Tensor:
    """State of a device's generator: 16 bytes, seed and offset."""
    return _generator(device).get_state()


def get_rng_state_all() -> List[torch.Tensor]:
    """States of the generators of all devices."""
    return [get_rng_state(index) for index in range(_C._device_count())]


def set_rng_state(new_state: torch.Tensor, device: Device = None) -> None:
    """Sets the state of a device's generator."""
    _generator(device).set_state(new_state)


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Sets the states of the generators of all devices."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def __getattr__(name: str) -> Union[tuple, None]:
    if name == "default_generators":
        return tuple(_generator(index) for index in range(_C._device_count()))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
