/* SPDX-License-Identifier: MIT */
/* Sums; see reduce.h. Half precision has conversions of its own in both builds. */
#include "symm/collective/reduce.h"

#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>
#include <stdbool.h>
#define HAS_AVX2 1
#else
#define HAS_AVX2 0
#endif

/* ---- Conversions ------------------------------------------------------------------ */

float bfloat_to_float(uint16_t bfloat)
{
    uint32_t bits = (uint32_t)bfloat << 16;
    float value;

    memcpy(&value, &bits, 4);
    return value;
}

uint16_t float_to_bfloat(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, 4);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return (uint16_t)((bits | 0x400000u) >> 16);
    return (uint16_t)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = (half >> 10) & 31u;
    uint32_t fraction = half & 1023u, bits;
    float value;

    if (exponent == 31)
        bits = sign | 0x7f800000u | fraction << 13 | (fraction ? 0x400000u : 0);
    else if (exponent)
        bits = sign | (exponent + 112) << 23 | fraction << 13;
    else {
        value = (float)fraction * 0x1p-24f;
        memcpy(&bits, &value, 4);
        bits |= sign;
    }
    memcpy(&value, &bits, 4);
    return value;
}

uint16_t float_to_half(float value)
{
    uint32_t bits, sign, rest;

    memcpy(&bits, &value, 4);
    sign = bits >> 16 & 0x8000u;
    rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00u | (rest >> 13 & 0x3ffu));
    if (rest >= 0x477ff000u) /* 65520 and more round to infinity */
        return (uint16_t)(sign | 0x7c00u);
    if (rest < 0x38800000u) { /* subnormal: let the addition round */
        float magnitude, magic = 0.5f;
        uint32_t out;
        memcpy(&magnitude, &rest, 4);
        magnitude += magic;
        memcpy(&out, &magnitude, 4);
        return (uint16_t)(sign | (out - 0x3f000000u));
    }
    rest += 0xfffu + (rest >> 13 & 1u);
    return (uint16_t)(sign | (rest - 0x38000000u) >> 13);
}

/* ---- Kernels ---------------------------------------------------------------------- */

#define KERNEL(name) name##_plain
#define KERNEL_TARGET
#define KERNEL_BYTES 16
#include "symm/collective/reduce_kernels.h"
#undef KERNEL
#undef KERNEL_TARGET
#undef KERNEL_BYTES

static void sum_f16_from(const struct reduction *r, size_t i)
{
    const uint16_t *const *from = (const uint16_t *const *)r->from;
    uint16_t *const *to = (uint16_t *const *)r->to;

    for (; i < r->count; i++) {
        float sum = half_to_float(from[0][i]);
        for (int q = 1; q < r->from_count; q++) {
            sum += half_to_float(from[q][i]);
            if (!r->is_wide)
                sum = half_to_float(float_to_half(sum));
        }
        for (int q = 0; q < r->to_count; q++)
            to[q][i] = float_to_half(sum);
    }
}

#if HAS_AVX2
#define KERNEL(name)  name##_avx2
#define KERNEL_TARGET __attribute__((target("avx2,f16c")))
#define KERNEL_BYTES  32
#include "symm/collective/reduce_kernels.h"

KERNEL_TARGET static __m256 load_half(const uint16_t *from)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from));
}

KERNEL_TARGET static void sum_f16_avx2(const struct reduction *r)
{
    const uint16_t *const *from = (const uint16_t *const *)r->from;
    uint16_t *const *to = (uint16_t *const *)r->to;
    size_t i = 0;

    for (; i + 8 <= r->count; i += 8) {
        __m256 sum = load_half(from[0] + i);
        __m128i out = _mm256_cvtps_ph(sum, _MM_FROUND_TO_NEAREST_INT);
        for (int q = 1; q < r->from_count; q++) {
            sum = _mm256_add_ps(sum, load_half(from[q] + i));
            out = _mm256_cvtps_ph(sum, _MM_FROUND_TO_NEAREST_INT);
            if (!r->is_wide)
                sum = _mm256_cvtph_ps(out);
        }
        for (int q = 0; q < r->to_count; q++)
            _mm_storeu_si128((__m128i *)(void *)(to[q] + i), out);
    }
    sum_f16_from(r, i);
}

/* Whether the processor converts half precision. Not every compiler knows the word for it, so
 * the processor is asked; once, since in a virtual machine that takes microseconds. */
static bool has_f16c(void)
{
    static _Atomic int known; /* 0: not asked, 1: it does not, 2: it does */
    unsigned a, b, c = 0, d;
    int now = atomic_load_explicit(&known, memory_order_relaxed);

    if (now == 0) {
        now = __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C) ? 2 : 1;
        atomic_store_explicit(&known, now, memory_order_relaxed);
    }
    return now == 2;
}
#endif

/* ---- Choice ----------------------------------------------------------------------- */

size_t dtype_bytes(acre_dtype dtype)
{
    static const uint8_t bytes[] = {4, 2, 2, 4, 1};

    return (unsigned)dtype < sizeof bytes ? bytes[dtype] : 0;
}

void reduce_run_plain(const struct reduction *r)
{
    if (r->dtype == ACRE_DTYPE_F32)
        sum_f32_plain(r);
    else if (r->dtype == ACRE_DTYPE_F16)
        sum_f16_from(r, 0);
    else if (r->dtype == ACRE_DTYPE_BF16)
        sum_bf16_plain(r);
    else if (r->dtype == ACRE_DTYPE_I32)
        sum_i32_plain(r);
    else
        sum_u8_plain(r);
}

void reduce_run(const struct reduction *r)
{
#if HAS_AVX2
    if (__builtin_cpu_supports("avx2") && has_f16c()) {
        if (r->dtype == ACRE_DTYPE_F32)
            sum_f32_avx2(r);
        else if (r->dtype == ACRE_DTYPE_F16)
            sum_f16_avx2(r);
        else if (r->dtype == ACRE_DTYPE_BF16)
            sum_bf16_avx2(r);
        else if (r->dtype == ACRE_DTYPE_I32)
            sum_i32_avx2(r);
        else
            sum_u8_avx2(r);
        return;
    }
#endif
    reduce_run_plain(r);
}

void copy_bytes(void *to, const void *from, size_t bytes)
{
    if (bytes < 2048 || bytes > (4u << 20)) {
        if (bytes)
            memcpy(to, from, bytes);
        return;
    }
    reduce_run(&(struct reduction){.dtype = ACRE_DTYPE_U8,
                                   .to = &to,
                                   .to_count = 1,
                                   .from = &from,
                                   .from_count = 1,
                                   .count = bytes});
}

void reduce_scale(acre_dtype dtype, void *data, size_t count, float by)
{
    float *singles = data;
    uint16_t *halves = data;

    for (size_t i = 0; i < count; i++)
        if (dtype == ACRE_DTYPE_F32)
            singles[i] *= by;
        else if (dtype == ACRE_DTYPE_F16)
            halves[i] = float_to_half(half_to_float(halves[i]) * by);
        else
            halves[i] = float_to_bfloat(bfloat_to_float(halves[i]) * by);
}
