/* SPDX-License-Identifier: MIT */
/* Random numbers: fills by Acre's Philox on the stream, and dropout.
 *
 * Other distributions take the fallback with a CPU generator that is seeded from the device's
 * (device/generator.h), so that the device's seed decides in every case. */
#include "device/generator.h"
#include "device/graph.h"
#include "device/status.h"
#include "ops/fallback.h"
#include "ops/host.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

namespace acre_torch {
namespace {

using Generator = std::optional<at::Generator>;

/* Whether Acre fills the tensor by itself: one piece of floats or doubles. */
bool is_fillable(const at::Tensor &self)
{
    auto info = sized<acre_device_info>();

    return (self.scalar_type() == at::kFloat || self.scalar_type() == at::kDouble) &&
           self.is_non_overlapping_and_dense() &&
           acre_device_info_get(runtime().devices[self.device().index()], &info) == ACRE_OK &&
           ((info.capabilities & ACRE_CAP_KERNELS) || runtime().type == ACRE_DEVICE_CPU);
}

acre_fill fill_of(const at::Tensor &self)
{
    int index = self.device().index();
    acre_fill fill = {};

    fill.device = runtime().devices[index];
    fill.stream = current_native(index);
    fill.dst = self.mutable_data_ptr();
    fill.count = static_cast<size_t>(self.numel());
    fill.type = self.scalar_type() == at::kFloat ? ACRE_REAL_F32 : ACRE_REAL_F64;
    return fill;
}

/* The generator of a fill, which may be captured. */
acre_generator *generator_of(const at::Tensor &self, const Generator &generator)
{
    acre_generator *inner = generator_inner(generator, self.device().index());

    graph_draw(inner, self.device().index());
    return inner;
}

/* The CPU kernel of an operator that fills self with two numbers and a generator. */
at::Tensor &fill_on_host(const char *name, at::Tensor &self, double first, double second,
                         const Generator &generator)
{
    auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
    torch::jit::Stack stack = {self, first, second, generator};

    fallback(op, {}, &stack);
    return self;
}

/* A generator of the device leads here whatever device the tensor is on. */
void self_check(const at::Tensor &self, const Generator &generator)
{
    TORCH_CHECK(is_acre(self), "Expected a generator of device ", self.device(),
                " but found one of ",
                generator && generator->defined() ? generator->device() : self.device());
}

at::Tensor &uniform(at::Tensor &self, double from, double to, Generator generator)
{
    self_check(self, generator);
    TORCH_CHECK(from <= to, "uniform_ expects to return a [from, to) range, but found from=",
                from, " > to=", to);
    if (self.numel() == 0)
        return self;
    if (!is_fillable(self))
        return fill_on_host("aten::uniform_", self, from, to, generator);
    acre_fill fill = fill_of(self);
    status_check(acre_generator_uniform(generator_of(self, generator), &fill, from, to),
                 "filling with random numbers");
    return self;
}

at::Tensor &normal(at::Tensor &self, double mean, double deviation, Generator generator)
{
    self_check(self, generator);
    TORCH_CHECK(deviation >= 0.0, "normal expects std >= 0.0, but found std ", deviation);
    if (self.numel() == 0)
        return self;
    if (!is_fillable(self))
        return fill_on_host("aten::normal_", self, mean, deviation, generator);
    acre_fill fill = fill_of(self);
    status_check(acre_generator_normal(generator_of(self, generator), &fill, mean, deviation),
                 "filling with random numbers");
    return self;
}

std::tuple<at::Tensor, at::Tensor> dropout(const at::Tensor &input, double p,
                                           std::optional<bool> train)
{
    if (input.numel() == 0 || !train.value_or(true))
        return {input.clone(), at::ones_like(input, input.options().dtype(at::kBool))};
    if (p == 1)
        return {at::zeros_like(input), at::zeros_like(input, input.options().dtype(at::kBool))};
    at::Tensor mask = at::empty_like(input, input.options().dtype(at::kBool));

    mask.bernoulli_(1 - p);
    return {input.mul(mask).mul_(1.0 / (1.0 - p)), mask};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    m.impl("uniform_", uniform);
    m.impl("normal_", normal);
    m.impl("native_dropout", dropout);
}

} // namespace
} // namespace acre_torch
