# SPDX-License-Identifier: MIT
"""Started by Python when "acre exec" or "acre predict" puts this folder in front of PYTHONPATH.

It shows the package acre to the program, and nothing that lies beside that: of an installed
Acre these are the system's packages, and the program has its own. It waits until the program
imports torch or numpy, and then enables Acre there, as the environment asks: ACRE_TORCH_CPU and
ACRE_NUMPY. The folder leaves the path again, and a sitecustomize module of the system runs as if
this one were not there.
"""
import importlib.util
import os
import sys

_FOLDER = os.path.dirname(os.path.abspath(__file__))


def _enable_torch():
    try:
        import torch_acre  # noqa: F401  (reads ACRE_TORCH_CPU by itself)
    except ImportError as reason:
        raise ImportError(f"acre exec --torch-cpu: {reason}; use a Python that has torch_acre, for "
                          "example build/torch/python after \"make torch\"") from reason


def _enable_numpy():
    import acre.numpy
    wish = os.environ["ACRE_NUMPY"]
    acre.numpy.enable(limit_bytes=int(wish[6:]) if wish.startswith("limit:") else None)


class _Package:
    """Finds the package acre around this folder, which need not be on the path for that."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name != "acre":
            return None
        folder = os.path.dirname(_FOLDER)
        return importlib.util.spec_from_file_location(
            name, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder])


class _Loader:
    """Runs a module as its own loader does, and then something more."""

    def __init__(self, loader, then):
        self._loader, self._then = loader, then

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        self._loader.exec_module(module)
        self._then()


class _Finder:
    """Finds the modules that are waited for, once each."""

    def __init__(self, waiting):
        self.waiting = waiting

    def find_spec(self, name, path=None, target=None):
        if name not in self.waiting:
            return None
        then = self.waiting.pop(name)
        spec = importlib.util.find_spec(name)
        if spec is not None:
            spec.loader = _Loader(spec.loader, then)
        return spec


def _start():
    sys.meta_path.insert(0, _Package)
    waiting = {}
    if os.environ.get("ACRE_TORCH_CPU", "0") not in ("", "0"):
        waiting["torch"] = _enable_torch
    if os.environ.get("ACRE_NUMPY", "0") not in ("", "0"):
        waiting["numpy"] = _enable_numpy
    if waiting:
        sys.meta_path.insert(0, _Finder(waiting))


def _go_on():
    """Runs the sitecustomize module behind this one. Without any, Python finds this one."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != _FOLDER]
    own = sys.modules.pop("sitecustomize", None)
    try:
        __import__("sitecustomize")
    except ImportError as reason:
        if reason.name != "sitecustomize":
            raise
    finally:
        if own is not None:  # Python looks for what it has imported
            sys.modules.setdefault("sitecustomize", own)


_start()
_go_on()
