# SPDX-License-Identifier: MIT
"""The GPU memory of a PyTorch program, predicted without a GPU.

    acre predict --gpu a100-40 -- python train.py --batch 64      the command
    python -m acre.predict --gpu a100-40 train.py --batch 64      the package

    import acre.predict
    answer = acre.predict(function, gpu="a100-40")                in Python, once in a process
    print(answer["reserved_peak_bytes"], answer["verdict"])

docs/PREDICT.md says how it works and what it cannot see. This package needs a CPU build of
PyTorch 2.13; nothing of it is imported before it is used.
"""
from __future__ import annotations

import os
import sys
import types
from typing import Any, Callable

from ..report import Report


class Prediction(Report):
    """The answer of acre.predict: a dictionary that prints as its verdict.

    >>> Prediction({"verdict": "It fits.", "reserved_peak_bytes": 20 << 20})
    <Prediction: It fits.>
    """

    _text = "verdict"


def predict(function: Callable[[], Any], gpu: str = "a100-40",
            output: str | os.PathLike[str] | None = None, **settings: Any) -> Prediction:
    """Runs a function on tensors without data and returns the answer: a dictionary, as
    --json prints it. settings are those of acre.predict.options.Options; output names a
    snapshot to write. PyTorch stays changed: make one prediction in a process.
    """
    from .answer import draw
    from .options import Options
    from .session import Session
    session = Session(Options(gpu=gpu, output=output, **settings))
    session.run(function)
    answer = Prediction(draw(session)[0])
    if output:
        session.ground.write(output)
    return answer


class _Callable(types.ModuleType):
    """The package itself can be called: acre.predict(function)."""

    def __call__(self, function: Callable[[], Any], *args: Any, **settings: Any) -> Prediction:
        return predict(function, *args, **settings)


sys.modules[__name__].__class__ = _Callable
