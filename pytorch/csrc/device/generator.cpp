/* SPDX-License-Identifier: MIT */
#include "device/generator.h"

#include "device/status.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>

#include <mutex>
#include <optional>

namespace acre_torch {
namespace {

int index_check(int index)
{
    int count = runtime_count();

    if (index == -1)
        return current_index();
    TORCH_CHECK(index >= 0 && index < count, "The device index is out of range. It must be in "
                "[0, ", count, "), but got ", index, ".");
    return index;
}

} // namespace

GeneratorImpl::GeneratorImpl(c10::DeviceIndex index, acre_generator *inner)
    : c10::GeneratorImpl(device_at(index),
                         c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      inner_(inner)
{
    if (!inner_)
        status_check(acre_generator_create(ACRE_GENERATOR_PHILOX, {runtime().type, index},
                                           &inner_), "making a generator");
}

GeneratorImpl::~GeneratorImpl()
{
    acre_generator_destroy(inner_);
}

void GeneratorImpl::set_current_seed(uint64_t seed)
{
    status_check(acre_generator_set_seed(inner_, seed), "setting a seed");
}

void GeneratorImpl::set_offset(uint64_t offset)
{
    status_check(acre_generator_set_offset(inner_, offset), "setting an offset");
}

uint64_t GeneratorImpl::get_offset() const
{
    uint64_t offset = 0;

    status_check(acre_generator_get_offset(inner_, &offset), "reading an offset");
    return offset;
}

uint64_t GeneratorImpl::current_seed() const
{
    uint64_t seed = 0;

    status_check(acre_generator_get_seed(inner_, &seed), "reading a seed");
    return seed;
}

uint64_t GeneratorImpl::seed()
{
    uint64_t seed = 0;

    status_check(acre_generator_seed_random(inner_, &seed), "seeding at random");
    return seed;
}

void GeneratorImpl::set_state(const c10::TensorImpl &state)
{
    at::detail::check_rng_state(state);
    status_check(acre_generator_set_state(inner_, state.data(),
                                          static_cast<size_t>(state.numel())),
                 "setting a generator's state");
}

c10::intrusive_ptr<c10::TensorImpl> GeneratorImpl::get_state() const
{
    size_t bytes = acre_generator_state_bytes(inner_);
    at::Tensor state = at::detail::empty_cpu({static_cast<int64_t>(bytes)}, at::kByte);

    status_check(acre_generator_get_state(inner_, state.mutable_data_ptr(), bytes),
                 "reading a generator's state");
    return state.getIntrusivePtr();
}

void GeneratorImpl::graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl> &state)
{
    auto *other = dynamic_cast<GeneratorImpl *>(state.get());
    acre_generator *shared = nullptr;

    TORCH_CHECK(other, "graphsafe_set_state: the state is that of another device type");
    status_check(acre_generator_share(other->inner_, &shared), "sharing a generator's state");
    acre_generator_destroy(inner_);
    inner_ = shared;
}

c10::intrusive_ptr<c10::GeneratorImpl> GeneratorImpl::graphsafe_get_state() const
{
    acre_generator *shared = nullptr;

    status_check(acre_generator_share(inner_, &shared), "sharing a generator's state");
    return c10::make_intrusive<GeneratorImpl>(device().index(), shared);
}

GeneratorImpl *GeneratorImpl::clone_impl() const
{
    acre_generator *copy = nullptr;

    status_check(acre_generator_clone(inner_, &copy), "copying a generator");
    return new GeneratorImpl(device().index(), copy);
}

/* ---- Default generators ----------------------------------------------------------------- */

namespace {

/* What the default generators begin with when somebody seeded them before they were there. */
std::mutex seed_mutex;
std::optional<uint64_t> first_seed;

} // namespace

void generator_seed_first(uint64_t seed)
{
    std::lock_guard<std::mutex> guard(seed_mutex);

    first_seed = seed;
}

const at::Generator &generator_default(c10::DeviceIndex index)
{
    /* Never destroyed: Python objects and other threads may outlive main. */
    static auto *all = [] {
        auto *made = new std::vector<at::Generator>;
        std::lock_guard<std::mutex> guard(seed_mutex);

        for (int i = 0; i < runtime_count(); i++) {
            made->push_back(at::make_generator<GeneratorImpl>(static_cast<c10::DeviceIndex>(i)));
            if (first_seed)
                made->back().set_current_seed(*first_seed);
            else
                made->back().seed();
        }
        return made;
    }();

    return (*all)[index_check(index)];
}

at::Generator generator_new(c10::DeviceIndex index)
{
    return at::make_generator<GeneratorImpl>(
        static_cast<c10::DeviceIndex>(index_check(index)));
}

acre_generator *generator_inner(const std::optional<at::Generator> &generator, int index)
{
    const at::Generator &chosen = generator.has_value() && generator->defined()
        ? *generator : generator_default(static_cast<c10::DeviceIndex>(index));

    TORCH_CHECK(chosen.device().is_privateuseone() && chosen.device().index() == index,
                "Expected a generator of device ", device_at(index), " but found one of ",
                chosen.device());
    return chosen.get<GeneratorImpl>()->inner();
}

at::Generator generator_twin(const std::optional<at::Generator> &generator, int index)
{
    static thread_local at::Generator twin = at::detail::createCPUGenerator();
    uint64_t seed = 0;

    status_check(acre_generator_random64(generator_inner(generator, index), &seed, 1),
                 "drawing a seed");
    twin.set_current_seed(seed);
    return twin;
}

} // namespace acre_torch
