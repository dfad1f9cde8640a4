/* SPDX-License-Identifier: MIT */
/* What Python calls when an exported tensor ends.
 *
 * A tensor may end while an exception is on its way: NumPy refuses a shape, sets its exception
 * and drops the capsule. Code in Python cannot run then: it would see that exception as its own.
 * So these are functions in C, which set the exception aside.
 *
 * The functions of the interpreter are looked up in the process, as python_stack.c does. */
#include <acre/dlpack.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>

/* The one list: type of the result, name, parameters. Objects are opaque. */
#define CAPSULE_CALLS(X)                                                                           \
    X(int, Py_IsInitialized, (void))                                                               \
    X(int, PyGILState_Ensure, (void))                                                              \
    X(void, PyGILState_Release, (int))                                                             \
    X(int, PyCapsule_IsValid, (void *, const char *))                                              \
    X(void *, PyCapsule_GetPointer, (void *, const char *))                                        \
    X(void, Py_DecRef, (void *))                                                                   \
    X(void, PyErr_Fetch, (void **, void **, void **))                                              \
    X(void, PyErr_Restore, (void *, void *, void *))

static struct {
#define CAPSULE_CALL(result, name, parameters) result(*name) parameters;
    CAPSULE_CALLS(CAPSULE_CALL)
#undef CAPSULE_CALL
} python;
static bool has_python;
static pthread_once_t python_once = PTHREAD_ONCE_INIT;

static void capsule_find(void)
{
    has_python = true;
#define CAPSULE_CALL(result, name, parameters)                                                     \
    *(void **)(void *)&python.name = dlsym(RTLD_DEFAULT, #name);                                   \
    has_python &= python.name != NULL;
    CAPSULE_CALLS(CAPSULE_CALL)
#undef CAPSULE_CALL
}

void acre_dlpack_capsule_destroy(void *capsule)
{
    static const char plain_name[] = "dltensor", versioned_name[] = "dltensor_versioned";
    void *saved[3];

    pthread_once(&python_once, capsule_find);
    if (!has_python || !capsule)
        return;
    python.PyErr_Fetch(&saved[0], &saved[1], &saved[2]);
    /* A taker renames the capsule: then there is nothing to end. */
    if (python.PyCapsule_IsValid(capsule, plain_name)) {
        acre_dl_managed *tensor = python.PyCapsule_GetPointer(capsule, plain_name);
        if (tensor->deleter)
            tensor->deleter(tensor);
    } else if (python.PyCapsule_IsValid(capsule, versioned_name)) {
        acre_dl_versioned *tensor = python.PyCapsule_GetPointer(capsule, versioned_name);
        if (tensor->deleter)
            tensor->deleter(tensor);
    }
    python.PyErr_Restore(saved[0], saved[1], saved[2]);
}

void acre_dlpack_object_drop(void *object, void *data)
{
    void *saved[3];

    (void)data;
    pthread_once(&python_once, capsule_find);
    if (!has_python || !object || !python.Py_IsInitialized())
        return;
    int state = python.PyGILState_Ensure();
    python.PyErr_Fetch(&saved[0], &saved[1], &saved[2]);
    python.Py_DecRef(object);
    python.PyErr_Restore(saved[0], saved[1], saved[2]);
    python.PyGILState_Release(state);
}
