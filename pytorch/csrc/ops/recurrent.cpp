/* SPDX-License-Identifier: MIT */
/* Whole recurrent layers (LSTM, GRU, RNN) as the CPU computes them, gradients included.
 *
 * These operators choose their kernels by the device and build their own autograd graph. To
 * take the CPU's path, the layer runs on CPU tensors over the device's memory, with a CPU
 * graph; a node of the device's graph holds it and runs it backward when asked. The layer is
 * decomposed on the device for derivatives of higher order, for dropout in training, and for
 * tensors without memory (tracing) or of several devices.
 */
#include "device/scratch.h"
#include "ops/alias.h"
#include "ops/exchange.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

namespace acre_torch {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/* The CPU graph of one layer, and the device's tensors whose memory it uses. */
struct Graph : torch::CustomClassHolder {
    variable_list inputs;  /* CPU tensors, in the order of the node's inputs  */
    variable_list outputs; /* CPU results                                     */
    variable_list held;    /* tensors of the device under inputs              */
    c10::Device device{c10::DeviceType::PrivateUse1, 0};
    /* The call, for derivatives of higher order; held stands where the tensors stood. */
    std::optional<c10::OperatorHandle> op;
    torch::jit::Stack arguments;
    bool is_cast = false; /* whether autocast was on, and to which type */
    at::ScalarType cast_type = at::kFloat;
};

/* An operator's call, as forward() gets it. */
struct Layer {
    const c10::OperatorHandle &op;
    torch::jit::Stack &stack;
    c10::Device device;
    bool is_wanted; /* gradients are */
};

/* While it lives, a device casts as it is told. */
class CastScope {
public:
    CastScope(c10::DeviceType where, bool is_enabled, at::ScalarType type)
        : where_(where), enabled_(at::autocast::is_autocast_enabled(where)),
          type_(at::autocast::get_autocast_dtype(where))
    {
        at::autocast::set_autocast_enabled(where, is_enabled);
        at::autocast::set_autocast_dtype(where, type);
    }
    ~CastScope()
    {
        at::autocast::set_autocast_enabled(where_, enabled_);
        at::autocast::set_autocast_dtype(where_, type_);
    }
    CastScope(const CastScope &) = delete;
    CastScope &operator=(const CastScope &) = delete;

private:
    c10::DeviceType where_;
    bool enabled_;
    at::ScalarType type_;
};

/* Replaces the tensors of the device in a stack, one after the other. */
template <class F>
void stack_replace(torch::jit::Stack &stack, F replace)
{
    for (c10::IValue &value : stack) {
        if (value.isTensor() && is_acre(value.toTensor())) {
            value = replace(value.toTensor());
        } else if (value.isTensorList()) {
            c10::List<at::Tensor> list;

            for (const at::Tensor &tensor : value.toTensorList())
                list.push_back(is_acre(tensor) ? replace(tensor) : tensor);
            value = std::move(list);
        }
    }
}

at::Tensor result_copy(const at::Tensor &result, c10::Device device)
{
    at::AutoDispatchBelowADInplaceOrView below;
    at::Tensor copy = result.detach().clone();
    Exchange exchange;

    exchange.device_set(device);
    return exchange.leave(std::move(copy));
}

struct Node : torch::autograd::Function<Node> {
    static variable_list forward(AutogradContext *context, at::TensorList inputs,
                                 Layer *layer)
    {
        auto graph = c10::make_intrusive<Graph>();
        bool is_wanted = layer->is_wanted;
        Scratch scratch(layer->device.index());
        ScratchOwner owner(graph.get());
        Windows windows;
        variable_list results;

        graph->device = layer->device;
        graph->is_cast = at::autocast::is_autocast_enabled(at::kPrivateUse1);
        graph->cast_type = at::autocast::get_autocast_dtype(at::kPrivateUse1);
        if (is_wanted) {
            graph->op = layer->op;
            graph->arguments = layer->stack;
            stack_replace(graph->arguments, [&](const at::Tensor &tensor) {
                return graph->held.emplace_back(tensor.detach());
            });
        }
        {
            at::AutoGradMode mode(is_wanted);
            CastScope casts(at::kCPU, graph->is_cast, graph->cast_type);

            stack_replace(layer->stack, [&](const at::Tensor &tensor) {
                at::Tensor alias = alias_make(tensor, false);

                windows.open(tensor);
                if (is_wanted && tensor.requires_grad())
                    alias.set_requires_grad(true);
                graph->inputs.push_back(alias);
                return alias;
            });
            layer->op.callBoxed(&layer->stack);
        }
        for (c10::IValue &value : layer->stack) {
            graph->outputs.push_back(value.toTensor());
            results.push_back(result_copy(value.toTensor(), layer->device));
        }
        layer->stack.clear();
        if (is_wanted) {
            context->save_for_backward(inputs.vec());
            context->saved_data["graph"] =
                c10::IValue::make_capsule(
                    c10::static_intrusive_pointer_cast<torch::CustomClassHolder>(graph));
        }
        return results;
    }

    static variable_list backward(AutogradContext *context, const variable_list &gradients)
    {
        auto graph = c10::static_intrusive_pointer_cast<Graph>(
            context->saved_data["graph"].toCapsule());
        /* Refuses inputs that were changed since. */
        variable_list saved = context->get_saved_variables();
        variable_list outputs, given, wanted, found, results;

        if (at::GradMode::is_enabled())
            return backward_again(*graph, saved, gradients);
        ScratchOwner owner(graph.get());
        Exchange exchange;
        Windows windows;

        stream_settle(graph->device.index());
        exchange.device_set(graph->device);
        for (const at::Tensor &held : graph->held)
            windows.open(held);
        Scratch scratch(graph->device.index());
        for (size_t i = 0; i < gradients.size(); i++)
            if (gradients[i].defined() && graph->outputs[i].requires_grad()) {
                outputs.push_back(graph->outputs[i]);
                given.push_back(exchange.enter(gradients[i]));
            }
        for (const at::Tensor &input : graph->inputs)
            if (input.requires_grad())
                wanted.push_back(input);
        found = torch::autograd::grad(outputs, wanted, given, true, false, true);
        size_t next = 0;
        for (const at::Tensor &input : graph->inputs) {
            at::Tensor result = input.requires_grad() ? found[next++] : at::Tensor();

            results.push_back(result.defined() ? result_copy(result, graph->device) : result);
        }
        results.push_back(at::Tensor()); /* for the argument that is no tensor */
        return results;
    }

    /* Gradients that have a graph of their own: those of the layer decomposed on the device. */
    static variable_list backward_again(const Graph &graph, const variable_list &saved,
                                        const variable_list &gradients)
    {
        torch::jit::Stack stack = graph.arguments;
        variable_list inputs, outputs, given, wanted, found, results;

        {
            CastScope casts(at::kPrivateUse1, graph.is_cast, graph.cast_type);

            stack_replace(stack, [&](const at::Tensor &) {
                /* A view: a tensor that stands in two places is two tensors here. */
                return inputs.emplace_back(saved.at(inputs.size()).alias());
            });
            graph.op->redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::AutogradCPU), &stack);
        }
        for (size_t i = 0; i < gradients.size(); i++)
            if (gradients[i].defined() && stack[i].toTensor().requires_grad()) {
                outputs.push_back(stack[i].toTensor());
                given.push_back(gradients[i]);
            }
        for (const at::Tensor &input : inputs)
            if (input.requires_grad())
                wanted.push_back(input);
        found = torch::autograd::grad(outputs, wanted, given, true, true, true);
        size_t next = 0;
        for (const at::Tensor &input : inputs)
            results.push_back(input.requires_grad() ? found[next++] : at::Tensor());
        results.push_back(at::Tensor()); /* for the argument that is no tensor */
        return results;
    }
};

/* Whether some argument has no memory of its own (fake tensors, functional wrappers), or is of
 * the host, which the decomposition refuses. */
bool is_foreign(const torch::jit::Stack &stack, size_t begin, variable_list &tensors)
{
    bool found = false;
    auto see = [&](const at::Tensor &tensor) {
        if (!is_acre(tensor)) {
            found |= tensor.defined() && tensor.is_floating_point();
            return;
        }
        found |= tensor.key_set().has_any(
            c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::Functionalize,
                                 c10::DispatchKey::FuncTorchBatched}));
        found |= !tensor.has_storage();
        tensors.push_back(tensor);
    };

    for (size_t i = begin; i < stack.size(); i++) {
        if (stack[i].isTensor())
            see(stack[i].toTensor());
        else if (stack[i].isTensorList())
            for (const at::Tensor &tensor : stack[i].toTensorList())
                see(tensor);
    }
    return found;
}

/* Whether numbers would be drawn: dropout in training. */
bool draws(const c10::FunctionSchema &schema, const torch::jit::Stack &stack, size_t begin)
{
    double dropout = 0;
    bool is_training = false;

    for (size_t i = 0; i < schema.arguments().size(); i++) {
        if (schema.arguments()[i].name() == "dropout")
            dropout = stack[begin + i].toDouble();
        if (schema.arguments()[i].name() == "train")
            is_training = stack[begin + i].toBool();
    }
    return dropout > 0 && is_training;
}

void layer_run(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack)
{
    size_t begin = stack->size() - op.schema().arguments().size();
    variable_list tensors;

    if (is_foreign(*stack, begin, tensors) || tensors.empty() ||
        draws(op.schema(), *stack, begin) ||
        !std::all_of(tensors.begin(), tensors.end(), [&](const at::Tensor &tensor) {
            return tensor.device() == tensors[0].device();
        })) {
        /* The decomposition is what the CPU's key leads to. */
        op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::AutogradCPU), stack);
        return;
    }
    c10::Device device = tensors[0].device();
    c10::DeviceGuard guard(device);
    torch::jit::Stack arguments(stack->begin() + static_cast<int64_t>(begin), stack->end());
    bool is_wanted = at::GradMode::is_enabled() &&
                     std::any_of(tensors.begin(), tensors.end(),
                                 [](const at::Tensor &t) { return t.requires_grad(); });
    Layer layer = {op, arguments, device, is_wanted};

    capture_refuse(device.index(), op.schema().name().c_str());
    stream_settle(device.index());
    variable_list results = Node::apply(at::TensorList(tensors), &layer);
    stack->resize(begin);
    for (at::Tensor &result : results)
        stack->emplace_back(std::move(result));
}

constexpr const char *names[] = {
    "lstm.input", "lstm.data", "gru.input", "gru.data", "rnn_tanh.input", "rnn_tanh.data",
    "rnn_relu.input", "rnn_relu.data", "lstm_cell", "gru_cell",
};

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m)
{
    for (const char *name : names)
        m.impl(name, torch::CppFunction::makeFromBoxedFunction<&layer_run>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m)
{
    for (const char *name : names)
        m.impl(name, torch::CppFunction::makeFromBoxedFunction<&layer_run>());
}

} // namespace
} // namespace acre_torch
