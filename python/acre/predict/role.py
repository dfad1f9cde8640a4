# SPDX-License-Identifier: MIT
"""Which blocks are parameters, gradients and optimizer state.

PyTorch says so in passing: modules move their parameters, backward passes leave gradients,
optimizers keep state. Each time, the blocks behind those tensors are marked; a mark says
"the block that was live at this address when so many events had happened".
"""
import weakref

import torch
from torch.optim.optimizer import (register_optimizer_step_post_hook,
                                   register_optimizer_step_pre_hook)

from .value import handle_of

PARAMETER, GRADIENT, STATE = "parameters", "gradients", "optimizer state"


class Roles:
    """Watches modules, backward passes and optimizers."""

    def __init__(self, ground):
        self.ground = ground
        self.marks = []
        self._known = {}  # by id: a weak reference to a parameter
        self._seen = set()

    def install(self):
        """Starts watching."""
        move = torch.nn.Module._apply
        start = torch.autograd.graph._engine_run_backward

        def apply(module, function, *args, **kwargs):
            result = move(module, function, *args, **kwargs)
            self._module(module)
            return result

        def run(*args, **kwargs):
            self.ground.stacks.backward = tuple(self.ground.stacks.lines())
            try:
                return start(*args, **kwargs)
            finally:
                self.ground.stacks.backward = ()
                self._gradients()

        torch.nn.Module._apply = apply
        for module in (torch.autograd, torch.autograd.graph):
            module._engine_run_backward = run
        register_optimizer_step_pre_hook(self._before_step)
        register_optimizer_step_post_hook(self._after_step)

    def _mark(self, tensor, role):
        tensor = getattr(tensor, "_local_tensor", tensor)  # of a DTensor
        if isinstance(tensor, torch.Tensor) and tensor.is_cuda \
                and type(tensor) in (torch.Tensor, torch.nn.Parameter):
            data = handle_of(tensor)
            if data and (data, role) not in self._seen:
                self._seen.add((data, role))
                device = tensor.device.index
                self.marks.append((device, self.ground.count(device),
                                   self.ground.block_of(data), role))

    def _know(self, parameter):
        self._known[id(parameter)] = weakref.ref(parameter)

    def _module(self, module):
        self._seen.clear()
        for parameter in module.parameters(recurse=False):
            self._know(parameter)
            self._mark(parameter, PARAMETER)
        for buffer in module.buffers(recurse=False):
            self._mark(buffer, PARAMETER)

    def _gradients(self):
        self._seen.clear()
        for reference in list(self._known.values()):
            parameter = reference()
            if parameter is not None and parameter.grad is not None:
                self._mark(parameter.grad, GRADIENT)

    def _before_step(self, optimizer, args, kwargs):
        self._seen.clear()
        self.ground.stacks.phase = "step"
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                self._know(parameter)
                self._mark(parameter, PARAMETER)
                if parameter.grad is not None:
                    self._mark(parameter.grad, GRADIENT)

    def _after_step(self, optimizer, args, kwargs):
        self._seen.clear()
        self.ground.stacks.phase = ""
        for state in optimizer.state.values():
            for value in state.values() if isinstance(state, dict) else ():
                self._mark(value, STATE)
