/* SPDX-License-Identifier: MIT */
/* How the structs of the public interface grow: one rule for all of them.
 *
 * Every struct that a caller passes, or has filled in, begins with uint32_t struct_size, which the
 * caller sets to sizeof its own struct. New fields are added at the end, and 0 always means the
 * behaviour from before the field existed. So:
 *
 *   - a struct smaller than the library's comes from an older caller. The missing fields are 0 on
 *     the way in, and are not written on the way out;
 *   - a larger one comes from a newer caller. It is accepted when the fields that the library does
 *     not know are 0, and refused otherwise. They are never written, so that a wrong struct_size
 *     cannot damage what lies behind the struct;
 *   - less than STRUCT_SIZE_LEAST, or more than STRUCT_SIZE_MOST, is no size of a struct: the
 *     caller did not set it.
 *
 * A table of functions differs in one point: it offers, and asks for nothing. Entries that the
 * library does not know are left out, so that a newer backend works with an older library.
 *
 * Structs passed by value (acre_stream, acre_device_id, acre_pool_id) and the elements of arrays
 * (acre_plan_buffer, acre_trace_event) never grow; they have no struct_size.
 */
#ifndef SRC_BASE_STRUCT_SIZE_H
#define SRC_BASE_STRUCT_SIZE_H

#include <acre/base.h>

#include <stddef.h>
#include <stdint.h>

#define STRUCT_SIZE_LEAST 8u
#define STRUCT_SIZE_MOST  65536u

/* What an error message says: the public call, and the type of the struct it was passed. */
struct struct_name {
    const char *call;
    const char *type;
};

#define STRUCT_NAME(call_text, type) (&(struct struct_name){(call_text), #type})

/* Copies the struct that a caller passed into own, and completes own with zeros. own->struct_size
 * becomes own_bytes. Nothing is written on a failure. Errors: ACRE_ERR_INVALID. */
acre_status struct_size_take(const struct struct_name *name, const void *given, void *own,
                             size_t own_bytes);

/* Takes a table of functions: what the library does not know is left out, and half an
 * entry at the end of a shorter table becomes NULL. */
acre_status struct_size_cut(const struct struct_name *name, const void *given, void *own,
                            size_t own_bytes);

/* Checks a struct that struct_size_give is to fill in; NULL is refused too.
 * Errors: ACRE_ERR_INVALID. */
acre_status struct_size_check(const struct struct_name *name, const void *out, size_t own_bytes);

/* Copies own into the struct of a caller as far as that reaches. The caller's struct_size does not
 * change. It must have passed struct_size_check. */
void struct_size_give(void *out, const void *own, size_t own_bytes);

/* The calls for a variable own of the type named. */
#define STRUCT_TAKE(call, type, given, own) \
    struct_size_take(STRUCT_NAME(call, type), given, own, sizeof(type))
#define STRUCT_CUT(call, type, given, own) \
    struct_size_cut(STRUCT_NAME(call, type), given, own, sizeof(type))
#define STRUCT_CHECK(call, type, out) struct_size_check(STRUCT_NAME(call, type), out, sizeof(type))
#define STRUCT_GIVE(type, out, own)   struct_size_give(out, own, sizeof(type))

#endif
