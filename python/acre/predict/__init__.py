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
import sys
import types


def predict(function, gpu="a100-40", output=None, **settings):
    """Runs a function on tensors without data and returns the answer: a dictionary, as
    --json prints it. settings are those of acre.predict.options.Options; output names a
    snapshot to write. PyTorch stays changed: make one prediction in a process.
    """
    from .answer import draw
    from .options import Options
    from .session import Session
    session = Session(Options(gpu=gpu, output=output, **settings))
    session.run(function)
    answer = draw(session)[0]
    if output:
        session.ground.write(output)
    return answer


class _Callable(types.ModuleType):
    """The package itself can be called: acre.predict(function)."""

    def __call__(self, function, *args, **settings):
        return predict(function, *args, **settings)


sys.modules[__name__].__class__ = _Callable
