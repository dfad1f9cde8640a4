# SPDX-License-Identifier: MIT
"""Changes to a program that might save memory, tried by running it again with them.

checkpoint   repeated blocks of a model run under torch.utils.checkpoint
bfloat16     forward passes run under autocast to bfloat16
"""
import functools

import torch


def install(name):
    """Puts a change in place."""
    if name == "checkpoint":
        _checkpoint()
    elif name == "bfloat16":
        _bfloat16()


def _blocks(model):
    """Modules that repeat: children of one class in a list or sequence, two or more."""
    for module in model.modules():
        if isinstance(module, (torch.nn.ModuleList, torch.nn.Sequential)):
            children = list(module.children())
            kinds = {type(child) for child in children}
            if len(children) >= 2 and len(kinds) == 1 and any(
                    True for _ in children[0].parameters()) \
                    and sum(1 for _ in children[0].modules()) > 1:
                yield from children


def _checkpoint():
    """Wraps repeated blocks when a model first runs."""
    from torch.utils.checkpoint import checkpoint
    call = torch.nn.Module.__call__
    state = {"depth": 0, "wrapped": set()}

    def run(module, *args, **kwargs):
        if state["depth"] == 0 and id(module) not in state["wrapped"]:
            state["wrapped"].add(id(module))
            for block in _blocks(module):
                if id(block) not in state["wrapped"]:
                    state["wrapped"].add(id(block))
                    block.forward = functools.partial(_again, checkpoint, block.forward)
        state["depth"] += 1
        try:
            return call(module, *args, **kwargs)
        finally:
            state["depth"] -= 1

    torch.nn.Module.__call__ = run


def _again(checkpoint, forward, *args, **kwargs):
    if not torch.is_grad_enabled():
        return forward(*args, **kwargs)
    return checkpoint(forward, *args, use_reentrant=False, **kwargs)


def _bfloat16():
    """Runs the outermost modules under autocast."""
    call = torch.nn.Module.__call__
    state = {"depth": 0}

    def run(module, *args, **kwargs):
        state["depth"] += 1
        try:
            if state["depth"] > 1 or torch.is_autocast_enabled("cuda"):
                return call(module, *args, **kwargs)
            with torch.autocast("cuda", torch.bfloat16):
                return call(module, *args, **kwargs)
        finally:
            state["depth"] -= 1

    torch.nn.Module.__call__ = run
