/* SPDX-License-Identifier: MIT */
/* Structs that a caller has filled in, with struct_size as their first member.
 *
 * A smaller struct comes from an older caller and is filled as far as it goes. A larger
 * one comes from a newer caller: it is accepted when the bytes that this library does not
 * know are zero. Nothing is ever written behind what the library knows, so a wrong
 * struct_size cannot damage what lies there. */
#ifndef SRC_BASE_STRUCT_OUT_H
#define SRC_BASE_STRUCT_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define STRUCT_OUT_MOST 65536u /* larger is no size of a struct */

/* Whether a struct of the caller, known bytes here, may be filled in. */
static inline bool struct_out_is_sound(const void *out, size_t least, size_t known)
{
    uint32_t bytes;

    memcpy(&bytes, out, sizeof bytes);
    if (bytes < least || bytes > STRUCT_OUT_MOST)
        return false;
    for (size_t i = known; i < bytes; i++)
        if (((const char *)out)[i] != 0)
            return false;
    return true;
}

/* Fills it in; struct_size stays. */
static inline void struct_out_fill(void *out, const void *from, size_t known)
{
    uint32_t bytes;

    memcpy(&bytes, out, sizeof bytes);
    memcpy(out, from, bytes < known ? bytes : known);
    memcpy(out, &bytes, sizeof bytes);
}

#endif
