# SPDX-License-Identifier: MIT
"""Answers of the tools: dictionaries that print as a person would write them."""
from __future__ import annotations

from typing import Any, Iterator

# Instead of the number of a device: the one where a request failed, else the one that
# holds most memory.
CHOOSE = 0xFFFFFFFF


def size_text(count: int) -> str:
    """A number of bytes for people.

    >>> size_text(1 << 20), size_text(1536), size_text(17)
    ('1 MiB', '1.50 KiB', '17 B')
    """
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    scale = 0
    while scale < 4 and abs(count) >= 1024 ** (scale + 1):
        scale += 1
    whole, rest = divmod(count, 1024 ** scale)
    return f"{whole} {units[scale]}" if not rest else f"{count / 1024 ** scale:.2f} {units[scale]}"


def items(pointer: Any, count: int, plain: Any) -> list[dict[str, Any]]:
    """The elements of an array of C, as dictionaries."""
    return [plain(pointer[i]) for i in range(count)]


class Report(dict):
    """A dictionary with a paragraph, which is what it prints as.

    >>> report = Report({"text": "All is well.", "device": 0})
    >>> print(report)
    All is well.
    >>> report["device"]
    0
    """

    _text = "text"

    def __str__(self) -> str:
        return str(self.get(self._text, ""))

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self}>"

    def __dir__(self) -> Iterator[str]:
        return iter([*super().__dir__(), *self])
