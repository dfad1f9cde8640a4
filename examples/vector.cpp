// SPDX-License-Identifier: MIT
// C++ containers in memory of a cache, and device memory with owners: no call of free.
#include <acre/acre.hpp>

#include <cstdio>
#include <memory_resource>
#include <numeric>
#include <vector>

int main()
{
    acre::device host(ACRE_DEVICE_CPU);
    acre::cache memory(host);
    acre::memory_resource resource(memory);
    {
        std::pmr::vector<long> values(100000, &resource);
        std::iota(values.begin(), values.end(), 1);
        long sum = std::accumulate(values.begin(), values.end(), 0L);
        std::printf("sum %ld, %lld bytes in use\n", sum,
                    static_cast<long long>(memory.stats().allocated_bytes.all.current));
    }
    std::printf("%lld bytes in use after\n",
                static_cast<long long>(memory.stats().allocated_bytes.all.current));

    acre::device device(ACRE_DEVICE_PRIVATE);
    acre::cache cache(device, ACRE_POLICY_DEFAULT, "stitched_memory:False");
    acre::stream stream(device);
    acre::block weights = cache.alloc(1 << 20, stream);
    acre::block moved = std::move(weights);
    try {
        cache.alloc(std::size_t(1) << 50);
    } catch (const acre::out_of_memory &failed) {
        std::printf("refused: %s\n", *failed.what() ? "with a sentence" : "without a word");
    }
    return moved.data() && !weights ? 0 : 1;
}
