/* SPDX-License-Identifier: MIT */
/* The collectives of the process group: checks, then exchange.h; see group.h. */
#include "group/launch.h"

#include "device/counted.h"
#include "symmetric/place.h"

namespace acre_torch::group {

using c10d::OpType;
using Flats = std::vector<Flat>;

static Agreement agreement_of(const at::Tensor &tensor, int64_t root = -1, int reduce = -1)
{
    Agreement agreed;

    agreed.type = static_cast<int32_t>(tensor.scalar_type());
    agreed.count = static_cast<uint64_t>(tensor.numel());
    agreed.root = static_cast<int32_t>(root);
    agreed.reduce = reduce;
    return agreed;
}

static const at::Tensor &only_one(const std::vector<at::Tensor> &tensors, const char *call)
{
    TORCH_CHECK_VALUE(tensors.size() == 1, "Acre: ", call, " takes one tensor on each rank, not ",
                      tensors.size());
    tensor_check(tensors[0], call);
    return tensors[0];
}

/* ---- Broadcast and reductions --------------------------------------------------------- */

ProcessGroupAcre::WorkPtr ProcessGroupAcre::broadcast(Tensors &tensors,
                                                      const c10d::BroadcastOptions &options)
{
    Kind kind{OpType::BROADCAST, "broadcast", "acre:broadcast", options.timeout, options.asyncOp};
    const at::Tensor &tensor = only_one(tensors, kind.name);
    int root = static_cast<int>(options.rootRank);

    root_check(kind.name, options.rootRank);
    Flats flats;
    flats.emplace_back(tensor, rank_ == root ? Flat::Use::IN : Flat::Use::OUT);
    return launch(kind, agreement_of(tensor, root), std::move(flats), tensors,
                  [root](Room &room, const Call &call, Flats &flats) {
                      exchange_broadcast(room, call, flats[0].data(), flats[0].bytes(), root);
                  });
}

ProcessGroupAcre::WorkPtr ProcessGroupAcre::allreduce(Tensors &tensors,
                                                      const c10d::AllreduceOptions &options)
{
    Kind kind{OpType::ALLREDUCE, "all_reduce", "acre:all_reduce", options.timeout,
              options.asyncOp};
    const at::Tensor &tensor = only_one(tensors, kind.name);
    Reduce reduce = options.reduceOp;

    reduce_check(reduce, tensor.scalar_type());
    Flats flats;
    flats.emplace_back(tensor, Flat::Use::BOTH);
    Agreement agreed = agreement_of(tensor, -1, reduce);
    symm::InPlace place(flats[0].tensor(), reduce, getGroupUid());
    agreed.symmetric = place.identity();
    return launch(kind, agreed, std::move(flats), tensors,
                  [reduce, place, counter = in_place_count_](Room &room, const Call &call,
                                                             Flats &flats) {
                      if (exchange_all_reduce(room, call, flats[0].data(), flats[0].count(),
                                              reduce, flats[0].tensor().scalar_type()))
                          return;
                      place.all_reduce(call.timeout);
                      if (reduce == Reduce::AVG)
                          average_run(flats[0].data(), flats[0].count(), room.size(),
                                      flats[0].tensor().scalar_type());
                      ++*counter;
                  });
}

ProcessGroupAcre::WorkPtr ProcessGroupAcre::allreduce_coalesced(
    Tensors &tensors, const c10d::AllreduceCoalescedOptions &options)
{
    Kind kind{OpType::ALLREDUCE_COALESCED, "all_reduce_coalesced", "acre:all_reduce",
              options.timeout, options.asyncOp};
    Reduce reduce = options.reduceOp;
    Flats flats;

    for (const at::Tensor &tensor : tensors) {
        tensor_check(tensor, kind.name);
        reduce_check(reduce, tensor.scalar_type());
        flats.emplace_back(tensor, Flat::Use::BOTH);
    }
    return launch(kind, {}, std::move(flats), tensors,
                  [reduce](Room &room, const Call &whole, Flats &flats) {
                      for (Flat &flat : flats) {
                          Call call = whole.about(agreement_of(flat.tensor(), -1, reduce));
                          exchange_all_reduce(room, call, flat.data(), flat.count(), reduce,
                                              flat.tensor().scalar_type());
                      }
                  });
}

ProcessGroupAcre::WorkPtr ProcessGroupAcre::reduce(Tensors &tensors,
                                                   const c10d::ReduceOptions &options)
{
    Kind kind{OpType::REDUCE, "reduce", "acre:reduce", options.timeout, options.asyncOp};
    const at::Tensor &tensor = only_one(tensors, kind.name);
    Reduce reduce = options.reduceOp;
    int root = static_cast<int>(options.rootRank);

    root_check(kind.name, options.rootRank);
    reduce_check(reduce, tensor.scalar_type());
    Flats flats;
    flats.emplace_back(tensor, rank_ == root ? Flat::Use::BOTH : Flat::Use::IN);
    return launch(kind, agreement_of(tensor, root, reduce), std::move(flats), tensors,
                  [reduce, root](Room &room, const Call &call, Flats &flats) {
                      exchange_reduce(room, call, flats[0].data(), flats[0].count(), root, reduce,
                                      flats[0].tensor().scalar_type());
                  });
}

/* ---- Gathering ------------------------------------------------------------------------ */

/* outputs[i][r] receives inputs[i] of rank r. */
ProcessGroupAcre::WorkPtr ProcessGroupAcre::gather_all(const Kind &kind, const Lists &outputs,
                                                       const Tensors &inputs)
{
    Flats flats;
    Tensors results;
    std::size_t stride = 1 + static_cast<std::size_t>(size_);

    TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "Acre: ", kind.name, ": ",
                      counted(inputs.size(), "input"), " but ",
                      counted(outputs.size(), "list"), " of outputs given");
    for (std::size_t i = 0; i < inputs.size(); i++) {
        tensor_check(inputs[i], kind.name);
        list_check(outputs[i], size_, inputs[i], kind.name);
        flats.emplace_back(inputs[i], Flat::Use::IN);
        for (const at::Tensor &tensor : outputs[i])
            flats.emplace_back(tensor, Flat::Use::OUT);
        results.insert(results.end(), outputs[i].begin(), outputs[i].end());
    }
    Agreement agreed = inputs.size() == 1 ? agreement_of(inputs[0]) : Agreement{};
    return launch(kind, agreed, std::move(flats), results,
                  [stride](Room &room, const Call &whole, Flats &flats) {
                      std::vector<char *> outs(stride - 1);
                      for (std::size_t i = 0; i < flats.size(); i += stride) {
                          for (std::size_t r = 0; r + 1 < stride; r++)
                              outs[r] = flats[i + 1 + r].data();
                          exchange_all_gather(room, whole.about(agreement_of(flats[i].tensor())),
                                              flats[i].data(), outs, flats[i].bytes());
                      }
                  });
}

ProcessGroupAcre::WorkPtr ProcessGroupAcre::allgather(Lists &outputs, Tensors &inputs,
                                                      const c10d::AllgatherOptions &options)
{
    Kind kind{OpType::ALLGATHER, "all_gather", "acre:all_gather", options.timeout,
              options.asyncOp};
    only_one(inputs, kind.name);
    return gather_all(kind, outputs, inputs);
}

ProcessGroupAcre::WorkPtr ProcessGroupAcre::allgather_coalesced(
    Lists &outputs, Tensors &inputs, const c10d::AllgatherOptions &options)
{
    Kind kind{OpType::ALLGATHER_COALESCED, "all_gather_coalesced", "acre:all_gather",
              options.timeout, options.asyncOp};
    Lists turned(inputs.size());

    TORCH_CHECK_VALUE(outputs.size() == static_cast<std::size_t>(size_), "Acre: ", kind.name, ": ",
                      counted(outputs.size(), "list"), " of outputs given for ",
                      counted(size_, "rank"));
    for (const Tensors &list : outputs) {
        TORCH_CHECK_VALUE(list.size() == inputs.size(), "Acre: ", kind.name, ": a list of ",
                          counted(list.size(), "output"), " was given for ",
                          counted(inputs.size(), "input"));
        for (std::size_t i = 0; i < inputs.size(); i++)
            turned[i].push_back(list[i]);
    }
    return gather_all(kind, turned, inputs);
}

/* Pointers to the equal parts of one tensor. */
template <class Pointer> static std::vector<Pointer> parts_of(char *data, std::size_t bytes,
                                                              int size)
{
    std::vector<Pointer> parts(static_cast<std::size_t>(size));
    for (int r = 0; r < size; r++)
        parts[r] = data + static_cast<std::size_t>(r) * bytes;
    return parts;
}

ProcessGroupAcre::WorkPtr ProcessGroupAcre::_allgather_base(at::Tensor &output, at::Tensor &input,
                                                            const c10d::AllgatherOptions &options)
{
    Tensors outputs{output}, inputs{input};
    return allgather_into_tensor_coalesced(outputs, inputs, options);
}

ProcessGroupAcre::WorkPtr ProcessGroupAcre::allgather_into_tensor_coalesced(
    Tensors &outputs, Tensors &inputs, const c10d::AllgatherOptions &options)
{
    Kind kind{OpType::_ALLGATHER_BASE, "all_gather_into_tensor", "acre:_all_gather_base",
              options.timeout, options.asyncOp};
    Flats flats;

    TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "Acre: ", kind.name, ": ",
                      counted(outputs.size(), "output"), " given for ",
                      counted(inputs.size(), "input"));
    for (std::size_t i = 0; i < inputs.size(); i++) {
        base_check(outputs[i], inputs[i], size_, kind.name);
        flats.emplace_back(inputs[i], Flat::Use::IN);
        flats.emplace_back(outputs[i], Flat::Use::OUT);
    }
    Agreement agreed = inputs.size() == 1 ? agreement_of(inputs[0]) : Agreement{};
    return launch(kind, agreed, std::move(flats), outputs,
                  [](Room &room, const Call &whole, Flats &flats) {
                      for (std::size_t i = 0; i < flats.size(); i += 2)
                          exchange_all_gather(room, whole.about(agreement_of(flats[i].tensor())),
                                              flats[i].data(),
                                              parts_of<char *>(flats[i + 1].data(),
                                                               flats[i].bytes(), room.size()),
                                              flats[i].bytes());
                  });
}

ProcessGroupAcre::WorkPtr ProcessGroupAcre::gather(Lists &outputs, Tensors &inputs,
                                                   const c10d::GatherOptions &options)
{
    Kind kind{OpType::GATHER, "gather", "acre:gather", options.timeout, options.asyncOp};
    const at::Tensor &input = only_one(inputs, kind.name);
    int root = static_cast<int>(options.rootRank);
    Flats flats;

    root_check(kind.name, options.rootRank);
    flats.emplace_back(input, Flat::Use::IN);
    if (rank_ == root) {
        TORCH_CHECK_VALUE(outputs.size() == 1, "Acre: gather: the root needs one list of outputs, "
                          "not ", outputs.size());
        list_check(outputs[0], size_, input, kind.name);
        for (const at::Tensor &tensor : outputs[0])
            flats.emplace_back(tensor, Flat::Use::OUT);
    } else {
        TORCH_CHECK_VALUE(outputs.empty() || outputs[0].empty(), "Acre: gather: only the root "
                          "takes outputs");
    }
    return launch(kind, agreement_of(input, root), std::move(flats),
                  rank_ == root ? outputs[0] : Tensors{},
                  [root](Room &room, const Call &call, Flats &flats) {
                      std::vector<char *> outs;
                      for (std::size_t i = 1; i < flats.size(); i++)
                          outs.push_back(flats[i].data());
                      exchange_gather(room, call, flats[0].data(), outs, flats[0].bytes(), root);
                  });
}

/* ---- Scattering ----------------------------------------------------------------------- */

ProcessGroupAcre::WorkPtr ProcessGroupAcre::scatter(Tensors &outputs, Lists &inputs,
                                                    const c10d::ScatterOptions &options)
{
    Kind kind{OpType::SCATTER, "scatter", "acre:scatter", options.timeout, options.asyncOp};
    const at::Tensor &output = only_one(outputs, kind.name);
    int root = static_cast<int>(options.rootRank);
    Flats flats;

    root_check(kind.name, options.rootRank);
    flats.emplace_back(output, Flat::Use::OUT);
    if (rank_ == root) {
        TORCH_CHECK_VALUE(inputs.size() == 1, "Acre: scatter: the root needs one list of inputs, "
                          "not ", inputs.size());
        list_check(inputs[0], size_, output, kind.name);
        for (const at::Tensor &tensor : inputs[0])
            flats.emplace_back(tensor, Flat::Use::IN);
    } else {
        TORCH_CHECK_VALUE(inputs.empty() || inputs[0].empty(), "Acre: scatter: only the root "
                          "takes inputs");
    }
    return launch(kind, agreement_of(output, root), std::move(flats), outputs,
                  [root](Room &room, const Call &call, Flats &flats) {
                      std::vector<const char *> ins;
                      for (std::size_t i = 1; i < flats.size(); i++)
                          ins.push_back(flats[i].data());
                      exchange_scatter(room, call, ins, flats[0].data(), flats[0].bytes(), root);
                  });
}

ProcessGroupAcre::WorkPtr ProcessGroupAcre::reduce_scatter(
    Tensors &outputs, Lists &inputs, const c10d::ReduceScatterOptions &options)
{
    Kind kind{OpType::REDUCE_SCATTER, "reduce_scatter", "acre:reduce_scatter", options.timeout,
              options.asyncOp};
    const at::Tensor &output = only_one(outputs, kind.name);
    Reduce reduce = options.reduceOp;
    Flats flats;

    TORCH_CHECK_VALUE(inputs.size() == 1, "Acre: reduce_scatter takes one list of inputs, not ",
                      inputs.size());
    list_check(inputs[0], size_, output, kind.name);
    reduce_check(reduce, output.scalar_type());
    flats.emplace_back(output, Flat::Use::OUT);
    for (const at::Tensor &tensor : inputs[0])
        flats.emplace_back(tensor, Flat::Use::IN);
    return launch(kind, agreement_of(output, -1, reduce), std::move(flats), outputs,
                  [reduce](Room &room, const Call &call, Flats &flats) {
                      std::vector<const char *> ins;
                      for (std::size_t i = 1; i < flats.size(); i++)
                          ins.push_back(flats[i].data());
                      exchange_reduce_scatter(room, call, ins, flats[0].data(), flats[0].count(),
                                              reduce, flats[0].tensor().scalar_type());
                  });
}

ProcessGroupAcre::WorkPtr ProcessGroupAcre::_reduce_scatter_base(
    at::Tensor &output, at::Tensor &input, const c10d::ReduceScatterOptions &options)
{
    Tensors outputs{output}, inputs{input};
    return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

ProcessGroupAcre::WorkPtr ProcessGroupAcre::reduce_scatter_tensor_coalesced(
    Tensors &outputs, Tensors &inputs, const c10d::ReduceScatterOptions &options)
{
    Kind kind{OpType::_REDUCE_SCATTER_BASE, "reduce_scatter_tensor",
              "acre:_reduce_scatter_base", options.timeout, options.asyncOp};
    Reduce reduce = options.reduceOp;
    Flats flats;

    TORCH_CHECK_VALUE(outputs.size() == inputs.size(), "Acre: ", kind.name, ": ",
                      counted(outputs.size(), "output"), " given for ",
                      counted(inputs.size(), "input"));
    for (std::size_t i = 0; i < inputs.size(); i++) {
        base_check(inputs[i], outputs[i], size_, kind.name);
        reduce_check(reduce, outputs[i].scalar_type());
        flats.emplace_back(inputs[i], Flat::Use::IN);
        flats.emplace_back(outputs[i], Flat::Use::OUT);
    }
    Agreement agreed = outputs.size() == 1 ? agreement_of(outputs[0], -1, reduce) : Agreement{};
    return launch(kind, agreed, std::move(flats), outputs,
                  [reduce](Room &room, const Call &whole, Flats &flats) {
                      for (std::size_t i = 0; i < flats.size(); i += 2) {
                          const Flat &out = flats[i + 1];
                          exchange_reduce_scatter(
                              room, whole.about(agreement_of(out.tensor(), -1, reduce)),
                              parts_of<const char *>(flats[i].data(), out.bytes(), room.size()),
                              out.data(), out.count(), reduce, out.tensor().scalar_type());
                      }
                  });
}

/* ---- All to all ----------------------------------------------------------------------- */

/* flats: inputs, then outputs. Pointers are taken when the operation runs. */
ProcessGroupAcre::WorkPtr ProcessGroupAcre::exchange_parts(const Kind &kind,
                                                           std::vector<Flat> flats, Parts parts,
                                                           const at::Tensor &like,
                                                           Tensors outputs)
{
    Agreement agreed;

    agreed.type = static_cast<int32_t>(like.scalar_type());
    return launch(kind, agreed, std::move(flats), std::move(outputs),
                  [parts = std::move(parts)](Room &room, const Call &call, Flats &) {
                      exchange_all_to_all(room, call, parts);
                  });
}

/* Where the parts of one tensor begin and end; rows is how it is split along dimension 0. */
static void splits_take(const at::Tensor &tensor, char *data, const std::vector<int64_t> &rows,
                        int size, const char *call, std::vector<char *> &places,
                        std::vector<std::size_t> &bytes)
{
    int64_t length = tensor.dim() ? tensor.size(0) : 1, sum = 0;
    std::size_t row = length ? tensor.nbytes() / static_cast<std::size_t>(length) : 0;

    TORCH_CHECK_VALUE(rows.empty() ? length % size == 0
                                   : rows.size() == static_cast<std::size_t>(size),
                      "Acre: ", call, ": dimension 0 of length ", length, " with ",
                      counted(rows.size(), "split size"), " cannot be split for ",
                      counted(size, "rank"));
    for (int r = 0; r < size; r++) {
        int64_t some = rows.empty() ? length / size : rows[static_cast<std::size_t>(r)];
        TORCH_CHECK_VALUE(some >= 0 && some <= length - sum, "Acre: ", call, ": split sizes exceed "
                          "dimension 0 of length ", length, " at rank ", r);
        places.push_back(data + static_cast<std::size_t>(sum) * row);
        bytes.push_back(static_cast<std::size_t>(some) * row);
        sum += some;
    }
    TORCH_CHECK_VALUE(sum == length, "Acre: ", call, ": split sizes add up to ", sum,
                      ", and dimension 0 has length ", length);
}

ProcessGroupAcre::WorkPtr ProcessGroupAcre::alltoall_base(at::Tensor &output, at::Tensor &input,
                                                          std::vector<int64_t> &output_splits,
                                                          std::vector<int64_t> &input_splits,
                                                          const c10d::AllToAllOptions &options)
{
    Kind kind{OpType::ALLTOALL_BASE, "all_to_all_single", "acre:all_to_all", options.timeout,
              options.asyncOp};
    Flats flats;
    Parts parts;
    std::vector<char *> ins;

    tensor_check(input, kind.name);
    tensor_check(output, kind.name);
    TORCH_CHECK_VALUE(input.scalar_type() == output.scalar_type(), "Acre: ", kind.name,
                      ": tensors of types ", input.scalar_type(), " and ", output.scalar_type(),
                      " cannot be combined");
    flats.emplace_back(input, Flat::Use::IN);
    flats.emplace_back(output, Flat::Use::OUT);
    splits_take(input, flats[0].data(), input_splits, size_, kind.name, ins, parts.in_bytes);
    splits_take(output, flats[1].data(), output_splits, size_, kind.name, parts.outs,
                parts.out_bytes);
    parts.ins.assign(ins.begin(), ins.end());
    return exchange_parts(kind, std::move(flats), std::move(parts), input, {output});
}

ProcessGroupAcre::WorkPtr ProcessGroupAcre::alltoall(Tensors &outputs, Tensors &inputs,
                                                     const c10d::AllToAllOptions &options)
{
    Kind kind{OpType::ALLTOALL, "all_to_all", "acre:all_to_all", options.timeout,
              options.asyncOp};
    std::size_t size = static_cast<std::size_t>(size_);
    Flats flats;
    Parts parts;

    TORCH_CHECK_VALUE(inputs.size() == size && outputs.size() == size, "Acre: ", kind.name, ": ",
                      counted(inputs.size(), "input"), " and ", counted(outputs.size(), "output"),
                      " given for ", counted(size_, "rank"));
    for (std::size_t i = 0; i < 2 * size; i++) {
        const at::Tensor &tensor = i < size ? inputs[i] : outputs[i - size];
        tensor_check(tensor, kind.name);
        TORCH_CHECK_VALUE(tensor.scalar_type() == inputs[0].scalar_type(), "Acre: ", kind.name,
                          ": tensors of types ", tensor.scalar_type(), " and ",
                          inputs[0].scalar_type(), " cannot be combined");
        flats.emplace_back(tensor, i < size ? Flat::Use::IN : Flat::Use::OUT);
        if (i < size)
            parts.ins.push_back(flats[i].data());
        else
            parts.outs.push_back(flats[i].data());
        (i < size ? parts.in_bytes : parts.out_bytes).push_back(flats[i].bytes());
    }
    return exchange_parts(kind, std::move(flats), std::move(parts), inputs[0], outputs);
}

} // namespace acre_torch::group
