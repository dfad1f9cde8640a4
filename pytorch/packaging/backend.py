# SPDX-License-Identifier: MIT
"""Builds the wheel of torch_acre: setuptools packs what CMake has built.

PyTorch's headers and libraries come from the package torch of the environment that is installed
into, or from the folder that TORCH_ROOT names. Acre itself is built from the repository around
this folder.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

from setuptools import build_meta
from setuptools.build_meta import *  # noqa: F401,F403  (the hooks that stay as they are)

HERE = pathlib.Path(__file__).resolve().parents[1]
TORCH = "2.13.0"


def torch_root() -> pathlib.Path:
    """Where the package torch lies; it need not be imported for that."""
    if "TORCH_ROOT" in os.environ:
        return pathlib.Path(os.environ["TORCH_ROOT"])
    # pip builds apart from the environment, whose packages are where sysconfig says.
    for folder in (*sys.path, sysconfig.get_path("purelib"), sysconfig.get_path("platlib")):
        if (pathlib.Path(folder) / "torch" / "include").is_dir():
            return pathlib.Path(folder) / "torch"
    raise RuntimeError(f"torch_acre is built against torch=={TORCH}, which this environment does "
                       "not have; pip install it first, "
                       "or set TORCH_ROOT to the folder of the package torch")


def libraries_build() -> None:
    """Puts libacre.so, libacre_tools.so, libtorch_acre.so and _C.so into the package."""
    source, build = HERE.parent, HERE / "build"
    package = HERE / "torch_acre"

    def run(*command: str) -> None:
        subprocess.run(command, check=True)

    if not (source / "include" / "acre" / "acre.h").exists():
        raise RuntimeError(f"torch_acre is built inside Acre's repository, but {source} is "
                           "another folder; run pip install ./pytorch there")
    run("cmake", "-S", str(source), "-B", str(build / "acre"), "-DCMAKE_BUILD_TYPE=Release",
        "-DACRE_TESTS=OFF", "-DACRE_BENCH=OFF")
    run("cmake", "--build", str(build / "acre"), "-j", str(os.cpu_count() or 2), "--target",
        "acre_shared", "acre_tools_shared")
    for stem in ("libacre_tools", "libacre"):
        library = next(path for path in sorted((build / "acre").glob(f"{stem}.so*"))
                       if not path.is_symlink())
        name = next(path.name for path in (build / "acre").glob(f"{stem}.so.?"))
        shutil.copy2(library, package / name)
    run("cmake", "-S", str(HERE), "-B", str(build / "torch"), f"-DTORCH_ROOT={torch_root()}",
        f"-DPYTHON_INCLUDE={sysconfig.get_path('include')}", f"-DACRE_LIBRARY={package / name}",
        f"-DACRE_INCLUDE={source / 'include'}", f"-DPACKAGE_FOLDER={package}")
    run("cmake", "--build", str(build / "torch"), "-j", str(os.cpu_count() or 2))


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """The hook that pip calls."""
    libraries_build()
    return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
