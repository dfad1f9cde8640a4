# SPDX-License-Identifier: MIT
"""python -m acre.predict [OPTION...] SCRIPT [ARGUMENT...]"""
import contextlib
import json
import os
import re
import sys
import threading

os.environ.setdefault("TORCH_DEVICE_BACKEND_AUTOLOAD", "0")

from ..error import Error
from .gpu import find_gpu, list_gpus, load_gpus
from .options import parse
from .script import ended, place, unwrap

UNASKED = 60  # seconds of a program that is run again without being asked to
_INTERPRETER = re.compile(r"(python|pypy)(\d+(\.\d+)*)?$")


def main(arguments=None):
    """Runs the command; returns its exit status."""
    options, file = parse(sys.argv[1:] if arguments is None else arguments)
    options.gpu_file = file
    try:
        if file:
            load_gpus(file)
        if options.gpu == "list":
            print(list_gpus())
            return 0
        find_gpu(options.gpu)
        options.program, options.world = unwrap(_without_interpreter(options.program),
                                                options.world)
        if options.largest:
            return _largest(options)
        place(options.program)
        return _predict(options)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        print(f"acre predict: {sys.executable} has no PyTorch; name the interpreter that has it, "
              "such as acre predict -- env/bin/python train.py", file=sys.stderr)
        return 2
    except (Error, ImportError, RuntimeError) as error:
        print(f"acre predict: {error}", file=sys.stderr)
        return 2


def _without_interpreter(program):
    """The program's words without the name of the interpreter, which is this one."""
    words = list(program)
    if words and _INTERPRETER.match(os.path.basename(words[0])):
        words = words[1:]
    while words and words[0] in ("-u", "-B", "-I", "-E", "-s", "-O"):
        words = words[1:]
    if not words or (words[0] in ("-m", "-c") and len(words) < 2):
        raise Error("a program is needed: acre predict [OPTION...] -- python SCRIPT "
                    "[ARGUMENT...]", "ACRE_ERR_INVALID", 0)
    if words[0].startswith("-") and words[0] not in ("-m", "-c"):
        raise Error(f"Python's option \"{words[0]}\" is not supported; -m, -c, -u, -B, -I, -E, -s "
                    "and -O are", "ACRE_ERR_INVALID", 0)
    return tuple(words)


def _predict(options):
    from .script import run_program
    from .session import Session
    _check_output(options.output)
    session = Session(options)
    with contextlib.ExitStack() as around:
        around.enter_context(_progress(session, options))
        around.enter_context(_output(options))

        def leave(status):
            session.end()
            around.close()
            return _answer(session, ended(SystemExit(status)))

        with _exits(leave):
            outcome = session.run(lambda: run_program(options.program))
    return _answer(session, outcome)


@contextlib.contextmanager
def _exits(answer):
    """Has os._exit, with which programs end that do not wait for their threads, give the answer
    first. Children of a fork end by it too, and give none."""
    end, process = os._exit, os.getpid()

    def leave(status):
        if os.getpid() != process:
            end(status)
        os._exit, given = end, 2
        try:
            sys.stdout.flush()
            given = answer(status)
        finally:
            end(given)

    os._exit = leave
    try:
        yield
    finally:
        os._exit = end


def _answer(session, outcome):
    """Prints the answer; returns the exit status."""
    from .answer import draw, text
    options = session.options
    answer, trace, peak = draw(session, outcome)
    found = None
    if options.savings or _is_worth_saving(options, answer, outcome):
        from .saving import savings
        found = answer["savings"] = savings(session, answer, trace, peak)
    if options.cards:
        from .card import run_cards
        answer["cards"] = run_cards(options)
    if options.output:
        session.ground.write(options.output)
        answer["snapshot"] = options.output
    print(json.dumps(answer) if options.json else text(answer, found))
    sys.stdout.flush()
    if outcome is not None and outcome.status:
        return 2
    return 0 if answer["fits"] else 1


def _is_worth_saving(options, answer, outcome):
    """Whether what would save memory is computed unasked: when the program does not fit, for
    people, and when running it again takes no long time."""
    return not (answer["fits"] or options.json or answer["stopped"]
                or (outcome is not None and outcome.error)) and answer["seconds"] <= UNASKED


def _check_output(path):
    """Fails before the program runs when the snapshot cannot be written after it."""
    folder = os.path.dirname(os.path.abspath(path)) if path else None
    if folder and not os.access(folder, os.W_OK):
        raise Error(f"{path}: the folder is not there or cannot be written to; choose another",
                    "ACRE_ERR_IO", 0)


@contextlib.contextmanager
def _output(options):
    """With --json, what the program prints goes to standard error."""
    if not options.json:
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


@contextlib.contextmanager
def _progress(session, options):
    """A line on a terminal, once a second, from the second on."""
    if options.quiet or not sys.stderr.isatty():
        yield
        return
    ended = threading.Event()

    def show():
        while not ended.wait(1):
            print("\r\033[K" + session.progress(), end="", file=sys.stderr, flush=True)
        print("\r\033[K", end="", file=sys.stderr, flush=True)

    thread = threading.Thread(target=show, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _largest(options):
    from .answer import size_text
    from .saving import largest
    name = options.largest.partition("=")[0]
    if not any("{" + name + "}" in word for word in options.program):
        raise Error(f"--largest {options.largest} needs {{{name}}} in the program's arguments",
                    "ACRE_ERR_INVALID", 0)
    _check_output(options.output)
    best, answer, tried = largest(options)
    if options.json:
        print(json.dumps({"name": name, "largest": best, "answer": answer, "tried": [
            {"value": value, "reserved_peak_bytes": held, "fits": fits}
            for value, held, fits in tried]}))
    elif best is None:
        print(f"No value of {name} fits: with {tried[-1][0]}, {answer['verdict'][0].lower()}"
              f"{answer['verdict'][1:]}")
    else:
        print(f"The largest {name} that fits is {best}, with "
              f"{size_text(answer['reserved_peak_bytes'])} held by the allocator "
              f"({len(tried)} values tried).")
        print(answer["verdict"])
    return 0 if best is not None else 1


if __name__ == "__main__":
    try:
        STATUS = main()
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the answer had enough of it
        STATUS = 2
    # The program's threads and tensors end with the process, in no order.
    os._exit(STATUS)
