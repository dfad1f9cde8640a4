# SPDX-License-Identifier: MIT
"""Modules beside the tests can be imported by name."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
