# SPDX-License-Identifier: MIT
"""Builds the wheel of python/acre with its libraries inside: a build backend of its own, so that
"pip install ." needs nothing but Python, CMake and a C compiler, and no network.

ACRE_WHEEL_BUILD names a build folder to use instead of a new one.
"""
from __future__ import annotations

import base64
import hashlib
import os
import pathlib
import platform
import re
import subprocess
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARIES = ("libacre.so.0", "libacre_tools.so.0", "libacre_predict.so")


def project() -> dict[str, str]:
    """Name, version and description, from pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return {key: re.search(rf'^{key} = "(.*)"$', text, re.M)[1]
            for key in ("name", "version", "description", "requires-python")}


def metadata() -> str:
    facts = project()
    return (f"Metadata-Version: 2.1\nName: {facts['name']}\nVersion: {facts['version']}\n"
            f"Summary: {facts['description']}\nLicense: MIT\n"
            f"Requires-Python: {facts['requires-python']}\n"
            "Description-Content-Type: text/markdown\n\n"
            + (ROOT / "README.md").read_text(encoding="utf-8"))


def tag() -> str:
    return f"py3-none-linux_{platform.machine()}"


def build_libraries(folder: str) -> dict[str, bytes]:
    """The shared libraries, built in a folder that exists or is new."""
    chosen = os.environ.get("ACRE_WHEEL_BUILD")
    build = pathlib.Path(chosen or folder)
    if not chosen:
        subprocess.run(["cmake", "-S", str(ROOT), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release",
                        "-DACRE_TESTS=OFF"], check=True)
    subprocess.run(["cmake", "--build", str(build), "-j", str(os.cpu_count() or 1), "--target",
                    "acre_shared", "acre_tools_shared", "acre_predict"], check=True)
    return {f"acre/{name}": (build / name).read_bytes() for name in LIBRARIES}


def record_line(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """PEP 517: writes the wheel and returns its name."""
    facts = project()
    info = f"{facts['name']}-{facts['version']}.dist-info"
    with tempfile.TemporaryDirectory() as folder:
        libraries = build_libraries(folder)
    files = {str(path.relative_to(ROOT / "python")): path.read_bytes()
             for path in sorted((ROOT / "python" / "acre").rglob("*"))
             if path.suffix == ".py" or path.name == "py.typed"}
    files.update(libraries)
    files[f"{info}/METADATA"] = metadata().encode()
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: acre\nRoot-Is-Purelib: false\n"
                              f"Tag: {tag()}\n").encode()
    files[f"{info}/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    record = "".join(record_line(name, content) for name, content in files.items())
    name = f"{facts['name']}-{facts['version']}-{tag()}.whl"
    with zipfile.ZipFile(pathlib.Path(wheel_directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, content in files.items():
            wheel.writestr(path, content)
        wheel.writestr(f"{info}/RECORD", record + f"{info}/RECORD,,\n")
    return name


def build_sdist(sdist_directory, config_settings=None):
    """PEP 517: the tree as git has it."""
    facts = project()
    stem = f"{facts['name']}-{facts['version']}"
    path = pathlib.Path(sdist_directory) / f"{stem}.tar.gz"
    subprocess.run(["git", "-C", str(ROOT), "archive", "--format=tar.gz", f"--prefix={stem}/",
                    "-o", str(path), "HEAD"], check=True)
    return path.name
