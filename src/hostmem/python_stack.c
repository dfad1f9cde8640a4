/* SPDX-License-Identifier: MIT */
/* Stacks of Python as a source for histories.
 *
 * The functions of the interpreter are looked up in the process, so that the library needs
 * no header of Python and serves every version that has them. A frame word is
 *
 *     number of the code object << 32 | line
 *
 * Code objects are numbered when they are first seen and kept alive from then on. The table
 * is guarded by the interpreter's lock, which both functions take. */
#include "base/heap.h"
#include "base/status.h"

#include <acre/hostmem.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* The one list: type of the result, name, parameters. Objects are opaque. */
#define PYTHON_CALLS(X)                                                                            \
    X(int, Py_IsInitialized, (void))                                                               \
    X(int, PyGILState_Ensure, (void))                                                              \
    X(void, PyGILState_Release, (int))                                                             \
    X(void *, PyGILState_GetThisThreadState, (void))                                               \
    X(void *, PyEval_GetFrame, (void))                                                             \
    X(void *, PyFrame_GetBack, (void *))                                                           \
    X(void *, PyFrame_GetCode, (void *))                                                           \
    X(int, PyFrame_GetLineNumber, (void *))                                                        \
    X(void, Py_IncRef, (void *))                                                                   \
    X(void, Py_DecRef, (void *))                                                                   \
    X(void *, PyObject_GetAttrString, (void *, const char *))                                      \
    X(const char *, PyUnicode_AsUTF8, (void *))                                                    \
    X(void, PyErr_Fetch, (void **, void **, void **))                                              \
    X(void, PyErr_Restore, (void *, void *, void *))

static struct {
#define PYTHON_CALL(result, name, parameters) result(*name) parameters;
    PYTHON_CALLS(PYTHON_CALL)
#undef PYTHON_CALL
} python;
static bool has_python;
static pthread_once_t python_once = PTHREAD_ONCE_INIT;

static void python_find(void)
{
    has_python = true;
#define PYTHON_CALL(result, name, parameters)                                                      \
    *(void **)(void *)&python.name = dlsym(RTLD_DEFAULT, #name);                                   \
    has_python &= python.name != NULL;
    PYTHON_CALLS(PYTHON_CALL)
#undef PYTHON_CALL
}

/* ---- Code objects ------------------------------------------------------------------------ */

/* Code objects by number, and a hash table of numbers; all guarded by Python's lock. */
static struct {
    void **codes;
    uint32_t count, capacity;
    uint32_t *slots; /* number + 1, or 0; twice the capacity of codes */
} codes;

static uint32_t slot_of(const void *code)
{
    return (uint32_t)(((uintptr_t)code >> 4) * 0x9E3779B97F4A7C15u >> 32) &
           (2 * codes.capacity - 1);
}

static void slot_fill(uint32_t number)
{
    uint32_t slot = slot_of(codes.codes[number]);

    while (codes.slots[slot])
        slot = (slot + 1) & (2 * codes.capacity - 1);
    codes.slots[slot] = number + 1;
}

/* Room for one more; false: no memory, and nothing has changed. */
static bool codes_grow(void)
{
    uint32_t capacity = codes.capacity ? 2 * codes.capacity : 1024;
    struct status_saved before;
    uint32_t *slots;
    void **grown;

    if (codes.count < codes.capacity)
        return true;
    status_save(&before);
    slots = heap_array((size_t)2 * capacity, sizeof *slots);
    grown = slots ? heap_realloc(codes.codes, capacity * sizeof *grown) : NULL;
    status_restore(&before);
    if (!grown) {
        heap_free(slots);
        return false;
    }
    heap_free(codes.slots);
    codes.codes = grown;
    codes.slots = slots;
    codes.capacity = capacity;
    for (uint32_t i = 0; i < codes.count; i++)
        slot_fill(i);
    return true;
}

/* The number of a code object, which is kept from now on; UINT32_MAX: no memory. */
static uint32_t code_number(void *code)
{
    if (!codes_grow())
        return UINT32_MAX;
    for (uint32_t slot = slot_of(code); codes.slots[slot];
         slot = (slot + 1) & (2 * codes.capacity - 1))
        if (codes.codes[codes.slots[slot] - 1] == code)
            return codes.slots[slot] - 1;
    python.Py_IncRef(code);
    codes.codes[codes.count] = code;
    slot_fill(codes.count);
    return codes.count++;
}

/* ---- The source --------------------------------------------------------------------------- */

static size_t frames_gather(void *arg, uint64_t *frames, size_t capacity)
{
    size_t count = 0;

    (void)arg;
    if (!python.Py_IsInitialized() || !python.PyGILState_GetThisThreadState())
        return 0;
    int state = python.PyGILState_Ensure();
    void *frame = python.PyEval_GetFrame();
    if (frame)
        python.Py_IncRef(frame);
    while (frame && count < capacity) {
        void *code = python.PyFrame_GetCode(frame), *back;
        uint32_t number = code_number(code);
        if (number != UINT32_MAX)
            frames[count++] =
                (uint64_t)number << 32 | (uint32_t)python.PyFrame_GetLineNumber(frame);
        python.Py_DecRef(code);
        back = python.PyFrame_GetBack(frame);
        python.Py_DecRef(frame);
        frame = back;
    }
    if (frame)
        python.Py_DecRef(frame);
    python.PyGILState_Release(state);
    return count;
}

static void attribute_copy(void *object, const char *name, char *out, size_t bytes)
{
    void *text = python.PyObject_GetAttrString(object, name);
    const char *utf8 = text ? python.PyUnicode_AsUTF8(text) : NULL;

    snprintf(out, bytes, "%s", utf8 ? utf8 : "??");
    if (text)
        python.Py_DecRef(text);
}

static void frame_resolve(void *arg, uint64_t frame, acre_frame *out)
{
    uint32_t number = (uint32_t)(frame >> 32);
    void *error[3];

    (void)arg;
    *out = (acre_frame){.name = "??", .file = "??"};
    if (!python.Py_IsInitialized())
        return;
    int state = python.PyGILState_Ensure();
    python.PyErr_Fetch(&error[0], &error[1], &error[2]);
    if (number < codes.count) {
        attribute_copy(codes.codes[number], "co_name", out->name, sizeof out->name);
        attribute_copy(codes.codes[number], "co_filename", out->file, sizeof out->file);
        out->line = (int32_t)(uint32_t)frame;
    }
    python.PyErr_Restore(error[0], error[1], error[2]);
    python.PyGILState_Release(state);
}

const acre_context_source *acre_context_python(void)
{
    static const acre_context_source source = {frames_gather, frame_resolve, NULL};

    pthread_once(&python_once, python_find);
    return has_python ? &source : NULL;
}
