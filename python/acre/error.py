# SPDX-License-Identifier: MIT
"""What goes wrong."""


class Error(RuntimeError):
    """A call of the library that failed.

    name is the status ("ACRE_ERR_DEVICE_MEMORY"), status its number, native the code of
    the system or the driver behind it, and the text the library's sentence.
    """

    def __init__(self, text, name="ACRE_ERR_INVALID", status=10, native=0):
        super().__init__(f"{name}: {text}")
        self.name = name
        self.status = status
        self.native = native


def choose(table, name, what):
    """The entry of a table by name; an Error that lists the names when there is none."""
    if name not in table:
        names = ", ".join(repr(known) for known in table)
        raise Error(f"{name!r} is no {what}; there are {names}")
    return table[name]
