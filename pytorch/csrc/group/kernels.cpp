/* SPDX-License-Identifier: MIT */
/* Reductions of host memory; see kernels.h. */
#include "group/kernels.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Exception.h>
#include <c10/util/Half.h>
#include <c10/util/complex.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

/* Vectors for every loop; the build as a whole is content with less. */
#pragma GCC optimize("O3")

namespace acre_torch::group {

using PairFunction = void (*)(void *out, const void *a, const void *b, std::size_t count);

namespace baseline {
#include "group/kernels_body.h"
}

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
namespace avx2 {
#include "group/kernels_body.h"

/* Sums of half floats, eight at a time. */
static void half_sum(void *out, const void *a, const void *b, std::size_t count)
{
    auto *to = static_cast<std::uint16_t*>(out);
    const auto *x = static_cast<const std::uint16_t*>(a);
    const auto *y = static_cast<const std::uint16_t*>(b);
    std::size_t i = 0;

    for (; i + 8 <= count; i += 8) {
        __m256 left = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i)));
        __m256 right = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(y + i)));
        __m256 sum = _mm256_add_ps(left, right);
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                         _mm256_cvtps_ph(sum, _MM_FROUND_TO_NEAREST_INT));
    }
    pair_reduce<Half, Sum>(to + i, x + i, y + i, count - i);
}
} /* namespace avx2 */
#pragma GCC pop_options
#endif

static PairFunction pair_of(Reduce reduce, c10::ScalarType type)
{
#if defined(__x86_64__)
    static const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
    if (has_avx2 && type == c10::kHalf && (reduce == Reduce::SUM || reduce == Reduce::AVG))
        return avx2::half_sum;
    if (has_avx2)
        return avx2::pair_find(reduce, type);
#endif
    return baseline::pair_find(reduce, type);
}

static const char *reduce_name(Reduce reduce)
{
    static const char *const names[] = {"SUM", "AVG", "PRODUCT", "MIN", "MAX",
                                        "BAND", "BOR", "BXOR", "PREMUL_SUM"};
    return reduce < std::size(names) ? names[reduce] : "UNUSED";
}

void reduce_check(Reduce reduce, c10::ScalarType type)
{
    TORCH_CHECK_VALUE(reduce != Reduce::PREMUL_SUM,
                      "Acre: ReduceOp.PREMUL_SUM is not offered by process group \"acre\"; "
                      "multiply the tensor first and use ReduceOp.SUM");
    TORCH_CHECK_VALUE(pair_of(reduce, type) != nullptr, "Acre: Cannot use ReduceOp.",
                      reduce_name(reduce), " with tensors of type ", c10::toString(type),
                      "; convert the tensor or use another operation");
}

/* Elements that stay in the first-level cache between two sources. */
static constexpr std::size_t WINDOW_BYTES = 8192;

void reduce_run(void *out, const void *const *sources, int source_count, std::size_t count,
                Reduce reduce, c10::ScalarType type)
{
    PairFunction pair = pair_of(reduce, type);
    std::size_t element = c10::elementSize(type);
    auto at = [element](const void *base, std::size_t i) {
        return static_cast<const char*>(base) + i * element;
    };

    if (source_count == 1) {
        if (out != sources[0])
            std::memcpy(out, sources[0], count * element);
    } else if (source_count == 2) {
        pair(out, sources[0], sources[1], count);
    } else {
        std::size_t block = WINDOW_BYTES / element;
        for (std::size_t i = 0; i < count; i += block) {
            std::size_t some = std::min(block, count - i);
            void *to = static_cast<char*>(out) + i * element;
            pair(to, at(sources[0], i), at(sources[1], i), some);
            for (int s = 2; s < source_count; s++)
                pair(to, to, at(sources[s], i), some);
        }
    }
    if (reduce == Reduce::AVG)
        average_run(out, count, source_count, type);
}

template <class T> static void divide(void *data, std::size_t count, int divisor)
{
    T *at = static_cast<T*>(data);
    for (std::size_t i = 0; i < count; i++)
        at[i] = static_cast<T>(at[i] / static_cast<T>(divisor));
}

template <class T> static void divide_narrow(void *data, std::size_t count, int divisor)
{
    T *at = static_cast<T*>(data);
    for (std::size_t i = 0; i < count; i++)
        at[i] = static_cast<T>(static_cast<float>(at[i]) / static_cast<float>(divisor));
}

void average_run(void *data, std::size_t count, int divisor, c10::ScalarType type)
{
    switch (type) {
    case c10::kFloat: return divide<float>(data, count, divisor);
    case c10::kDouble: return divide<double>(data, count, divisor);
    case c10::kHalf: return divide_narrow<c10::Half>(data, count, divisor);
    case c10::kBFloat16: return divide_narrow<c10::BFloat16>(data, count, divisor);
    case c10::kComplexFloat: return divide<float>(data, count * 2, divisor);
    case c10::kComplexDouble: return divide<double>(data, count * 2, divisor);
    default: TORCH_CHECK_VALUE(false, "Acre: no averages of type ", c10::toString(type));
    }
}

} /* namespace acre_torch::group */
