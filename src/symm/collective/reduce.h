/* SPDX-License-Identifier: MIT */
/* Sums of several arrays, element by element, in the order of the arrays.
 *
 * Written once with the compiler's vectors and built twice: for any processor, and for AVX2
 * with F16C, chosen at run time. Arrays may be misaligned; a destination may be one of the
 * sources, since every vector is read from all before it is written.
 */
#ifndef SRC_SYMM_REDUCE_H
#define SRC_SYMM_REDUCE_H

#include <acre/collective.h>

struct reduction {
    acre_dtype dtype;
    bool is_wide;            /* 16-bit floats: round once at the end          */
    void *const *to;         /* destinations, all of which get the sum        */
    int to_count;
    const void *const *from;
    int from_count;          /* at least 1                                    */
    size_t count;            /* elements                                      */
};

/* Bytes of an element, or 0 for an unknown type. */
size_t dtype_bytes(acre_dtype dtype);
void reduce_run(const struct reduction *reduction);
/* As reduce_run, with instructions that every processor has; tests compare the two. */
void reduce_run_plain(const struct reduction *reduction);
/* Copies between arrays that do not overlap. Of middle sizes with our own vectors: the string
 * instructions that memcpy takes there are many times slower on some processors when both
 * addresses have nearly the same place in their pages, as blocks of several ranks do. */
void copy_bytes(void *to, const void *from, size_t bytes);
/* Multiplies floats in place. */
void reduce_scale(acre_dtype dtype, void *data, size_t count, float by);

float half_to_float(uint16_t half);
uint16_t float_to_half(float value);
float bfloat_to_float(uint16_t bfloat);
uint16_t float_to_bfloat(float value);

#endif
