# SPDX-License-Identifier: MIT
"""What a prediction takes for something else, or refuses by name."""
import functools

import torch


def install(remarks):
    """torch.compile runs eagerly; nn.DataParallel is refused."""
    def compile_(model=None, **options):
        if model is None:
            return functools.partial(compile_, **options)
        _remark(remarks, "torch.compile: taken as eager execution, which needs at least as many "
                "intermediate results")
        return model

    def refuse(self, *args, **kwargs):
        raise NotImplementedError(
            "acre predict: nn.DataParallel is not supported, because it copies the model in one "
            "process; use DistributedDataParallel with --world")

    torch.compile = compile_
    torch.nn.Module.compile = lambda module, *args, **kwargs: _remark(
        remarks, "Module.compile: taken as eager execution")
    torch.nn.DataParallel.__init__ = refuse
    torch.compiler.cudagraph_mark_step_begin = lambda: None
    torch.jit.script = lambda obj, *args, **kwargs: obj


def _remark(remarks, text):
    if text not in remarks:
        remarks.append(text)
