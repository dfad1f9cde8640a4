# SPDX-License-Identifier: MIT
"""What can be asked for, from the command line or from Python."""
import argparse
import dataclasses
import re

# See change.py.
CHANGES = ("checkpoint", "bfloat16")

USAGE = """acre predict [OPTION...] -- python SCRIPT [ARGUMENT...]

Predicts the GPU memory of a PyTorch program without a GPU: runs the program on tensors
that hold no data, and gives what it would have allocated to PyTorch's allocator."""
EXAMPLE = """examples:
  acre predict --gpu a100-40 -- python train.py --batch 64
  acre predict --gpu rtx4090 --largest batch=8:512 -- python train.py --batch {batch}
  acre predict --gpu h100 --world 8 -o rank0.pickle -- python fsdp.py

Exit status: 0 it fits, 1 it does not, 2 bad use, or the program failed."""


@dataclasses.dataclass
class Options:
    """Settings of a prediction.

        >>> Options(gpu="h100").devices
        1
    """
    gpu: str = "a100-40"
    devices: int = 1
    world: int = 1
    rank: int = 0
    conf: str = None
    item: float = 0
    nonzero: float = 0.5
    limit: float = 0
    change: str = None
    json: bool = False
    savings: bool = False
    cards: bool = False
    output: str = None
    largest: str = None
    quiet: bool = False
    gpu_file: str = None
    program: tuple = ()


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        self.exit(2, f"acre predict: {message}; \"acre predict --help\" tells more\n")


def _whole(low, high):
    def read(text):
        try:
            value = int(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"\"{text}\" is not a whole number from {low} to "
                                             f"{high}")
        return value
    return read


def _share(text):
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"\"{text}\" is not a number from 0 to 1")
    return value


def _seconds(text):
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 < value < 1e7:
        raise argparse.ArgumentTypeError(f"\"{text}\" is not a number of seconds above 0")
    return value


def _range(text):
    found = re.fullmatch(r"([A-Za-z_]\w*)=(\d{1,12}):(\d{1,12})", text)
    if not found or not 0 < int(found[2]) <= int(found[3]):
        raise argparse.ArgumentTypeError(f"\"{text}\" is not of the form NAME=LOW:HIGH, such as "
                                         "batch=8:512")
    return text


def parser():
    """The parser of the command line."""
    made = _Parser(prog="acre predict", usage=USAGE.split("\n", 1)[0], epilog=EXAMPLE,
                   description=USAGE.split("\n\n", 1)[1], allow_abbrev=False,
                   formatter_class=argparse.RawDescriptionHelpFormatter)
    add = made.add_argument
    add("--gpu", metavar="NAME", default="a100-40",
        help="the GPU to predict for (a100-40); \"list\" prints the table")
    add("--gpu-file", metavar="FILE", help="a JSON file with more GPUs")
    add("--largest", metavar="NAME=LOW:HIGH", type=_range,
        help="the largest value of {NAME} in the program's arguments that fits")
    add("--json", action="store_true", help="print the answer as JSON; the program's own output "
        "goes to standard error")
    add("-o", "--output", metavar="FILE", help="write the snapshot (.pickle, .json, .gz)")
    add("--savings", action="store_true", help="run again with each change that may save memory")
    add("--cards", action="store_true",
        help="run again for each of the common GPUs, instead of replaying one sequence")
    add("--devices", metavar="N", type=_whole(1, 16), default=1, help="GPUs to show (1)")
    add("--world", metavar="N", type=_whole(1, 1 << 20), default=1,
        help="ranks of torch.distributed (1)")
    add("--rank", metavar="N", type=_whole(0, 1 << 20), default=0, help="the rank to be (0)")
    add("--conf", metavar="TEXT", help="settings of the allocator, as in PYTORCH_ALLOC_CONF")
    add("--item", metavar="0|1", type=_whole(0, 1), default=0,
        help="what .item() and its like answer where the value is not known (0)")
    add("--nonzero", metavar="SHARE", type=_share, default=0.5,
        help="the share of elements that nonzero() and masks find (0.5)")
    add("--limit", metavar="SECONDS", type=_seconds, default=0,
        help="stop the program after SECONDS and report on what ran")
    add("--change", choices=CHANGES, help="run the program with a change")
    add("--quiet", action="store_true", help="no progress")
    add("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    return made


def parse(arguments):
    """Options, and the file of further GPUs."""
    found = parser().parse_args(arguments)
    program = found.program[1:] if found.program[:1] == ["--"] else found.program
    file = found.gpu_file
    values = {name: value for name, value in vars(found).items()
              if name not in ("program", "gpu_file")}
    if found.rank >= found.world:
        parser().error(f"--rank {found.rank} needs a --world above it (it is {found.world})")
    for name in ("savings", "cards"):
        if found.largest and values[name]:
            parser().error(f"--largest does not go with --{name}: ask for it with the value that "
                           "was found")
    return Options(program=tuple(program), **values), file
