/* SPDX-License-Identifier: MIT */
/* The operators torch.ops.symm_mem.* on acre and cpu tensors, over Acre's collectives.
 *
 * Each runs on the current stream of its device and is waited for, so that a failure is raised
 * where it happened.
 */
#include "device/counted.h"
#include "device/runtime.h"
#include "group/memory.h"
#include "symmetric/handle.h"

#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <atomic>

namespace acre_torch::symm {

using at::Tensor;

/* ---- Common --------------------------------------------------------------------------- */

/* One tensor in symmetric memory, with what a call of Acre needs. */
struct Place {
    c10::intrusive_ptr<AcreSymmetricMemory> handle;
    acre_symm *symm;
    std::size_t offset; /* bytes from the handle's own */
    int size, rank;

    Place(const Tensor &tensor, const std::string &group, const char *call)
        : handle(handle_of(tensor, group, call)), symm(handle->symm()),
          offset(static_cast<std::size_t>(tensor.storage_offset()) * tensor.element_size()),
          size(handle->get_world_size()), rank(handle->get_rank())
    {
    }
};

static acre_collective_options options_for(const Tensor &tensor,
                                           acre_algorithm algorithm = ACRE_ALGORITHM_AUTO)
{
    acre_collective_options options = {};

    options.struct_size = sizeof options;
    options.algorithm = algorithm;
    if (tensor.is_privateuseone())
        options.stream = current_native(tensor.device().index());
    return options;
}

static acre_dtype dtype_of(const Tensor &tensor, const char *call)
{
    switch (tensor.scalar_type()) {
    case at::kFloat: return ACRE_DTYPE_F32;
    case at::kHalf: return ACRE_DTYPE_F16;
    case at::kBFloat16: return ACRE_DTYPE_BF16;
    case at::kInt: return ACRE_DTYPE_I32;
    case at::kByte: return ACRE_DTYPE_U8;
    default:
        TORCH_CHECK_VALUE(false, call, ": type ", tensor.scalar_type(), " is not offered; use "
                          "float32, float16, bfloat16, int32 or uint8");
    }
}

static void sum_check(const std::string &op, const char *call)
{
    TORCH_CHECK_VALUE(op == "sum", call, ": reduce_op \"", op, "\" is not offered; use \"sum\"");
}

static void dense_check(const Tensor &tensor, const char *call, const char *name)
{
    TORCH_CHECK_VALUE(tensor.is_contiguous(), call, ": ", name, " must be contiguous");
}

/* An output of the shape and type of an input. */
static void like_check(const Tensor &out, const Tensor &input, const char *call)
{
    dense_check(out, call, "the output");
    TORCH_CHECK_VALUE(out.scalar_type() == input.scalar_type() && out.numel() == input.numel() &&
                          out.device() == input.device(),
                      call, ": the output must have the type, number of elements and device of the "
                      "input");
}

static std::size_t count_of(const Tensor &tensor)
{
    return static_cast<std::size_t>(tensor.numel());
}

/* ---- All-reduce ----------------------------------------------------------------------- */

static void all_reduce(const Tensor &input, const std::string &op, const std::string &group,
                       const Tensor *out, acre_algorithm algorithm, const char *call)
{
    sum_check(op, call);
    dense_check(input, call, "the input");
    acre_dtype dtype = dtype_of(input, call);
    if (out)
        like_check(*out, input, call);
    Place place(input, group, call);
    acre_collective_options options = options_for(input, algorithm);
    symm_check(acre_symm_all_reduce(place.symm, place.offset, count_of(input), dtype,
                                    out ? out->data_ptr() : nullptr, &options),
               call);
}

static Tensor one_shot_all_reduce_out(const Tensor &input, std::string op, std::string group,
                                      Tensor out)
{
    all_reduce(input, op, group, &out, ACRE_ALGORITHM_ONE_SHOT, "one_shot_all_reduce");
    return out;
}

static Tensor one_shot_all_reduce(const Tensor &input, std::string op, std::string group)
{
    return one_shot_all_reduce_out(input, std::move(op), std::move(group), at::empty_like(input));
}

static Tensor one_shot_all_reduce_copy_out(const Tensor &buffer, const Tensor &input,
                                           std::string op, std::string group, Tensor out)
{
    const char *call = "one_shot_all_reduce_copy";

    sum_check(op, call);
    dense_check(buffer, call, "the symmetric buffer");
    dense_check(input, call, "the input");
    TORCH_CHECK_VALUE(buffer.scalar_type() == input.scalar_type() &&
                          buffer.numel() >= input.numel(),
                      call, ": the symmetric buffer must have the type of the input and at least "
                      "its number of elements");
    like_check(out, input, call);
    Place place(buffer, group, call);
    acre_collective_options options = options_for(input, ACRE_ALGORITHM_ONE_SHOT);
    symm_check(acre_symm_all_reduce_copy(place.symm, place.offset, input.data_ptr(),
                                         count_of(input), count_of(input), dtype_of(input, call),
                                         out.data_ptr(), &options),
               call);
    return out;
}

static Tensor one_shot_all_reduce_copy(const Tensor &buffer, const Tensor &input, std::string op,
                                       std::string group)
{
    return one_shot_all_reduce_copy_out(buffer, input, std::move(op), std::move(group),
                                        at::empty_like(input));
}

static Tensor two_shot_all_reduce_(Tensor input, std::string op, std::string group)
{
    all_reduce(input, op, group, nullptr, ACRE_ALGORITHM_TWO_SHOT, "two_shot_all_reduce_");
    return input;
}

static Tensor two_shot_all_reduce_out(Tensor input, std::string op, std::string group, Tensor out)
{
    all_reduce(input, op, group, &out, ACRE_ALGORITHM_TWO_SHOT, "two_shot_all_reduce_out");
    return out;
}

static Tensor multimem_all_reduce_(Tensor input, std::string op, std::string group)
{
    all_reduce(input, op, group, nullptr, ACRE_ALGORITHM_MULTICAST, "multimem_all_reduce_");
    return input;
}

static Tensor multimem_one_shot_all_reduce_out(const Tensor &input, std::string op,
                                               std::string group, Tensor out)
{
    all_reduce(input, op, group, &out, ACRE_ALGORITHM_MULTICAST, "multimem_one_shot_all_reduce");
    return out;
}

static Tensor multimem_one_shot_all_reduce(const Tensor &input, std::string op, std::string group)
{
    return multimem_one_shot_all_reduce_out(input, std::move(op), std::move(group),
                                            at::empty_like(input));
}

/* ---- Other reductions ----------------------------------------------------------------- */

static Tensor multimem_one_shot_reduce_out(const Tensor &input, std::string op, int64_t root,
                                           std::string group, Tensor out)
{
    const char *call = "multimem_one_shot_reduce_out";

    sum_check(op, call);
    dense_check(input, call, "the input");
    Place place(input, group, call);
    if (place.rank == root)
        like_check(out, input, call);
    acre_collective_options options = options_for(input);
    symm_check(acre_symm_reduce(place.symm, place.offset, count_of(input), dtype_of(input, call),
                                static_cast<int>(root),
                                place.rank == root ? out.data_ptr() : nullptr, &options),
               call);
    return out;
}

static Tensor reduce_scatter_out(Tensor input, std::string group, bool split_last_dim, Tensor out)
{
    const char *call = "reduce_scatter_out";

    dense_check(input, call, "the input");
    dense_check(out, call, "the output");
    Place place(input, group, call);
    TORCH_CHECK_VALUE(out.scalar_type() == input.scalar_type() &&
                          out.numel() * place.size == input.numel(),
                      call, ": an output of ", counted(out.numel(), "element"), " is not 1/",
                      place.size, " of an input of ", input.numel());
    std::size_t columns = split_last_dim && input.dim() ? static_cast<std::size_t>(input.size(-1))
                                                        : count_of(input);
    std::size_t rows = columns ? count_of(input) / columns : 0;
    if (rows == 0)
        return out;
    acre_collective_options options = options_for(input);
    symm_check(acre_symm_reduce_scatter(place.symm, place.offset, nullptr, rows, columns,
                                        dtype_of(input, call), out.data_ptr(), &options),
               call);
    return out;
}

/* A view as Acre's tile. */
static acre_tile tile_of(const Tensor &tile, const Tensor &out, const char *call)
{
    TORCH_CHECK_VALUE(tile.dim() == 2 && tile.stride(1) == 1, call, ": tiles are 2-D views whose "
                      "rows are contiguous");
    TORCH_CHECK_VALUE(out.sizes() == tile.sizes() && out.strides() == tile.strides() &&
                          out.scalar_type() == tile.scalar_type() && out.device() == tile.device(),
                      call, ": input and output tiles must agree in type, sizes, strides and "
                      "device");
    return {static_cast<std::size_t>(tile.storage_offset()) * tile.element_size(),
            static_cast<std::size_t>(tile.size(0)), static_cast<std::size_t>(tile.size(1)),
            static_cast<std::size_t>(tile.stride(0))};
}

static void tile_reduce(const Tensor &in, Tensor out, int64_t root, std::string group,
                        std::string op)
{
    const char *call = "tile_reduce";

    sum_check(op, call);
    acre_tile tile = tile_of(in, out, call);
    Place place(in, group, call);
    acre_collective_options options = options_for(in);
    symm_check(acre_symm_tile_reduce(place.symm, &tile, dtype_of(in, call),
                                     static_cast<int>(root), out.data_ptr(), &options),
               call);
}

static void multi_root_tile_reduce(at::TensorList ins, Tensor out, at::IntArrayRef roots,
                                   std::string group, std::string op)
{
    const char *call = "multi_root_tile_reduce";
    std::vector<acre_tile> tiles;
    std::vector<int> targets(roots.begin(), roots.end());

    sum_check(op, call);
    TORCH_CHECK_VALUE(!ins.empty(), call, ": the list of tiles is empty");
    for (const Tensor &in : ins) {
        TORCH_CHECK_VALUE(in.storage().data() == ins[0].storage().data(), call, ": all tiles must "
                          "be views of one symmetric tensor");
        tiles.push_back(tile_of(in, out, call));
    }
    Place place(ins[0], group, call);
    acre_collective_options options = options_for(ins[0]);
    symm_check(acre_symm_tile_reduce_multi(place.symm, tiles.data(), targets.data(), tiles.size(),
                                           targets.size(), dtype_of(ins[0], call),
                                           out.data_ptr(), &options),
               call);
}

/* ---- Moving --------------------------------------------------------------------------- */

static Tensor multimem_all_gather_out(const Tensor &input, std::string group, Tensor out)
{
    const char *call = "multimem_all_gather_out";

    dense_check(input, call, "the input");
    dense_check(out, call, "the output");
    Place place(out, group, call);
    TORCH_CHECK_VALUE(out.scalar_type() == input.scalar_type() && out.dim() == input.dim() &&
                          out.numel() == input.numel() * place.size,
                      call, ": an output of shape ", out.sizes(), " does not hold ", place.size,
                      " inputs of shape ", input.sizes());
    acre_collective_options options = options_for(input);
    symm_check(acre_symm_all_gather(place.symm, place.offset, input.data_ptr(), input.nbytes(),
                                    &options),
               call);
    return out;
}

/* int64 values of a tensor of the device, read or written by the host. */
static std::vector<int64_t> values_read(const Tensor &tensor)
{
    std::vector<group::Flat> flats{group::Flat(tensor, group::Flat::Use::IN)};
    group::Access access(flats);
    const auto *first = reinterpret_cast<const int64_t *>(flats[0].data());

    return {first, first + flats[0].count()};
}

static void values_write(const Tensor &tensor, const std::vector<int64_t> &values)
{
    std::vector<group::Flat> flats{group::Flat(tensor, group::Flat::Use::OUT)};
    {
        group::Access access(flats);
        std::copy(values.begin(), values.end(), reinterpret_cast<int64_t *>(flats[0].data()));
    }
    flats[0].finish();
}

/* What the three forms of all_to_all_vdev have in common. */
struct Exchange {
    Tensor input, out, splits, out_splits_offsets;
    std::string group;
    bool is_2d, has_offsets;
    int64_t align;
    const char *call;

    void run() const;

  private:
    void check(const Place &place) const;
};

void Exchange::check(const Place &place) const
{
    dense_check(input, call, "the input");
    dense_check(out, call, "the output");
    TORCH_CHECK_VALUE(input.scalar_type() == out.scalar_type() && input.device() == out.device(),
                      call, ": input and output must agree in type and device");
    TORCH_CHECK_VALUE(input.dim() >= 1 && out.dim() == input.dim() &&
                          input.sizes().slice(1) == out.sizes().slice(1),
                      call, ": input and output must agree in all dimensions but the first");
    TORCH_CHECK_VALUE(splits.scalar_type() == at::kLong &&
                          out_splits_offsets.scalar_type() == at::kLong,
                      call, ": splits and offsets must be int64");
    int64_t count = has_offsets ? splits.numel() / 2 : splits.numel();
    TORCH_CHECK_VALUE(count > 0 && count % place.size == 0 && (is_2d || count == place.size), call,
                      ": ", counted(count, "split"), " cannot be shared among ",
                      counted(place.size, "rank"));
    TORCH_CHECK_VALUE(out_splits_offsets.numel() == 2 * count, call, ": the output splits must "
                      "have shape [2, ", count, "]");
    TORCH_CHECK_VALUE(align > 0, call, ": major_align ", align, " is not positive");
}

void Exchange::run() const
{
    Place place(input, group, call);

    check(place);
    std::vector<int64_t> given = values_read(splits), results(out_splits_offsets.numel());
    std::size_t count = results.size() / 2;
    acre_splits exchange = {};
    exchange.struct_size = sizeof exchange;
    exchange.in_rows = static_cast<std::size_t>(input.size(0));
    exchange.out_rows = static_cast<std::size_t>(out.size(0));
    exchange.row_bytes = static_cast<std::size_t>(input.stride(0)) * input.element_size();
    exchange.experts = is_2d ? count / static_cast<std::size_t>(place.size) : 0;
    exchange.align = align;
    exchange.in_splits = given.data();
    exchange.in_offsets = has_offsets ? given.data() + count : nullptr;
    exchange.out_splits = results.data();
    exchange.out_offsets = results.data() + count;
    acre_collective_options options = options_for(input);
    symm_check(acre_symm_all_to_all_v(place.symm, place.offset, &exchange, out.data_ptr(),
                                      &options),
               call);
    values_write(out_splits_offsets, results);
}

static void all_to_all_vdev(const Tensor &input, Tensor out, const Tensor &splits,
                            Tensor out_splits_offsets, std::string group)
{
    Exchange{input, out, splits, out_splits_offsets, group, false, false, 1, "all_to_all_vdev"}
        .run();
}

static void all_to_all_vdev_2d(const Tensor &input, Tensor out, const Tensor &splits,
                               Tensor out_splits_offsets, std::string group,
                               std::optional<int64_t> align)
{
    Exchange{input, out,   splits,           out_splits_offsets,  group,
             true,  false, align.value_or(1), "all_to_all_vdev_2d"}
        .run();
}

static void all_to_all_vdev_2d_offset(const Tensor &input, Tensor out,
                                      const Tensor &splits_offsets, Tensor out_splits_offsets,
                                      std::string group)
{
    Exchange{input, out, splits_offsets, out_splits_offsets, group, true, true, 1,
             "all_to_all_vdev_2d_offset"}
        .run();
}

static std::vector<Tensor> get_remote_tensors(const Tensor &tensor, std::string group)
{
    Place place(tensor, group, "get_remote_tensors");
    std::vector<Tensor> out;

    for (int r = 0; r < place.size; r++)
        out.push_back(place.handle->get_buffer(
            r, tensor.sizes(), tensor.scalar_type(),
            tensor.storage_offset() +
                static_cast<int64_t>(place.handle->get_offset() / tensor.element_size())));
    return out;
}

/* ---- Words ---------------------------------------------------------------------------- */

/* Stores words in the order of the current stream; the tensor may be a pad of any rank. */
static void words_fill(const Tensor &input, int64_t offset, int64_t value, int64_t count,
                       const char *call)
{
    TORCH_CHECK_VALUE(input.dim() == 1 && input.is_contiguous() &&
                          input.scalar_type() == at::kUInt32,
                      call, ": input must be a flat, contiguous uint32 tensor");
    TORCH_CHECK_VALUE(offset >= 0, call, ": offset must be greater than or equal to 0, not ",
                      offset);
    TORCH_CHECK_VALUE(value >= 0 && value <= UINT32_MAX, call, ": val ", value,
                      " does not fit 32 bits");
    TORCH_CHECK_VALUE(count > 0, call, ": count must be a positive integer, not ", count);
    TORCH_CHECK_VALUE(offset < input.numel() && count <= input.numel() - offset, call,
                      ": a count of ", count, " from word ", offset, " on exceeds ",
                      counted(input.numel(), "word"));
    std::vector<group::Flat> flats{group::Flat(input, group::Flat::Use::BOTH)};
    group::Access access(flats);
    auto *words = reinterpret_cast<std::atomic<uint32_t> *>(flats[0].data()) + offset;
    for (int64_t i = 0; i < count; i++)
        words[i].store(static_cast<uint32_t>(value), std::memory_order_release);
}

static Tensor stream_write_value32_(Tensor &input, int64_t offset, int64_t value)
{
    words_fill(input, offset, value, 1, "stream_write_value32_");
    return input;
}

static Tensor memset32_(Tensor &input, int64_t offset, int64_t value, int64_t count)
{
    words_fill(input, offset, value, count, "memset32_");
    return input;
}

/* ---- Registration --------------------------------------------------------------------- */

static void operators_register(torch::Library &m)
{
    m.impl("one_shot_all_reduce", one_shot_all_reduce);
    m.impl("one_shot_all_reduce_out", one_shot_all_reduce_out);
    m.impl("one_shot_all_reduce_copy", one_shot_all_reduce_copy);
    m.impl("one_shot_all_reduce_copy_out", one_shot_all_reduce_copy_out);
    m.impl("two_shot_all_reduce_", two_shot_all_reduce_);
    m.impl("two_shot_all_reduce_out", two_shot_all_reduce_out);
    m.impl("multimem_all_reduce_", multimem_all_reduce_);
    m.impl("multimem_one_shot_all_reduce", multimem_one_shot_all_reduce);
    m.impl("multimem_one_shot_all_reduce_out", multimem_one_shot_all_reduce_out);
    m.impl("multimem_one_shot_reduce_out", multimem_one_shot_reduce_out);
    m.impl("multimem_all_gather_out", multimem_all_gather_out);
    m.impl("reduce_scatter_out", reduce_scatter_out);
    m.impl("tile_reduce", tile_reduce);
    m.impl("multi_root_tile_reduce", multi_root_tile_reduce);
    m.impl("all_to_all_vdev", all_to_all_vdev);
    m.impl("all_to_all_vdev_2d", all_to_all_vdev_2d);
    m.impl("all_to_all_vdev_2d_offset", all_to_all_vdev_2d_offset);
    m.impl("get_remote_tensors", get_remote_tensors);
    m.impl("stream_write_value32_", stream_write_value32_);
    m.impl("memset32_", memset32_);
}

TORCH_LIBRARY_IMPL(symm_mem, PrivateUse1, m)
{
    operators_register(m);
}

TORCH_LIBRARY_IMPL(symm_mem, CPU, m)
{
    operators_register(m);
}

} // namespace acre_torch::symm
