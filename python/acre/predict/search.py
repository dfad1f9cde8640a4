# SPDX-License-Identifier: MIT
"""The largest value of a flag that fits: the program is run with values in between, by
halving what is left."""
import sys

from .saving import ask


def largest(options):
    """(best value or None, its answer, [(value, reserved, fits)], reason of a failure)."""
    name, _, limits = options.largest.partition("=")
    low, high = (int(part) for part in limits.split(":"))
    tried, best, answer = [], None, None

    def fits(value):
        program = [word.replace("{" + name + "}", str(value)) for word in options.program]
        found, reason = ask(options, [], program)
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
