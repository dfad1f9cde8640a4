/* SPDX-License-Identifier: MIT */
/* Whole recurrent layers (LSTM, GRU, RNN) as the CPU computes them, gradients included.
 *
 * These operators choose their kernels by the device and build their own autograd graph. To
 * take the CPU's path, the layer runs on CPU tensors over the device's memory, with a CPU
 * graph; a node of the device's graph holds it and runs it backward when asked. Layers with
 * dropout in training, and tensors without memory (tracing), are decomposed on the device.
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
};

/* An operator's call, as forward() gets it. */
struct Layer {
    const c10::OperatorHandle &op;
    torch::jit::Stack &stack;
    c10::Device device;
};

/* While it lives, the CPU casts as the device does. */
class CastScope {
public:
    CastScope()
        : enabled_(at::autocast::is_autocast_enabled(at::kCPU)),
          type_(at::autocast::get_autocast_dtype(at::kCPU))
    {
        at::autocast::set_autocast_enabled(
            at::kCPU, at::autocast::is_autocast_enabled(at::kPrivateUse1));
        at::autocast::set_autocast_dtype(at::kCPU,
                                         at::autocast::get_autocast_dtype(at::kPrivateUse1));
    }
    ~CastScope()
    {
        at::autocast::set_autocast_enabled(at::kCPU, enabled_);
        at::autocast::set_autocast_dtype(at::kCPU, type_);
    }
    CastScope(const CastScope &) = delete;
    CastScope &operator=(const CastScope &) = delete;

private:
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
        bool is_wanted = std::any_of(inputs.begin(), inputs.end(),
                                     [](const at::Tensor &t) { return t.requires_grad(); });
        Scratch scratch(layer->device.index());
        ScratchOwner owner(graph.get());
        Windows windows;
        variable_list results;

        graph->device = layer->device;
        {
            at::AutoGradMode mode(is_wanted);
            CastScope casts;

            stack_replace(layer->stack, [&](const at::Tensor &tensor) {
                at::Tensor alias = alias_make(tensor, false);

                windows.open(tensor);
                if (tensor.requires_grad())
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
            graph->held = inputs.vec();
            for (at::Tensor &held : graph->held)
                held = held.detach();
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
        variable_list outputs, given, wanted, found, results;
        ScratchOwner owner(graph.get());
        Exchange exchange;
        Windows windows;

        (void)context->get_saved_variables(); /* refuses inputs that were changed since */
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
};

/* Whether some argument has no memory of its own: fake tensors, functional wrappers. */
bool is_traced(const torch::jit::Stack &stack, size_t begin, variable_list &tensors)
{
    bool found = false;
    auto see = [&](const at::Tensor &tensor) {
        if (!is_acre(tensor))
            return;
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

    if (is_traced(*stack, begin, tensors) || tensors.empty() ||
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
    Layer layer = {op, arguments, device};

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
