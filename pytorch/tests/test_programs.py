# SPDX-License-Identifier: MIT
"""Programs as users write them: what PyTorch does around the operators."""
import multiprocessing

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import torch_acre  # noqa: F401


# ---- Checkpoints -----------------------------------------------------------------------


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_a_checkpoint_drops_the_same_elements_again(use_reentrant):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.5),
                                torch.nn.Linear(8, 8)).to("acre")
    inputs = torch.randn(4, 8).to("acre").requires_grad_()

    def gradient(run):
        inputs.grad = None
        torch.acre.manual_seed(2)
        run().sum().backward()
        return inputs.grad

    plain = gradient(lambda: model(inputs))
    again = gradient(lambda: checkpoint(model, inputs, use_reentrant=use_reentrant))
    assert torch.equal(plain, again)


def test_asking_whether_the_devices_run_starts_none(run_python):
    done = run_python("import torch, torch_acre\n"
                      "print(torch.acre._initialized, torch.acre.is_initialized())\n"
                      "torch.ones(1, device='acre')\n"
                      "print(torch.acre._initialized)")
    assert done.stdout.split() == ["False", "False", "True"]


# ---- Attention -------------------------------------------------------------------------


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_attention_is_compiled(is_dynamic):
    def attend(query, mask):
        return torch.nn.functional.scaled_dot_product_attention(query, query, query, mask)

    torch._dynamo.reset()
    compiled = torch.compile(attend, backend="aot_eager", fullgraph=True, dynamic=is_dynamic)
    for length in (16, 24):
        query = torch.randn(2, 4, length, 8).to("acre").requires_grad_()
        mask = torch.ones(length, length, dtype=torch.bool).tril().to("acre")
        wanted, got = attend(query, mask), compiled(query, mask)
        assert torch.equal(wanted, got)
        assert torch.equal(*(torch.autograd.grad(result.square().sum(), query)[0]
                             for result in (wanted, got)))


def test_attention_is_exported():
    class Attention(torch.nn.Module):
        def forward(self, query):
            return torch.nn.functional.scaled_dot_product_attention(query, query, query)

    query = torch.randn(2, 4, 16, 8).to("acre")
    exported = torch.export.export(Attention(), (query,))
    assert torch.equal(exported.module()(query), Attention()(query))


def test_a_transformer_with_padding_is_evaluated():
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2).eval()
    inputs = torch.randn(3, 5, 16)
    padding = torch.arange(5) >= torch.tensor([[5], [3], [2]])
    with torch.inference_mode():
        wanted = model(inputs, src_key_padding_mask=padding)
        model.to("acre")
        got = model(inputs.to("acre"), src_key_padding_mask=padding.to("acre"))
    assert torch.equal(got.cpu(), wanted)


# ---- Nested tensors --------------------------------------------------------------------


def _nested(device):
    torch.manual_seed(3)
    parts = [torch.randn(3, 4).to(device).requires_grad_(),
             torch.randn(2, 4).to(device).requires_grad_()]
    layer = torch.nn.Linear(4, 4).to(device)
    nested = torch.nested.as_nested_tensor(parts)
    result = torch.softmax(torch.relu(layer(nested)) * 2 + nested, -1)
    padded = torch.nested.to_padded_tensor(result, 0.0)
    padded.square().sum().backward()
    plain = nested.detach()
    twice = plain.clone().mul_(2)
    return [padded, *(part.grad for part in parts), *(p.grad for p in layer.parameters()),
            *plain.unbind(), *twice.unbind(), plain[1], *plain.cpu().unbind(),
            *plain.double().unbind(), *plain.transpose(1, 2).contiguous().unbind()]


def test_nested_tensors_equal_cpu():
    before = torch.acre.memory_allocated()
    for got, wanted in zip(_nested("acre"), _nested("cpu"), strict=True):
        assert torch.equal(got.cpu(), wanted)
    del got
    assert torch.acre.memory_allocated() == before
    assert "acre:0" in repr(torch.nested.nested_tensor([torch.ones(2)], device="acre"))


# ---- Recurrent layers --------------------------------------------------------------------


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
@pytest.mark.parametrize("is_cast", [False, True])
def test_gradients_of_gradients_through_recurrent_layers(kind, is_cast):
    def gradients(device):
        torch.manual_seed(3)
        model = kind(4, 5, num_layers=2, bidirectional=True).to(device)
        inputs = torch.randn(3, 2, 4).to(device).requires_grad_()
        with torch.autocast(device, dtype=torch.bfloat16, enabled=is_cast):
            result, _ = model(inputs * 2)
        first, = torch.autograd.grad(result.float().square().sum(), inputs, create_graph=True)
        first.square().sum().backward()
        return [inputs.grad.cpu(), *(p.grad.cpu() for p in model.parameters())]

    for got, wanted in zip(gradients("acre"), gradients("cpu"), strict=True):
        tolerance = 0.05 if is_cast else 1e-5
        assert wanted.abs().max() > 0
        assert torch.allclose(got, wanted, rtol=tolerance, atol=tolerance * wanted.abs().max())


def test_recurrent_layers_without_gradients_equal_cpu():
    model = torch.nn.LSTM(4, 6, 2)
    inputs = torch.randn(3, 5, 4)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            wanted, _ = model.to("cpu")(inputs)
            got, _ = model.to("acre")(inputs.to("acre"))
        assert torch.equal(got.cpu(), wanted)


def test_a_process_may_end_right_after_its_last_gradient(run_python):
    for _ in range(5):
        run_python("""
import torch, torch_acre
model = torch.nn.LSTM(4, 5).to("acre")
result, _ = model(torch.randn(3, 2, 4, device="acre"))
result.sum().backward()
""", ACRE_TORCH_STRICT=1)


# ---- Other processes -----------------------------------------------------------------------


def _describe(tensor):
    return (str(tensor.device), str(tensor.dtype), str(tensor.layout), tuple(tensor.shape),
            tensor.requires_grad, type(tensor).__name__, tensor.detach().to_dense().tolist())


def _answer(queue, back):
    import torch_acre  # noqa: F401
    while (tensor := queue.get()) is not None:
        back.put(_describe(tensor))
        del tensor


def test_tensors_of_every_kind_go_through_queues():
    context = multiprocessing.get_context("spawn")
    queue, back = context.Queue(), context.Queue()
    child = context.Process(target=_answer, args=(queue, back), daemon=True)
    child.start()
    there = torch.arange(6.0, device="acre:1").reshape(2, 3)
    complex_there = torch.complex(there, there)
    tensors = [there.to_sparse(), there.to_sparse().requires_grad_(), there[:, 1:],
               torch.empty(0, 3, dtype=torch.int64, device="acre:1"),
               torch.empty(0, 3, device="acre", requires_grad=True),
               torch.nn.Parameter(torch.empty(0, 3, device="acre"), requires_grad=False),
               complex_there.conj(), complex_there.conj().imag]
    for tensor in tensors:
        queue.put(tensor)
        assert back.get(timeout=120) == _describe(tensor)
    queue.put(None)
    child.join(120)
    assert child.exitcode == 0


def test_results_are_not_sent_with_their_graph():
    from multiprocessing.reduction import ForkingPickler
    result = torch.ones(2, 2, device="acre", requires_grad=True).to_sparse()
    with pytest.raises(RuntimeError, match="part of a graph"):
        ForkingPickler.dumps(result)


# ---- Devices mixed by mistake ----------------------------------------------------------------


@pytest.mark.parametrize("fill", ["rand(3, generator=g)", "randn(3, generator=g)",
                                  "rand(0, generator=g)", "ones(3).normal_(generator=g)",
                                  "nn.init.xavier_uniform_(torch.ones(3, 3), generator=g)"])
def test_a_generator_of_another_device_is_refused(fill, run_python):
    done = run_python("import torch, torch_acre\n"
                      "g = torch.Generator('acre')\n"
                      f"try: torch.{fill}\n"
                      "except RuntimeError as error: print(error)")
    assert done.stdout == "Expected a generator of device cpu but found one of acre:0\n"


@pytest.mark.parametrize("kind", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_recurrent_layers_of_two_devices_are_refused(kind):
    inputs, model = torch.randn(3, 2, 4), kind(4, 5)
    for mode in (torch.enable_grad, torch.inference_mode):
        with mode(), pytest.raises(RuntimeError, match="same device"):
            model.to("acre")(inputs)
        with mode(), pytest.raises(RuntimeError, match="same device"):
            model.to("cpu")(inputs.to("acre"))
        with mode(), pytest.raises(RuntimeError, match="same device"):
            model.to("acre")(inputs.to("acre"), torch.zeros(1, 2, 5) if kind is not torch.nn.LSTM
                             else (torch.zeros(1, 2, 5), torch.zeros(1, 2, 5)))


def test_embeddings_of_two_devices_are_refused():
    table, words = torch.randn(5, 3), torch.tensor([1, 2])
    with pytest.raises(RuntimeError, match="same device"):
        torch.nn.functional.embedding(words, table.to("acre"))
    with pytest.raises(RuntimeError, match="same device"):
        torch.nn.functional.embedding(words.to("acre"), table)
    with pytest.raises(RuntimeError, match="same device"):
        table.to("acre").index_add_(0, words, torch.ones(2, 3).to("acre"))
    assert torch.equal(table.to("acre")[words].cpu(), table[words])
