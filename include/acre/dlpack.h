/* SPDX-License-Identifier: MIT */
/** @file dlpack.h
 *  @brief Memory handed to and taken from other frameworks by DLPack.
 *
 * DLPack is an agreement about a few structs in memory, which NumPy, PyTorch and
 * many others follow: a tensor, whoever owns it, and a function that ends its life.
 * The declarations here are Acre's own, with the layout of DLPack 1.1, so that no
 * header of DLPack is needed; acre_dl_managed is its DLManagedTensor (what Python
 * calls the capsule "dltensor"), acre_dl_versioned its DLManagedTensorVersioned
 * ("dltensor_versioned").
 *
 * An @ref acre_data_ptr becomes a tensor by acre_to_dlpack(), which takes ownership;
 * a tensor becomes an @ref acre_data_ptr by acre_from_dlpack(), which does too.
 *
 * Threads: any call from any thread; one tensor by one thread at a time.
 *
 * Fork: a child may read and delete tensors of host memory; memory of a device is the parent's
 * (acre/base.h).
 */
#ifndef ACRE_DLPACK_H
#define ACRE_DLPACK_H

#include <acre/allocator.h>

ACRE_BEGIN_DECLS

/** The version whose layout this header describes. */
#define ACRE_DLPACK_MAJOR 1
#define ACRE_DLPACK_MINOR 1 /**< Within it, the additions that are known. */

/** Most dimensions that are accepted. */
#define ACRE_DLPACK_DIMS_MAX 64

/** Kinds of device, with DLPack's numbers. */
typedef enum acre_dl_device_type {
    ACRE_DL_CPU = 1,           /**< Host memory.                                  */
    ACRE_DL_CUDA = 2,          /**< NVIDIA.                                       */
    ACRE_DL_CUDA_HOST = 3,     /**< Host memory locked for CUDA: imported as host. */
    ACRE_DL_OPENCL = 4,        /**< OpenCL.                                       */
    ACRE_DL_ROCM = 10,         /**< AMD.                                          */
    ACRE_DL_ROCM_HOST = 11,    /**< Host memory locked for AMD: imported as host. */
    ACRE_DL_EXTENSION = 12,    /**< Others; the reference device.                 */
    ACRE_DL_CUDA_MANAGED = 13, /**< Managed memory: imported as CUDA.             */
} acre_dl_device_type;

/** Kinds of number, with DLPack's numbers. */
typedef enum acre_dl_code {
    ACRE_DL_INT = 0,     /**< Signed whole numbers.   */
    ACRE_DL_UINT = 1,    /**< Unsigned whole numbers. */
    ACRE_DL_FLOAT = 2,   /**< IEEE floating point.    */
    ACRE_DL_OPAQUE = 3,  /**< Handles.                */
    ACRE_DL_BFLOAT = 4,  /**< bfloat16.               */
    ACRE_DL_COMPLEX = 5, /**< Pairs of floats.        */
    ACRE_DL_BOOL = 6,    /**< Truth values.           */
} acre_dl_code;

/** DLDevice. */
typedef struct acre_dl_device {
    int32_t type;  /**< A number of @ref acre_dl_device_type, or one unknown here. */
    int32_t index; /**< From 0.                                                    */
} acre_dl_device;

/** DLDataType: what one element is. */
typedef struct acre_dl_type {
    uint8_t code;   /**< A number of @ref acre_dl_code, or one unknown here. */
    uint8_t bits;   /**< Of one lane.                                        */
    uint16_t lanes; /**< 1 for ordinary numbers.                             */
} acre_dl_type;

/** DLTensor. */
typedef struct acre_dl_tensor {
    void *data;            /**< Beginning of the memory; may be NULL without elements. */
    acre_dl_device device; /**< Where it is.                                           */
    int32_t ndim;          /**< Number of dimensions.                                  */
    acre_dl_type dtype;    /**< What the elements are.                                 */
    int64_t *shape;        /**< Elements along each dimension.                         */
    int64_t *strides;      /**< In elements; NULL: one after the other, last fastest.  */
    uint64_t byte_offset;  /**< From data to the first element.                        */
} acre_dl_tensor;

/** DLManagedTensor. */
typedef struct acre_dl_managed {
    acre_dl_tensor tensor;                          /**< What it is.                    */
    void *manager_ctx;                              /**< Whatever the owner needs.      */
    void (*deleter)(struct acre_dl_managed *self);  /**< Ends it, self included; may be
                                                         NULL.                          */
} acre_dl_managed;

/** Bits of acre_dl_versioned.flags. */
typedef enum acre_dl_flag {
    ACRE_DL_READ_ONLY = 1u << 0,      /**< Must not be written.                   */
    ACRE_DL_COPIED = 1u << 1,         /**< A copy was made for whoever gets this. */
    ACRE_DL_SUBBYTE_PADDED = 1u << 2, /**< Elements below a byte take a byte.     */
} acre_dl_flag;

/** DLManagedTensorVersioned. */
typedef struct acre_dl_versioned {
    uint32_t major;    /**< Another one means another layout of what follows deleter. */
    uint32_t minor;    /**< Grows with additions.                                     */
    void *manager_ctx; /**< Whatever the owner needs.                                 */
    void (*deleter)(struct acre_dl_versioned *self); /**< Ends it; may be NULL.       */
    uint64_t flags;        /**< Bits of @ref acre_dl_flag.                            */
    acre_dl_tensor tensor; /**< What it is.                                           */
} acre_dl_versioned;

/** How memory is to be seen by others. */
typedef struct acre_dl_layout {
    uint32_t struct_size;   /**< sizeof(acre_dl_layout).                                */
    int32_t ndim;           /**< 0 to ACRE_DLPACK_DIMS_MAX.                             */
    acre_dl_type dtype;     /**< Of the elements.                                       */
    uint32_t reserved;      /**< 0.                                                     */
    const int64_t *shape;   /**< ndim numbers; copied. May be NULL when ndim is 0.      */
    const int64_t *strides; /**< ndim numbers, in elements; copied. NULL: compact.      */
    uint64_t byte_offset;   /**< Of the first element.                                  */
    uint64_t bytes;         /**< How much memory there is; a layout that needs more is
                                 refused. 0: not known.                                 */
    uint64_t flags;         /**< Bits of @ref acre_dl_flag, for the versioned form.     */
} acre_dl_layout;

/** Makes a tensor of the memory that @p ptr owns.
 *
 * The tensor owns it from then on, @p ptr is empty; whoever gets the tensor calls its
 * deleter. Strides are always given. On failure @p ptr is as it was.
 * Errors: ACRE_ERR_INVALID (what is wrong with the layout; more elements than bytes),
 *         ACRE_ERR_UNSUPPORTED (DLPack has no such device), ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_to_dlpack(acre_data_ptr *ptr, const acre_dl_layout *layout,
                                    acre_dl_managed **out);

/** Exports in the versioned form, which carries flags. */
ACRE_API acre_status acre_to_dlpack_versioned(acre_data_ptr *ptr, const acre_dl_layout *layout,
                                              acre_dl_versioned **out);

/** Makes a data pointer of a tensor: its data is the first element, the deleter that
 *  of the tensor.
 *
 * The data pointer owns the tensor from then on; on failure the tensor still belongs to
 * the caller. @p out is written without looking at what it was. @p out_bytes, which may
 * be NULL, is from the first element to the end of the last one.
 * Errors: ACRE_ERR_INVALID (says what is wrong with the tensor; also strides below 0),
 *         ACRE_ERR_UNSUPPORTED (a device that no backend has), ACRE_ERR_HOST_MEMORY.
 */
ACRE_API acre_status acre_from_dlpack(acre_dl_managed *tensor, acre_data_ptr *out,
                                      uint64_t *out_bytes);

/** Imports a tensor in the versioned form. Errors: also ACRE_ERR_UNSUPPORTED for another major
 *  version; the tensor may then be given to its deleter, and nothing else be read. */
ACRE_API acre_status acre_from_dlpack_versioned(acre_dl_versioned *tensor, acre_data_ptr *out,
                                                uint64_t *out_bytes);

/** The destructor of a Python capsule ("dltensor" or "dltensor_versioned") around a tensor: ends
 *  the tensor unless somebody took it out. An exception that is on its way in the interpreter
 *  stays as it is.
 *
 * @p capsule is the PyObject. Threads: one that holds the interpreter's lock.
 */
ACRE_API void acre_dlpack_capsule_destroy(void *capsule);

/** Drops a reference to a Python object, for acre_data_ptr_closure: @p object is the PyObject,
 *  @p data is not looked at. An exception that is on its way stays as it is. After the interpreter
 *  has ended, nothing happens. Threads: any; the interpreter's lock is taken.
 */
ACRE_API void acre_dlpack_object_drop(void *object, void *data);

ACRE_END_DECLS

#endif
