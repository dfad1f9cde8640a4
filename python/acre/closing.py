# SPDX-License-Identifier: MIT
"""Things that are closed."""
from .error import Error
from .handle import NOBODY, claim, unclaim


class Closing:
    """Owns something of the library until it is closed: by close(), at the end of a with
    statement, or when nobody refers to it any more. Closing twice is harmless, from several
    threads as well; while another thread is in a call that uses it, closing is refused
    (ACRE_ERR_BUSY). Where a with statement ends by an exception, a failure to close does not
    take its place.

    A subclass sets _handle, and ends it in _end(handle), which may raise Error: then it
    is still open.
    """

    _handle = None

    @property
    def handle(self):
        """What the library knows it by; an Error once it is closed."""
        if self._handle is None:
            raise Error(f"this {type(self).__name__} is closed", "ACRE_ERR_STATE", 14)
        return self._handle

    @property
    def is_closed(self):
        """Whether it is closed."""
        return self._handle is None

    def _end(self, handle):
        raise NotImplementedError

    def close(self):
        """Ends it."""
        handle = self._handle
        if handle is None:
            return
        try:
            if not claim(handle):
                return
            self._end(handle)
        except BaseException:
            unclaim(handle)
            if getattr(handle, "ender", None) == NOBODY:
                self._handle = None
            raise
        handle.ender = NOBODY  # who still has it gets no further, this thread neither
        self._handle = None

    def _facts(self) -> str:
        """What repr() says about it while it is open; a subclass may say more."""
        device = getattr(self, "device", None)
        return f"on {device!r}" if device is not None else "open"

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {'closed' if self.is_closed else self._facts()}>"

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            self.close()
        except Error:
            if kind is None:  # else the user's exception is what matters
                raise

    def __del__(self):
        try:
            self.close()
        except Error:
            pass
