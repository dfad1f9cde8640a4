# SPDX-License-Identifier: MIT
"""The wheel holds compiled libraries, so it is one for this kind of machine."""
from setuptools import setup
from setuptools.dist import Distribution


class Compiled(Distribution):
    """A distribution whose libraries were built before."""

    def has_ext_modules(self) -> bool:
        return True


setup(distclass=Compiled)
