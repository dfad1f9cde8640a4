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
