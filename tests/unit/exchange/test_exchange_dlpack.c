/* SPDX-License-Identifier: MIT */
/* DLPack out and in: layouts as DLPack's own header has them, who owns what at each
 * moment, and tensors that lie. */
#include <acre/dlpack.h>
#include <acre/sim.h>

#include "base/heap.h"
#include "exchange/dlpack.h"
#include "tests/support/t.h"

#if defined(__has_include)
#if __has_include(<dlpack/dlpack.h>)
#include <dlpack/dlpack.h>
#define HAVE_DLPACK_H 1
#endif
#endif

static int delete_count;

static void delete_counted(void *context)
{
    (void)context;
    delete_count++;
}

static float floats[24];

static acre_data_ptr counted(acre_device_type type)
{
    acre_data_ptr ptr;

    delete_count = 0;
    acre_data_ptr_make(&ptr, floats, floats, delete_counted, (acre_device_id){type, 1});
    return ptr;
}

static acre_dl_layout layout_of(int32_t ndim, const int64_t *shape)
{
    return (acre_dl_layout){.struct_size = sizeof(acre_dl_layout), .ndim = ndim, .shape = shape,
                            .dtype = {ACRE_DL_FLOAT, 32, 1}, .bytes = sizeof floats};
}

#ifdef HAVE_DLPACK_H
#define SAME_OFFSET(ours, our_field, theirs, their_field)                                        \
    _Static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field), #their_field)

TEST(layouts_are_those_of_the_header_of_dlpack)
{
    SAME_OFFSET(acre_dl_tensor, data, DLTensor, data);
    SAME_OFFSET(acre_dl_tensor, device, DLTensor, device);
    SAME_OFFSET(acre_dl_tensor, ndim, DLTensor, ndim);
    SAME_OFFSET(acre_dl_tensor, dtype, DLTensor, dtype);
    SAME_OFFSET(acre_dl_tensor, shape, DLTensor, shape);
    SAME_OFFSET(acre_dl_tensor, strides, DLTensor, strides);
    SAME_OFFSET(acre_dl_tensor, byte_offset, DLTensor, byte_offset);
    SAME_OFFSET(acre_dl_managed, tensor, DLManagedTensor, dl_tensor);
    SAME_OFFSET(acre_dl_managed, manager_ctx, DLManagedTensor, manager_ctx);
    SAME_OFFSET(acre_dl_managed, deleter, DLManagedTensor, deleter);
    EXPECT_EQ(sizeof(acre_dl_managed), sizeof(DLManagedTensor));
    EXPECT_EQ(sizeof(acre_dl_type), sizeof(DLDataType));
    EXPECT_EQ(sizeof(acre_dl_device), sizeof(DLDevice));
    EXPECT_EQ(ACRE_DL_CPU, kDLCPU);
    EXPECT_EQ(ACRE_DL_CUDA, kDLCUDA);
    EXPECT_EQ(ACRE_DL_CUDA_HOST, kDLCUDAHost);
    EXPECT_EQ(ACRE_DL_OPENCL, kDLOpenCL);
    EXPECT_EQ(ACRE_DL_ROCM, kDLROCM);
    EXPECT_EQ(ACRE_DL_ROCM_HOST, kDLROCMHost);
    EXPECT_EQ(ACRE_DL_EXTENSION, kDLExtDev);
    EXPECT_EQ(ACRE_DL_CUDA_MANAGED, kDLCUDAManaged);
    EXPECT_EQ(ACRE_DL_INT, kDLInt);
    EXPECT_EQ(ACRE_DL_UINT, kDLUInt);
    EXPECT_EQ(ACRE_DL_FLOAT, kDLFloat);
    EXPECT_EQ(ACRE_DL_OPAQUE, kDLOpaqueHandle);
    EXPECT_EQ(ACRE_DL_BFLOAT, kDLBfloat);
    EXPECT_EQ(ACRE_DL_COMPLEX, kDLComplex);
#ifdef DLPACK_FLAG_BITMASK_READ_ONLY
    SAME_OFFSET(acre_dl_versioned, major, DLManagedTensorVersioned, version);
    SAME_OFFSET(acre_dl_versioned, deleter, DLManagedTensorVersioned, deleter);
    SAME_OFFSET(acre_dl_versioned, flags, DLManagedTensorVersioned, flags);
    SAME_OFFSET(acre_dl_versioned, tensor, DLManagedTensorVersioned, dl_tensor);
#endif
}
#endif

TEST(a_tensor_owns_what_the_data_pointer_owned)
{
    const int64_t shape[] = {2, 3, 4};
    acre_data_ptr ptr = counted(ACRE_DEVICE_CUDA);
    acre_dl_layout layout = layout_of(3, shape);
    uint64_t heap_before = heap_live_count();
    acre_dl_managed *tensor;

    REQUIRE_OK(acre_to_dlpack(&ptr, &layout, &tensor));
    EXPECT(!acre_data_ptr_is_set(&ptr));
    EXPECT_PTR_EQ(tensor->tensor.data, floats);
    EXPECT_EQ(tensor->tensor.device.type, ACRE_DL_CUDA);
    EXPECT_EQ(tensor->tensor.device.index, 1);
    EXPECT_EQ(tensor->tensor.ndim, 3);
    EXPECT_EQ(tensor->tensor.shape[2], 4);
    EXPECT_EQ(tensor->tensor.strides[0], 12);
    EXPECT_EQ(tensor->tensor.strides[1], 4);
    EXPECT_EQ(tensor->tensor.strides[2], 1);
    EXPECT_EQ(delete_count, 0);
    tensor->deleter(tensor);
    EXPECT_EQ(delete_count, 1);
    EXPECT_EQ(heap_live_count(), heap_before);
}

TEST(round_trips_keep_memory_and_owner)
{
    const acre_device_type types[] = {ACRE_DEVICE_CUDA, ACRE_DEVICE_OPENCL, ACRE_DEVICE_HIP,
                                      ACRE_DEVICE_PRIVATE, ACRE_DEVICE_CPU};
    const int64_t shape[] = {6, 4};
    acre_dl_layout layout = layout_of(2, shape);
    uint64_t bytes;

    layout.flags = ACRE_DL_READ_ONLY;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        acre_data_ptr ptr = counted(types[i]), back;
        acre_dl_managed *plain;
        acre_dl_versioned *versioned;

        REQUIRE_OK(acre_to_dlpack(&ptr, &layout, &plain));
        REQUIRE_OK(acre_from_dlpack(plain, &back, &bytes));
        EXPECT_EQ(bytes, sizeof floats);
        EXPECT_PTR_EQ(back.data, floats);
        EXPECT_EQ(back.device.type, types[i]);
        EXPECT_EQ(back.device.index, types[i] == ACRE_DEVICE_CPU ? 0 : 1);
        REQUIRE_OK(acre_to_dlpack_versioned(&back, &layout, &versioned));
        EXPECT_EQ(versioned->major, 1);
        EXPECT_EQ(versioned->flags, ACRE_DL_READ_ONLY);
        REQUIRE_OK(acre_from_dlpack_versioned(versioned, &back, NULL));
        EXPECT_EQ(delete_count, 0);
        acre_data_ptr_clear(&back);
        EXPECT_EQ(delete_count, 1);
    }
}

TEST(offsets_and_strides_are_counted)
{
    int64_t shape[] = {3, 2}, strides[] = {8, 2};
    acre_dl_managed tensor = {{floats, {ACRE_DL_CPU, 0}, 2, {ACRE_DL_FLOAT, 32, 1}, shape, strides,
                               16}, NULL, NULL};
    acre_data_ptr ptr;
    uint64_t bytes;

    REQUIRE_OK(acre_from_dlpack(&tensor, &ptr, &bytes));
    EXPECT_PTR_EQ(ptr.data, floats + 4);
    EXPECT_EQ(bytes, (2 * 8 + 2 + 1) * 4);
    acre_data_ptr_clear(&ptr); /* a tensor without a deleter */
    tensor.tensor.strides = NULL;
    tensor.tensor.dtype = (acre_dl_type){ACRE_DL_UINT, 4, 1};
    REQUIRE_OK(dlpack_bytes(&tensor.tensor, &bytes));
    EXPECT_EQ(bytes, 3);
    tensor.tensor.ndim = 0;
    REQUIRE_OK(dlpack_bytes(&tensor.tensor, &bytes));
    EXPECT_EQ(bytes, 1);
    tensor.tensor.ndim = 2;
    tensor.tensor.data = NULL;
    shape[1] = 0;
    REQUIRE_OK(acre_from_dlpack(&tensor, &ptr, &bytes));
    EXPECT_EQ(bytes, 0);
    EXPECT_PTR_EQ(ptr.data, NULL);
    acre_data_ptr_clear(&ptr);
}

static void refuse_layout(acre_dl_layout layout, const char *part)
{
    acre_data_ptr ptr = counted(ACRE_DEVICE_CPU);
    acre_dl_managed *tensor = NULL;
    acre_dl_versioned *versioned = NULL;

    EXPECT_EQ(acre_to_dlpack(&ptr, &layout, &tensor), ACRE_ERR_INVALID);
    EXPECT_HAS(acre_last_error(), part);
    EXPECT_EQ(acre_to_dlpack_versioned(&ptr, &layout, &versioned), ACRE_ERR_INVALID);
    EXPECT(!tensor && !versioned);
    EXPECT_PTR_EQ(ptr.context, floats);
    acre_data_ptr_clear(&ptr);
    EXPECT_EQ(delete_count, 1);
}

TEST(bad_layouts_leave_the_data_pointer_alone)
{
    const int64_t shape[] = {6, 4}, large[] = {INT64_MAX, INT64_MAX}, below[] = {6, -1};
    acre_dl_layout layout = layout_of(2, shape);

    layout.byte_offset = 4;
    refuse_layout(layout, "the memory has 96");
    layout.byte_offset = UINT64_MAX;
    refuse_layout(layout, "bytes from offset");
    layout = layout_of(2, large);
    refuse_layout(layout, "more elements than");
    layout = layout_of(2, below);
    refuse_layout(layout, "below 0");
    layout = layout_of(2, NULL);
    refuse_layout(layout, "the shape of 2 dimensions is NULL");
    layout = layout_of(1, NULL);
    refuse_layout(layout, "the shape of 1 dimension is NULL");
    layout = layout_of(-1, shape);
    refuse_layout(layout, "-1 dimensions");
    layout = layout_of(2, shape);
    layout.dtype.lanes = 0;
    refuse_layout(layout, "neither may be 0");
    layout = layout_of(2, shape);
    layout.struct_size = 3;
    refuse_layout(layout, "struct_size");
}

static void refuse_tensor(acre_dl_tensor bad, acre_status expected, const char *part)
{
    acre_dl_managed tensor = {bad, NULL, NULL};
    acre_dl_versioned versioned = {1, 9, NULL, NULL, 0, bad};
    acre_data_ptr out = ACRE_DATA_PTR_EMPTY;

    EXPECT_EQ(acre_from_dlpack(&tensor, &out, NULL), expected);
    EXPECT_HAS(acre_last_error(), part);
    EXPECT_EQ(acre_from_dlpack_versioned(&versioned, &out, NULL), expected);
    EXPECT(!acre_data_ptr_is_set(&out));
}

TEST(tensors_that_lie_are_refused)
{
    int64_t shape[] = {6, 4}, below[] = {4, -1};
    const acre_dl_tensor good = {floats, {ACRE_DL_CPU, 0}, 2, {ACRE_DL_FLOAT, 32, 1}, shape,
                                 NULL, 0};
    acre_dl_tensor bad = good;

    bad.data = NULL;
    refuse_tensor(bad, ACRE_ERR_INVALID, "its data is NULL");
    bad = good;
    bad.device.type = 99;
    refuse_tensor(bad, ACRE_ERR_UNSUPPORTED, "type 99");
    bad = good;
    bad.device.index = -1;
    refuse_tensor(bad, ACRE_ERR_INVALID, "index is -1");
    bad = good;
    bad.ndim = INT32_MAX;
    refuse_tensor(bad, ACRE_ERR_INVALID, "dimensions");
    bad = good;
    bad.shape = NULL;
    refuse_tensor(bad, ACRE_ERR_INVALID, "is NULL");
    bad = good;
    bad.strides = below;
    refuse_tensor(bad, ACRE_ERR_INVALID, "below 0");
    bad = good;
    bad.dtype.bits = 0;
    refuse_tensor(bad, ACRE_ERR_INVALID, "neither may be 0");
    bad = good;
    bad.byte_offset = UINT64_MAX - 5;
    refuse_tensor(bad, ACRE_ERR_INVALID, "last address");
    acre_dl_versioned other = {2, 0, NULL, NULL, 0, good};
    acre_data_ptr out;
    EXPECT_EQ(acre_from_dlpack_versioned(&other, &out, NULL), ACRE_ERR_UNSUPPORTED);
    EXPECT_HAS(acre_last_error(), "DLPack 2.0");
    EXPECT_EQ(acre_from_dlpack(NULL, &out, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_from_dlpack_versioned(NULL, &out, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(dlpack_bytes(NULL, NULL), ACRE_ERR_INVALID);
}

TEST(host_memory_may_run_out)
{
    const int64_t shape[] = {6};
    acre_data_ptr ptr = counted(ACRE_DEVICE_CPU);
    acre_dl_layout layout = layout_of(1, shape);
    acre_dl_managed *tensor;

    heap_fail_nth(1);
    EXPECT_EQ(acre_to_dlpack(&ptr, &layout, &tensor), ACRE_ERR_HOST_MEMORY);
    EXPECT(heap_fail_disarm());
    EXPECT_PTR_EQ(ptr.context, floats);
    EXPECT_EQ(acre_to_dlpack(NULL, &layout, &tensor), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_to_dlpack(&ptr, NULL, &tensor), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_to_dlpack(&ptr, &layout, NULL), ACRE_ERR_INVALID);
    EXPECT_EQ(acre_to_dlpack_versioned(&ptr, &layout, NULL), ACRE_ERR_INVALID);
    ptr.device.type = (acre_device_type)3;
    EXPECT_EQ(acre_to_dlpack(&ptr, &layout, &tensor), ACRE_ERR_UNSUPPORTED);
    acre_data_ptr_clear(&ptr);
}

/* Memory of a cache travels and comes back to the cache when the tensor ends. */
TEST(memory_of_an_allocator_travels)
{
    const int64_t shape[] = {25};
    acre_dl_layout layout = layout_of(1, shape);
    acre_allocator_stats stats = {.struct_size = sizeof stats};
    acre_allocator *allocator;
    acre_dl_versioned *tensor;
    acre_data_ptr ptr;

    layout.bytes = 100;
    REQUIRE_OK(acre_plain_allocator_create(ACRE_DEVICE_PRIVATE, &allocator));
    REQUIRE_OK(acre_allocator_allocate(allocator, 100, &ptr));
    REQUIRE_OK(acre_to_dlpack_versioned(&ptr, &layout, &tensor));
    EXPECT_EQ(tensor->tensor.device.type, ACRE_DL_EXTENSION);
    REQUIRE_OK(acre_allocator_stats_get(allocator, 0, &stats));
    EXPECT_EQ(stats.allocated_bytes.current, 100);
    tensor->deleter(tensor);
    REQUIRE_OK(acre_allocator_stats_get(allocator, 0, &stats));
    EXPECT_EQ(stats.allocated_bytes.current, 0);
    acre_allocator_destroy(allocator);
}

T_MAIN()
