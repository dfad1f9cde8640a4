# SPDX-License-Identifier: MIT
"""Holds the device "acre" against the CPU, operator by operator.

    database.py [--whole] [--only NAME] [--part I/N] [--list FILE]

Every entry of PyTorch's operator database is run on sample inputs on the CPU and on
acre, forward and, where the entry supports it, backward. The results are equal bit for
bit, or the operator refuses with an exception, or they differ. Results that are drawn
("random") are only run. "by name" counts entries in which PyTorch itself computes another
way for the device called "cpu". "skipped" are entries without samples that the CPU can
run. The last line counts.

--whole takes every sample, otherwise the first of each type of data. --only NAME runs
the entries of that name, --part I/N each N-th one from the I-th on, counted from 0.
--list FILE writes which entries refused and which differed.

The entries run in a child process. When an operator kills the child, that is a
difference, and the next child goes on behind it.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import warnings

TYPES = ("float32", "int64", "bool", "bfloat16", "complex64")

# Entries whose results are drawn or left uninitialised: small ones may agree by chance.
DRAWN = re.compile(r"^(new_)?empty|bernoulli|dropout|^rand|^normal|multinomial|rrelu|_gaussian"
                   r"|^(uniform|exponential|cauchy|geometric|log_normal)$|poisson$")

# PyTorch's own Python asks for the name "cpu" there and then sums in float32.
BY_NAME = {"nn.functional.linear_cross_entropy.chunked bfloat16",
           "nn.functional.linear_cross_entropy.chunked_none bfloat16"}


# PyTorch's kernel (driver gelsy) reads memory that nobody wrote, so that the CPU itself gives one
# thing and then another. Both sides run with such memory filled, and are then equal.
FILLED = re.compile(r"^linalg\.lstsq")


def copied(torch, value, device):
    """A tensor with the sizes, strides and bytes of value on another device."""
    if value.is_conj():
        return copied(torch, value.conj(), device).conj()
    if value.is_neg():
        return copied(torch, value._neg_view(), device)._neg_view()
    if value.layout != torch.strided or value.is_nested or value.is_quantized:
        return value.detach().to(device).requires_grad_(value.requires_grad)
    flat = torch.tensor([], dtype=value.dtype).set_(value.detach().untyped_storage())
    moved = flat.to(device, copy=True)
    moved = moved.as_strided(value.size(), value.stride(), value.storage_offset())
    return moved.requires_grad_(value.requires_grad)


def mapped(torch, value, function):
    """Applies a function to every tensor in nested lists, tuples and dicts."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, (list, tuple)):
        items = [mapped(torch, item, function) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: mapped(torch, item, function) for key, item in value.items()}
    if isinstance(value, torch.device):
        return function(value)
    return value


def tensors(torch, value):
    """All tensors in a result, in order."""
    found = []
    mapped(torch, value, lambda item: found.append(item) or item)
    return [item for item in found if isinstance(item, torch.Tensor)]


def bits(torch, value):
    """What is compared of a tensor: its type, sizes and bytes."""
    value = value.detach()
    if value.layout != torch.strided:
        value = value.to_dense()
    value = value.to("cpu").resolve_conj().resolve_neg()
    if value.is_quantized:
        value = value.int_repr()
    raw = value.contiguous().reshape(-1).view(torch.uint8) if value.numel() else value
    return (str(value.dtype), tuple(value.shape), raw.numpy().tobytes() if value.numel() else b"")


class Run:
    """One operator on one sample: what it returns, and the gradients of its inputs."""

    def __init__(self, torch, op, sample, device):
        self.torch, self.op, self.device = torch, op, device
        self.inputs = [mapped(torch, part, self.place)
                       for part in (sample.input, list(sample.args), dict(sample.kwargs))]

    def place(self, value):
        if isinstance(value, self.torch.device):
            return self.torch.device(self.device)
        return copied(self.torch, value, self.device)

    def forward(self):
        first, args, kwargs = self.inputs
        if kwargs.get("device") == "cpu":
            kwargs = dict(kwargs, device=self.device)
        self.torch.manual_seed(7)
        self.result = self.op(first, *args, **kwargs)
        return [bits(self.torch, item) for item in tensors(self.torch, self.result)]

    def backward(self):
        leaves = [item for part in self.inputs for item in tensors(self.torch, part)
                  if item.requires_grad and item.is_leaf]
        roots = [item for item in tensors(self.torch, self.result) if item.requires_grad]
        if not leaves or not roots:
            return []
        ones = [self.torch.ones_like(item) for item in roots]
        grads = self.torch.autograd.grad(roots, leaves, ones, allow_unused=True)
        return [bits(self.torch, item) if item is not None else None for item in grads]


def steady(torch, op, sample, gradient):
    """What the CPU gives; None where it gives something else the second time."""
    runs = []
    for seed in (1, 2, 3):
        run = Run(torch, op, sample, "cpu")
        manual_seed, torch.manual_seed = torch.manual_seed, lambda _: manual_seed(seed)
        try:
            runs.append((run.forward(), run.backward() if gradient else []))
        finally:
            torch.manual_seed = manual_seed
    is_steady = runs[0] == runs[1] == runs[2] and not DRAWN.search(op.name)
    return runs[0] if is_steady else None


def compare(torch, op, sample, gradient):
    """"equal", "random", "skipped", or a pair of "refused" or "different" and why."""
    try:
        expected = steady(torch, op, sample, gradient)
    except Exception:
        return "skipped"
    try:
        run = Run(torch, op, sample, "acre")
        found = (run.forward(), run.backward() if gradient else [])
    except Exception as error:
        return ("refused", f"{type(error).__name__}: {str(error).splitlines()[0][:160]}"
                if str(error) else type(error).__name__)
    if expected is None:
        return "random"
    if found[0] != expected[0]:
        return ("different", "forward")
    return "equal" if found[1] == expected[1] else ("different", "backward")


def entries(only, part):
    """Names of all combinations, or of a part of them, in a fixed order."""
    from torch.testing._internal.common_methods_invocations import op_db
    import torch
    first, _, step = part.partition("/")
    chosen = [op for op in op_db if not only or op.name == only]
    for op in chosen[int(first)::int(step)]:
        for name in TYPES:
            dtype = getattr(torch, name)
            if dtype in op.dtypes:
                yield f"{op.full_name} {name}", op, dtype


def work(options):
    """The child: runs entries behind the one named, a line of JSON for each."""
    import torch
    import torch_acre  # noqa: F401, makes the device known
    warnings.simplefilter("ignore")
    skipping = options.behind is not None
    for title, op, dtype in entries(options.only, options.part):
        if skipping:
            skipping = title != options.behind
            continue
        print(json.dumps({"begin": title}), flush=True)
        outcomes = {}
        gradient = (op.supports_autograd and dtype in op.backward_dtypes
                    and (dtype.is_floating_point or dtype.is_complex))
        try:
            samples = list(op.sample_inputs("cpu", dtype, requires_grad=gradient))
        except Exception:
            samples = []
        torch.use_deterministic_algorithms(bool(FILLED.search(op.name)), warn_only=True)
        for sample in samples if options.whole else samples[:1]:
            outcome = compare(torch, op, sample, gradient)
            kind, why = outcome if isinstance(outcome, tuple) else (outcome, "")
            outcomes.setdefault(kind, why)
        if "different" in outcomes and title in BY_NAME:
            outcomes = {"by name": outcomes["different"]}
        for kind in ("different", "by name", "refused", "equal", "random", "skipped"):
            if kind in outcomes:
                print(json.dumps({"end": title, "kind": kind, "why": outcomes[kind]}), flush=True)
                break
        else:
            print(json.dumps({"end": title, "kind": "skipped", "why": "no samples"}), flush=True)


def children(options):
    """Runs children until all entries are through; gives the outcome of each."""
    behind = None
    while True:
        command = [sys.executable, os.path.abspath(__file__), "--child", "--part", options.part]
        command += ["--whole"] if options.whole else []
        command += ["--only", options.only] if options.only else []
        command += ["--behind", behind] if behind else []
        child = subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                                 stderr=subprocess.DEVNULL)
        begun = None
        for line in child.stdout:
            said = json.loads(line)
            begun = said.get("begin")
            if "end" in said:
                yield said
        if child.wait() == 0 and begun is None:
            return
        if begun is None:
            raise SystemExit(f"a child ended with {child.returncode} between two entries")
        yield {"end": begun, "kind": "different", "why": f"ended the process {child.returncode}"}
        behind = begun


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--whole", action="store_true")
    parser.add_argument("--only")
    parser.add_argument("--part", default="0/1")
    parser.add_argument("--list")
    parser.add_argument("--child", action="store_true")
    parser.add_argument("--behind")
    options = parser.parse_args()
    if options.child:
        return work(options)
    counts, lines = {}, []
    for said in children(options):
        counts[said["kind"]] = counts.get(said["kind"], 0) + 1
        if said["kind"] in ("refused", "different"):
            lines.append(f"{said['kind']} {said['end']}: {said['why']}")
            print(lines[-1], flush=True)
    if options.list:
        with open(options.list, "w", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in lines))
    print(", ".join(f"{counts.get(kind, 0)} {kind}" for kind in
                    ("equal", "random", "by name", "refused", "different", "skipped")))
    return 1 if counts.get("different") else 0


if __name__ == "__main__":
    sys.exit(main())
