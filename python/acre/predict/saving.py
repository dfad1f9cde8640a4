# SPDX-License-Identifier: MIT
"""Other predictions of the same program. What would save most: each change is tried, by running
the program again with it or by replaying the recorded sequence with other sizes. The largest
value of a flag that fits: the program is run with values in between, by halving what is left."""
import json
import re
import subprocess
import sys

_BATCH = re.compile(r"(--?(?:\w+[-_])*(?:batch|bs|b)(?:[-_]size)?)(?:=(\d+))?$")


def savings(session, answer, trace, peak):
    """A list of changes with what each leaves, the best first."""
    found = [_rerun(session, "activation checkpointing", ["--change", "checkpoint"]),
             _rerun(session, "bfloat16 (autocast)", ["--change", "bfloat16"]),
             _eight_bits(session, trace, peak), _half_batch(session)]
    for saving in found:
        if saving["reserved_peak_bytes"] is not None:
            saving["saves_bytes"] = answer["reserved_peak_bytes"] - saving["reserved_peak_bytes"]
    return sorted(found, key=lambda saving: -(saving.get("saves_bytes") or -1 << 60))


def _entry(name, reserved=None, note=""):
    return {"name": name, "reserved_peak_bytes": reserved, "note": note}


def command(options, extra, program):
    """The command line of another prediction like this one."""
    words = [sys.executable, "-m", "acre.predict", "--json", "--quiet", "--gpu", options.gpu,
             "--devices", str(options.devices), "--world", str(options.world), "--rank",
             str(options.rank), "--item", str(int(options.item)), "--nonzero",
             str(options.nonzero)]
    if options.gpu_file:
        words += ["--gpu-file", options.gpu_file]
    if options.conf:
        words += ["--conf", options.conf]
    if options.limit:
        words += ["--limit", str(options.limit)]
    if options.change and "--change" not in extra:
        words += ["--change", options.change]
    return words + extra + ["--"] + list(program)


def ask(options, extra, program):
    """The answer of another prediction, or the reason why there is none."""
    done = subprocess.run(command(options, extra, program), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        return None, lines[-1] if lines else "no answer"
    if answer.get("script_error"):
        return None, answer["script_error"]
    return answer, ""


def _rerun(session, name, extra):
    answer, note = ask(session.options, extra, session.options.program)
    return _entry(name, answer["reserved_peak_bytes"] if answer else None, note)


def _eight_bits(session, trace, peak):
    """Optimizer state in 8 bits: one byte an element of 4, and a scale for each 256."""
    name = "8-bit optimizer state"
    states = {number for number, role in peak.roles.items() if role == "optimizer state"}
    if not states:
        return _entry(name, None, "no optimizer of torch.optim kept state")

    def smaller(_, size, number):
        if number not in states or size < 4096 * 4:
            return size
        return size // 4 + 4 * -(-size // 1024)

    result = trace.replay(smaller, conf=session.conf)
    return _entry(name, result.first["bytes_reserved_peak"])


def _half_batch(session):
    """The program with half the value of its own flag for the batch size."""
    program = list(session.options.program)
    for index, word in enumerate(program):
        found = _BATCH.fullmatch(word)
        if not found or index == 0:
            continue
        if found[2]:
            value, program[index] = int(found[2]), f"{found[1]}={max(1, int(found[2]) // 2)}"
        elif index + 1 < len(program) and program[index + 1].isdigit():
            value = int(program[index + 1])
            program[index + 1] = str(max(1, value // 2))
        else:
            continue
        if value < 2:
            break
        answer, note = ask(session.options, [], program)
        return _entry(f"half the batch ({value // 2})",
                      answer["reserved_peak_bytes"] if answer else None, note)
    return _entry("half the batch", None, "the program's arguments name no batch size above 1")


def largest(options):
    """(best value or None, its answer, [(value, reserved, fits)]). The snapshot that is wanted
    is that of the best value, or of the lowest where none fits."""
    best, answer, tried = _halve(options)
    if options.output:
        value = tried[-1][0] if best is None else best
        answer, reason = ask(options, ["-o", options.output], _program(options, value))
        if answer is None:
            raise RuntimeError(f"{options.output}: {reason}")
    return best, answer, tried


def _program(options, value):
    """The program's words with a value of what --largest names."""
    name = options.largest.partition("=")[0]
    return [word.replace("{" + name + "}", str(value)) for word in options.program]


def _halve(options):
    name, _, limits = options.largest.partition("=")
    low, high = (int(part) for part in limits.split(":"))
    tried, best, answer = [], None, None

    def fits(value):
        found, reason = ask(options, [], _program(options, value))
        if found is None:
            raise RuntimeError(f"{name} = {value}: {reason}")
        tried.append((value, found["reserved_peak_bytes"], found["fits"]))
        if not options.quiet:
            print(f"acre predict: {name} = {value}: {found['reserved_peak_bytes']:,} bytes, "
                  f"{'fits' if found['fits'] else 'does not fit'}", file=sys.stderr)
        return found

    found = fits(high)
    if found["fits"]:
        return high, found, tried
    found = fits(low) if low < high else found
    if not found["fits"]:
        return None, found, tried
    best, answer = low, found
    while high - best > 1:
        middle = (best + high) // 2
        found = fits(middle)
        if found["fits"]:
            best, answer = middle, found
        else:
            high = middle
    return best, answer, tried
