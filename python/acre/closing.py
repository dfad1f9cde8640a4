# SPDX-License-Identifier: MIT
"""Things that are closed."""
from .error import Error
from .handle import NOBODY, claim, unclaim


def close_all(things):
    """Ends several, or none of them while another thread uses one or one refuses."""
    claimed = []
    try:
        for thing in things:
            handle = thing._handle
            if handle is None:
                continue
            claimed.append((thing, handle))
            if not claim(handle):  # it has ended, or another thread ends it
                claimed.pop()
        for thing, _ in claimed:
            thing._check()
        for thing, handle in claimed:
            thing._end(handle)
            handle.ender = NOBODY  # who still has it gets no further, this thread neither
            thing._handle = None
    except BaseException:
        for thing, handle in claimed:
            unclaim(handle)
            if getattr(handle, "ender", None) == NOBODY:
                thing._handle = None
        raise


class Closing:
    """Owns something of the library until it is closed: by close(), at the end of a with
    statement, or when nobody refers to it any more. Closing twice is harmless, from several
    threads as well; while another thread is in a call that uses it, closing is refused
    (ACRE_ERR_BUSY). Where a with statement ends by an exception, a failure to close does not
    take its place.

    A subclass sets _handle, and ends it in _end(handle), which may raise Error, as _check()
    before it: then it is still open.
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

    def _check(self):
        """Raises Error where it must not end now."""

    def _end(self, handle):
        raise NotImplementedError

    def close(self):
        """Ends it."""
        close_all((self,))

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
        except BaseException:  # a signal's: nobody else would close it
            self._close_after_all()
            raise

    def _close_after_all(self):
        try:
            self.close()
        except Error:
            pass
