# SPDX-License-Identifier: MIT
"""Running the user's program as Python would: a file, a module (-m) or a text (-c). Of a
program that a launcher starts once for each rank, one is run."""
import builtins
import importlib.util
import os
import runpy
import sys
import traceback
import types

from ..error import Error

_MODULES = ("torch.distributed.run", "torch.distributed.launch")
_HERE = os.path.dirname(os.path.abspath(__file__))


class Outcome:
    """How a program ended: status as a shell sees it, and the error's one line."""

    def __init__(self, status=0, error=None):
        self.status, self.error = status, error


def place(arguments):
    """Has the path of modules begin as it does for a program: with the folder of its file, or
    with the current one for -m and -c. PyTorch's own imports look there too."""
    if sys.path[:1] == [os.getcwd()]:  # put there for "-m acre.predict"
        del sys.path[0]
    own = {"-c": "", "-m": os.getcwd()}.get(arguments[0])
    sys.path.insert(0, os.path.dirname(os.path.realpath(arguments[0])) if own is None else own)


def run_program(arguments):
    """Runs a program and returns its Outcome; errors are printed as Python prints them."""
    try:
        _start(list(arguments))
    except SystemExit as error:
        return ended(error)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever the program raised is its own
        _print(error)
        return Outcome(1, _line(error))
    return Outcome()


def _line(error):
    """An error in one line."""
    if isinstance(error, SyntaxError):
        return traceback.format_exception_only(error)[-1].strip()[:500]
    lines = "".join(traceback.format_exception_only(error)).strip().splitlines()
    return (lines or [type(error).__name__])[0][:500]


def ended(error):
    """The Outcome of a SystemExit."""
    code = error.code
    if code is None or code == 0:
        return Outcome()
    if isinstance(code, int):
        return Outcome(code & 0xFF or 1, f"the program ended with exit status {code}")
    print(code, file=sys.stderr)
    return Outcome(1, f"the program ended: {code}"[:500])


def _start(arguments):
    if arguments[0] == "-c":
        sys.argv = ["-c"] + arguments[2:]
        _execute(compile(arguments[1], "<string>", "exec"), None)
    elif arguments[0] == "-m":
        sys.argv = arguments[1:]
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        _file(arguments)


def _file(arguments):
    path = arguments[0]
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        print(f"{sys.executable}: can't open file '{os.path.abspath(path)}': "
              f"[Errno {error.errno}] {error.strerror}", file=sys.stderr)
        raise SystemExit(2) from None
    sys.argv = arguments
    path = os.path.abspath(path)
    _execute(compile(source, path, "exec"), path)


def _execute(code, path):
    main = types.ModuleType("__main__")
    main.__builtins__ = builtins
    if path:
        main.__file__ = path
        main.__loader__ = importlib.machinery.SourceFileLoader("__main__", path)
    sys.modules["__main__"] = main
    exec(code, main.__dict__)


def _print(error):
    """The traceback without the frames of this package, as if it were not there."""
    kept = []
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        is_ours = file.startswith((_HERE, "<frozen runpy"))
        if is_ours and kept:
            break  # what follows computes shapes; a GPU would have no frames there
        if not is_ours:
            kept.append(trace)
        trace = trace.tb_next
    shown = None
    for trace in reversed(kept):
        shown = types.TracebackType(shown, trace.tb_frame, trace.tb_lasti, trace.tb_lineno)
    sys.stdout.flush()
    traceback.print_exception(type(error), error, shown)


def unwrap(words, world):
    """(the program's own words, ranks of the world) of "torchrun [OPTION...] SCRIPT ..." and
    "-m torch.distributed.run [OPTION...] SCRIPT ..."; other words come back as they are."""
    if os.path.basename(words[0]) == "torchrun":
        rest = words[1:]
    elif words[0] == "-m" and words[1] in _MODULES:
        rest = words[2:]
    else:
        return tuple(words), world
    from torch.distributed.run import get_args_parser
    try:
        found = get_args_parser().parse_args(list(rest))
    except SystemExit:
        raise Error("torchrun's arguments are not understood; give the program itself, with "
                    "--world for the number of ranks", "ACRE_ERR_INVALID", 0) from None
    if world == 1:
        world = _number(found.nnodes) * _number(found.nproc_per_node)
    program = ([] if not found.module else ["-m"]) + [found.training_script]
    return tuple(program + list(found.training_script_args)), world


def _number(text):
    """A count of torchrun: "8", "2:4" (its least), or "gpu" and "auto", which count as 1."""
    first = str(text).partition(":")[0]
    return max(1, int(first)) if first.isdigit() else 1
