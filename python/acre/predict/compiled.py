# SPDX-License-Identifier: MIT
"""What a prediction takes for something else, or refuses by name."""
import functools

import torch


def install(remarks):
    """torch.compile runs eagerly; nn.DataParallel and CUDA graphs are named."""
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
    torch.jit.script = lambda obj, *args, **kwargs: obj
    _install_graphs(remarks)


def _remark(remarks, text):
    if text not in remarks:
        remarks.append(text)


def _install_graphs(remarks):
    class CUDAGraph:
        """A graph whose work is done while it is captured."""

        def __init__(self, keep_graph=False):
            _remark(remarks, "CUDA graphs: the private pool of a capture is not modelled")

        def capture_begin(self, *args, **kwargs):
            """Nothing begins: operators run as they come."""

        def capture_end(self):
            """Nothing ends."""

        def replay(self):
            """The work was done at capture."""

        def reset(self):
            """Nothing is kept."""

        def pool(self):
            return (0, 0)

    class Capture:
        def __init__(self, graph, pool=None, stream=None, **_):
            self.graph = graph

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return False

    torch.cuda.CUDAGraph = torch.cuda.graphs.CUDAGraph = CUDAGraph
    torch.cuda.graph = torch.cuda.graphs.graph = Capture
    torch.cuda.graph_pool_handle = torch.cuda.graphs.graph_pool_handle = lambda: (0, 0)
    torch.cuda.make_graphed_callables = lambda callables, *args, **kwargs: callables
