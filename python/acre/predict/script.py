# SPDX-License-Identifier: MIT
"""Running the user's program as Python would: a file, a module (-m) or a text (-c)."""
import builtins
import importlib.util
import os
import runpy
import sys
import traceback
import types

_HERE = os.path.dirname(os.path.abspath(__file__))


class Outcome:
    """How a program ended: status as a shell sees it, and the error's one line."""

    def __init__(self, status=0, error=None):
        self.status, self.error = status, error


def run_program(arguments):
    """Runs a program and returns its Outcome; errors are printed as Python prints them."""
    try:
        _start(list(arguments))
    except SystemExit as ended:
        return _ended(ended)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever the program raised is its own
        _print(error)
        return Outcome(1, "".join(traceback.format_exception_only(error)).strip()[-500:])
    return Outcome()


def _ended(ended):
    code = ended.code
    if code is None or code == 0:
        return Outcome()
    if isinstance(code, int):
        return Outcome(code & 0xFF or 1, f"the program ended with exit status {code}")
    print(code, file=sys.stderr)
    return Outcome(1, f"the program ended: {code}"[:500])


def _start(arguments):
    if arguments[0] == "-c":
        sys.argv = ["-c"] + arguments[2:]
        sys.path.insert(0, "")
        _execute(compile(arguments[1], "<string>", "exec"), None)
    elif arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path.insert(0, os.getcwd())
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
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
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
