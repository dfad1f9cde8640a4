/* SPDX-License-Identifier: MIT */
/* Bodies of the sums; reduce.c includes this once per set of instructions, with KERNEL(name),
 * KERNEL_TARGET and KERNEL_BYTES, the size of a vector, defined. No guard: it is meant to be
 * included several times. */

#define KERNEL_VECTOR(bytes, align) __attribute__((vector_size(bytes), aligned(align), may_alias))
typedef float KERNEL(floats) KERNEL_VECTOR(KERNEL_BYTES, 4);
typedef uint32_t KERNEL(words) KERNEL_VECTOR(KERNEL_BYTES, 4);
typedef uint8_t KERNEL(octets) KERNEL_VECTOR(KERNEL_BYTES, 1);
typedef uint16_t KERNEL(shorts) KERNEL_VECTOR(KERNEL_BYTES / 2, 2);
#undef KERNEL_VECTOR

/* Four vectors at a time, then one, then single elements. */
#define KERNEL_SUM(name, type, vector)                                                   \
    KERNEL_TARGET static void KERNEL(name)(const struct reduction *r)                    \
    {                                                                                    \
        enum { LANES = sizeof(KERNEL(vector)) / sizeof(type) };                          \
        const type *const *from = (const type *const *)r->from;                          \
        type *const *to = (type *const *)r->to;                                          \
        size_t i = 0;                                                                    \
                                                                                         \
        for (; i + 4 * LANES <= r->count; i += 4 * LANES) {                              \
            const KERNEL(vector) *at = (const void *)(from[0] + i);                      \
            KERNEL(vector) a = at[0], b = at[1], c = at[2], d = at[3];                   \
            for (int q = 1; q < r->from_count; q++) {                                    \
                at = (const void *)(from[q] + i);                                        \
                a += at[0];                                                              \
                b += at[1];                                                              \
                c += at[2];                                                              \
                d += at[3];                                                              \
            }                                                                            \
            for (int q = 0; q < r->to_count; q++) {                                      \
                KERNEL(vector) *out = (void *)(to[q] + i);                               \
                out[0] = a;                                                              \
                out[1] = b;                                                              \
                out[2] = c;                                                              \
                out[3] = d;                                                              \
            }                                                                            \
        }                                                                                \
        for (; i + LANES <= r->count; i += LANES) {                                      \
            KERNEL(vector) a = *(const KERNEL(vector) *)(const void *)(from[0] + i);     \
            for (int q = 1; q < r->from_count; q++)                                      \
                a += *(const KERNEL(vector) *)(const void *)(from[q] + i);               \
            for (int q = 0; q < r->to_count; q++)                                        \
                *(KERNEL(vector) *)(void *)(to[q] + i) = a;                              \
        }                                                                                \
        for (; i < r->count; i++) {                                                      \
            type sum = from[0][i];                                                       \
            for (int q = 1; q < r->from_count; q++)                                      \
                sum = (type)(sum + from[q][i]);                                          \
            for (int q = 0; q < r->to_count; q++)                                        \
                to[q][i] = sum;                                                          \
        }                                                                                \
    }

KERNEL_SUM(sum_f32, float, floats)
KERNEL_SUM(sum_i32, uint32_t, words)
KERNEL_SUM(sum_u8, uint8_t, octets)
#undef KERNEL_SUM

KERNEL_TARGET static inline KERNEL(floats) KERNEL(widen)(const uint16_t *from)
{
    KERNEL(shorts) halves = *(const KERNEL(shorts) *)(const void *)from;
    KERNEL(words) wide = __builtin_convertvector(halves, KERNEL(words)) << 16;

    return (KERNEL(floats))wide;
}

/* To the nearest bfloat16, ties to even, as bits of a single; NaN stays NaN. */
KERNEL_TARGET static inline KERNEL(floats) KERNEL(round_bf16)(KERNEL(floats) value)
{
    KERNEL(words) bits = (KERNEL(words))value;
    KERNEL(words) is_nan = (KERNEL(words))((bits & 0x7fffffffu) > 0x7f800000u);
    KERNEL(words) rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
    KERNEL(words) quiet = bits | 0x400000u;

    return (KERNEL(floats))(((quiet & is_nan) | (rounded & ~is_nan)) & 0xffff0000u);
}

KERNEL_TARGET static void KERNEL(sum_bf16)(const struct reduction *r)
{
    const uint16_t *const *from = (const uint16_t *const *)r->from;
    uint16_t *const *to = (uint16_t *const *)r->to;
    enum { LANES = KERNEL_BYTES / 4 };
    size_t i = 0;

    for (; i + LANES <= r->count; i += LANES) {
        KERNEL(floats) sum = KERNEL(widen)(from[0] + i);
        for (int q = 1; q < r->from_count; q++) {
            sum += KERNEL(widen)(from[q] + i);
            if (!r->is_wide)
                sum = KERNEL(round_bf16)(sum);
        }
        if (r->is_wide)
            sum = KERNEL(round_bf16)(sum);
        KERNEL(shorts) out = __builtin_convertvector((KERNEL(words))sum >> 16, KERNEL(shorts));
        for (int q = 0; q < r->to_count; q++)
            *(KERNEL(shorts) *)(void *)(to[q] + i) = out;
    }
    for (; i < r->count; i++) {
        float sum = bfloat_to_float(from[0][i]);
        for (int q = 1; q < r->from_count; q++) {
            sum += bfloat_to_float(from[q][i]);
            if (!r->is_wide)
                sum = bfloat_to_float(float_to_bfloat(sum));
        }
        for (int q = 0; q < r->to_count; q++)
            to[q][i] = float_to_bfloat(sum);
    }
}
