/* SPDX-License-Identifier: MIT */
/* Random numbers of a device: c10::GeneratorImpl over Acre's Philox. */
#pragma once

#include "device/runtime.h"

#include <ATen/core/Generator.h>

namespace acre_torch {

/* A generator of a device. The state is 16 bytes: seed and offset. */
struct TORCH_ACRE_API GeneratorImpl final : c10::GeneratorImpl {
    explicit GeneratorImpl(c10::DeviceIndex index, acre_generator *inner = nullptr);
    ~GeneratorImpl() override;

    void set_current_seed(uint64_t seed) override;
    void set_offset(uint64_t offset) override;
    uint64_t get_offset() const override;
    uint64_t current_seed() const override;
    uint64_t seed() override;
    void set_state(const c10::TensorImpl &state) override;
    c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
    void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl> &state) override;
    c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;

    acre_generator *inner() const
    {
        return inner_;
    }
    static c10::DeviceType device_type()
    {
        return c10::DeviceType::PrivateUse1;
    }

private:
    GeneratorImpl *clone_impl() const override;
    acre_generator *inner_ = nullptr;
};

/* The generator of a device that serves everybody who names none; index -1: the current one. */
TORCH_ACRE_API const at::Generator &generator_default(c10::DeviceIndex index);

/* Seeds the default generators of all devices as soon as they are made, without starting a
 * device. Has no effect on those that are there already. */
TORCH_ACRE_API void generator_seed_first(uint64_t seed);

/* A new generator with the default seed. */
TORCH_ACRE_API at::Generator generator_new(c10::DeviceIndex index);

/* Acre's generator behind one of PyTorch's, or behind the default one of a device. Throws
 * when the generator belongs to another device type. */
acre_generator *generator_inner(const std::optional<at::Generator> &generator, int index);

/* A CPU generator seeded with the next number of a device's generator, for CPU kernels. One
 * per thread: the next call seeds the generator anew. */
at::Generator generator_twin(const std::optional<at::Generator> &generator, int index);

} // namespace acre_torch
