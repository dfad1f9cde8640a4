/* SPDX-License-Identifier: MIT */
/* What the frames of a stack say: which line is the user's own, and what the memory is for.
 *
 * The user's own line is the innermost Python frame outside PyTorch, outside installed
 * packages and outside Python's own library. Frames of C++ and of the interpreter are
 * never shown as the user's own. Reports and pages use this one rule.
 *
 *     struct frames frames = FRAMES_NONE;
 *     for (each frame, innermost first)
 *         frames_add(&frames, name, file);
 *     frames.own        position of the user's own line, or -1
 *     frames_category(&frames)
 */
#ifndef SRC_FORMAT_FRAMES_H
#define SRC_FORMAT_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

/* What memory is for, as far as stacks tell: constant, name, plural name. */
#define FRAMES_CATEGORIES(X)                                                   \
    X(CATEGORY_UNKNOWN, "unknown")                                             \
    X(CATEGORY_PARAMETERS, "parameters")                                       \
    X(CATEGORY_GRADIENTS, "gradients")                                         \
    X(CATEGORY_OPTIMIZER, "optimizer state")                                   \
    X(CATEGORY_ACTIVATIONS, "activations")                                     \
    X(CATEGORY_BEFORE, "before the recording")                                 \
    X(CATEGORY_OTHER, "other")

enum frames_category {
#define FRAMES_CONSTANT(constant, name) constant,
    FRAMES_CATEGORIES(FRAMES_CONSTANT)
#undef FRAMES_CONSTANT
    CATEGORY_COUNT
};

/* The file of a frame that is no frame but a note of the program, its name. */
#define FRAMES_NOTE "user_metadata"

/* What kind of frame it is. */
enum frames_kind {
    FRAME_OWN,         /* Python code of the user                       */
    FRAME_LIBRARY,     /* Python code of PyTorch or an installed package */
    FRAME_INTERPRETER, /* Python's own library, or the interpreter      */
    FRAME_NATIVE       /* C or C++                                      */
};

struct frames {
    int32_t count;      /* frames added so far                               */
    int32_t own;        /* position of the user's own line; -1: none so far  */
    int32_t library;    /* position of the innermost frame of a library; -1  */
    uint32_t seen;      /* what was seen in names and files, bits of frames.c */
};

#define FRAMES_NONE ((struct frames){0, -1, -1, 0})

enum frames_kind frames_kind(const char *name, const char *file);
/* Whether a frame says nothing: the recorder itself, the allocator, calls of modules. */
bool frames_is_dull(const char *name);
void frames_add(struct frames *frames, const char *name, const char *file);
enum frames_category frames_category(const struct frames *frames);
/* The category that a note of the program names (user_metadata, an annotation), or
 * CATEGORY_UNKNOWN. */
enum frames_category frames_category_of_text(const char *text);
const char *frames_category_name(enum frames_category category);

#endif
