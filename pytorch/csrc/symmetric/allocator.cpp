/* SPDX-License-Identifier: MIT */
/* The allocator behind torch.distributed._symmetric_memory.empty(), for devices acre and cpu. */
#include "device/runtime.h"
#include "device/status.h"
#include "group/store.h"
#include "symmetric/place.h"

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <map>
#include <mutex>

namespace acre_torch::symm {

using c10d::symmetric_memory::SymmetricMemory;

class Allocator : public c10d::symmetric_memory::SymmetricMemoryAllocator {
  public:
    explicit Allocator(c10::DeviceType type) : type_(type) {}

    void *alloc(size_t size, int device_idx,
                const std::optional<std::string> &group_name) override;
    void free(void *ptr) override;
    size_t get_alloc_size(void *ptr) override;
    c10::intrusive_ptr<SymmetricMemory> rendezvous(
        void *ptr, const std::optional<std::string> &group_name) override;
    bool has_multicast_support(int device_idx) override;
    c10::DeviceType supported_device_type() override { return type_; }
    std::string name() override { return "ACRE"; }
    bool has_allocation(void *ptr) override { return acre_symm_contains(ptr); }
    c10::intrusive_ptr<AcreSymmetricMemory> find(void *ptr, const std::string &group,
                                                 uint64_t *out_number);

  private:
    struct Block {
        int index; /* of its device */
        size_t bytes;
        std::string group;
        std::map<std::string, c10::intrusive_ptr<SymmetricMemory>> handles;
        std::map<std::string, uint64_t> numbers; /* among the meetings of a group */
    };

    std::map<char *, Block>::iterator find_locked(void *ptr);

    c10::DeviceType type_;
    std::mutex mutex_;
    std::map<char *, Block> blocks_;
    std::map<std::string, uint64_t> meetings_; /* of blocks with a group */
};

/* ---- Groups --------------------------------------------------------------------------- */

static std::string inner_name(const std::string &group)
{
    return "torch-symm-" + group;
}

/* The store, rank and size of a process group, or of what set_group_info() told. */
static acre_group_config group_look_up(const std::string &name, acre_store **out_store)
{
    acre_group_config config = {};
    c10::intrusive_ptr<c10d::Store> store;

    try {
        auto group = c10d::resolve_process_group(name);
        config.rank = group->getRank();
        config.world_size = group->getSize();
        store = group->getStore();
    } catch (const c10::Error &) {
        auto &info = c10d::symmetric_memory::get_group_info(name);
        config.rank = info.rank;
        config.world_size = info.world_size;
        store = info.store;
    }
    TORCH_CHECK(store, "Acre: group \"", name, "\" has no store, so its ranks cannot meet; make it "
                "with init_process_group() or new_group()");
    *out_store = group::store_adapt(c10::make_intrusive<c10d::PrefixStore>("acre_symm", store));
    return config;
}

/* Registers a process group with Acre at its first rendezvous. A group of this name that was
 * destroyed and made again has another store: the old one is forgotten then. */
static void group_prepare(const std::string &name)
{
    static std::mutex mutex;
    static auto *known = new std::map<std::string, std::pair<const void *, acre_group *>>;
    std::lock_guard<std::mutex> guard(mutex);
    const void *identity = nullptr;

    try {
        identity = c10d::resolve_process_group(name)->getStore().get();
    } catch (const c10::Error &) {
        identity = c10d::symmetric_memory::get_group_info(name).store.get();
    }
    auto found = known->find(name);
    if (found != known->end() && found->second.first == identity)
        return;
    if (found != known->end()) {
        acre_group_destroy(found->second.second);
        known->erase(found);
    }
    acre_store *store = nullptr;
    acre_group *group = nullptr;
    acre_group_config config = group_look_up(name, &store);
    std::string inner = inner_name(name);
    config.struct_size = sizeof config;
    config.flags = ACRE_GROUP_ALLOW_OVERLAP;
    config.name = inner.c_str();
    config.store_name = "symm";
    config.store = store; /* lives on: handles may meet through it later */
    acre_status status = acre_group_create(&config, &group);
    if (status != ACRE_OK)
        acre_store_destroy(store);
    symm_check(status, "symmetric memory");
    (*known)[name] = {identity, group};
}

/* ---- Blocks --------------------------------------------------------------------------- */

void *Allocator::alloc(size_t size, int device_idx, const std::optional<std::string> &group_name)
{
    acre_symm_config config = {};
    void *out = nullptr;
    int index = device_idx < 0 ? 0 : device_idx;

    config.struct_size = sizeof config;
    if (type_ == c10::DeviceType::PrivateUse1) {
        (void)cache_of(index); /* checks the index */
        config.device = runtime().devices[index];
    }
    symm_check(acre_symm_set_pad_bytes(c10d::symmetric_memory::get_signal_pad_size()),
               "signal pads");
    symm_check(acre_symm_alloc(&config, size, &out), "symmetric memory");
    std::lock_guard<std::mutex> guard(mutex_);
    blocks_[static_cast<char *>(out)] = {index, size, group_name.value_or(""), {}, {}};
    return out;
}

void Allocator::free(void *ptr)
{
    Block gone;

    if (c10d::symmetric_memory::is_finalizing())
        return;
    {
        std::lock_guard<std::mutex> guard(mutex_);
        auto found = blocks_.find(static_cast<char *>(ptr));
        if (found == blocks_.end())
            return;
        gone = std::move(found->second);
        blocks_.erase(found);
    }
    acre_symm_free(ptr);
}

size_t Allocator::get_alloc_size(void *ptr)
{
    size_t bytes = 0;

    symm_check(acre_symm_alloc_size(ptr, &bytes), "the size of symmetric memory");
    return bytes;
}

bool Allocator::has_multicast_support(int device_idx)
{
    return acre_symm_has_multicast(type_ == c10::DeviceType::CPU ? ACRE_DEVICE_CPU
                                                                 : runtime().type,
                                   device_idx);
}

/* The block that holds a pointer. */
std::map<char *, Allocator::Block>::iterator Allocator::find_locked(void *ptr)
{
    auto next = blocks_.upper_bound(static_cast<char *>(ptr));

    if (next == blocks_.begin())
        return blocks_.end();
    --next;
    return static_cast<char *>(ptr) < next->first + next->second.bytes ? next : blocks_.end();
}

c10::intrusive_ptr<SymmetricMemory> Allocator::rendezvous(
    void *ptr, const std::optional<std::string> &group_name)
{
    std::string name, key;
    int index = 0;
    {
        std::lock_guard<std::mutex> guard(mutex_);
        auto found = find_locked(ptr);
        if (found == blocks_.end())
            return nullptr;
        Block &block = found->second;
        name = group_name && !group_name->empty() ? *group_name : block.group;
        TORCH_CHECK(!name.empty(), "Acre: rendezvous: name a group, here or when allocating");
        key = std::to_string(static_cast<char *>(ptr) - found->first) + "@" + name;
        auto handle = block.handles.find(key);
        if (handle != block.handles.end())
            return handle->second;
        index = block.index;
    }
    group_prepare(name);
    acre_symm *symm = nullptr;
    symm_check(acre_symm_rendezvous(ptr, inner_name(name).c_str(), &symm), "rendezvous");
    if (!symm)
        return nullptr;
    acre_symm_info info = {};
    info.struct_size = sizeof info;
    (void)acre_symm_info_get(symm, &info);
    std::vector<int> ranks(static_cast<size_t>(info.world_size));
    for (int r = 0; r < info.world_size; r++)
        ranks[r] = r;
    c10::Device device = type_ == c10::DeviceType::CPU
                             ? c10::Device(type_)
                             : c10::Device(type_, static_cast<c10::DeviceIndex>(index));
    auto made = c10::make_intrusive<AcreSymmetricMemory>(symm, device, std::move(ranks));
    std::lock_guard<std::mutex> guard(mutex_);
    auto found = find_locked(ptr);
    if (found != blocks_.end()) {
        found->second.handles[key] = made;
        if (found->second.numbers.count(name) == 0)
            found->second.numbers[name] = ++meetings_[name];
    }
    return made;
}

c10::intrusive_ptr<AcreSymmetricMemory> Allocator::find(void *ptr, const std::string &group,
                                                        uint64_t *out_number)
{
    std::lock_guard<std::mutex> guard(mutex_);
    auto found = find_locked(ptr);

    if (found == blocks_.end())
        return nullptr;
    Block &block = found->second;
    auto handle = block.handles.find(
        std::to_string(static_cast<char *>(ptr) - found->first) + "@" + group);
    if (handle == block.handles.end())
        return nullptr;
    *out_number = block.numbers[group];
    return c10::dynamic_intrusive_pointer_cast<AcreSymmetricMemory>(handle->second);
}

/* ---- Registration --------------------------------------------------------------------- */

static const c10::intrusive_ptr<Allocator> &allocator_of(bool is_cpu)
{
    static const auto *cpu =
        new c10::intrusive_ptr<Allocator>(c10::make_intrusive<Allocator>(c10::DeviceType::CPU));
    static const auto *device = new c10::intrusive_ptr<Allocator>(
        c10::make_intrusive<Allocator>(c10::DeviceType::PrivateUse1));

    return is_cpu ? *cpu : *device;
}

c10::intrusive_ptr<AcreSymmetricMemory> handle_find(void *ptr, bool is_cpu,
                                                    const std::string &group,
                                                    uint64_t *out_number)
{
    return allocator_of(is_cpu)->find(ptr, group, out_number);
}

static bool allocators_register()
{
    c10d::symmetric_memory::register_allocator(c10::DeviceType::PrivateUse1,
                                               allocator_of(false));
    c10d::symmetric_memory::register_allocator(c10::DeviceType::CPU, allocator_of(true));
    c10d::symmetric_memory::register_availability("ACRE", allocator_of(false));
    return true;
}

[[maybe_unused]] static const bool is_registered = allocators_register();

} // namespace acre_torch::symm
