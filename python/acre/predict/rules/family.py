# SPDX-License-Identifier: MIT
"""Which operators may allocate inside, when no rule speaks of them.

An operator that works element by element never does: PyTorch tags it "pointwise". Nor does
one that only fills what it is given, or that returns a view. Any other operator may, so
that it is named in the answer.
"""
import torch

_FILLS = ("aten::normal_", "aten::uniform_", "aten::log_normal_", "aten::cauchy_",
          "aten::geometric_", "aten::resize_", "aten::set_", "aten::record_stream",
          "aten::is_pinned", "aten::_efficientzerotensor", "aten::alias")
_ELEMENTWISE = ("aten::lerp", "aten::glu", "aten::mse_loss", "aten::smooth_l1_loss",
                "aten::huber_loss", "aten::binary_cross_entropy", "aten::polar", "aten::complex",
                "aten::angle", "aten::gcd", "aten::lcm", "aten::special_", "aten::bitwise_",
                "aten::logical_", "aten::kl_div", "aten::hardtanh", "aten::threshold",
                "aten::rrelu", "aten::softplus", "aten::softshrink", "aten::log_sigmoid")
_BACKWARD = ("sigmoid_backward", "tanh_backward", "gelu_backward", "silu_backward",
             "threshold_backward", "elu_backward", "leaky_relu_backward", "hardtanh_backward",
             "hardswish_backward", "hardsigmoid_backward", "mish_backward", "softplus_backward",
             "log_sigmoid_backward", "softshrink_backward", "logit_backward", "glu_backward",
             "native_dropout_backward", "smooth_l1_loss_backward", "mse_loss_backward",
             "huber_loss_backward", "binary_cross_entropy_backward", "_prelu_kernel_backward")


def may_allocate(op):
    """Whether an operator without a rule may allocate memory that nobody sees."""
    name = op._schema.name
    if torch.Tag.pointwise in op.tags or name in _FILLS:
        return False
    if name.partition("::")[2].rstrip("_") in _BACKWARD:
        return False
    return not any(part in name for part in _ELEMENTWISE)
