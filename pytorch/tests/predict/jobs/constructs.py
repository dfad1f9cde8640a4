# SPDX-License-Identifier: MIT
"""Everything that scripts say about CUDA, one construct after the other.

Each function returns what a test looks at; one that raises is reported with its error.
"""
import json
import os
import pickle
import sys
import tempfile
import traceback
import warnings

import torch
from torch import nn

FOUND = {}
MIB = 1 << 20


def construct(function):
    """Runs a construct and notes its answer."""
    try:
        FOUND[function.__name__] = function()
    except Exception as error:  # each is a test of its own
        traceback.print_exc()
        FOUND[function.__name__] = f"{type(error).__name__}: {error}"[:500]
    torch.cuda.empty_cache()
    return function


def model(width=256):
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1),
                         nn.Linear(4 * width, width))


@construct
def availability():
    return [torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.current_device(),
            torch.cuda.get_device_name(0), list(torch.cuda.get_device_capability()),
            torch.cuda.get_device_properties("cuda").multi_processor_count,
            torch.version.cuda is not None, torch.backends.cudnn.is_available(),
            torch.cuda.is_bf16_supported()]


@construct
def names_of_devices():
    tensors = [torch.zeros(3, device="cuda"), torch.zeros(3).cuda(), torch.zeros(3).to("cuda:1"),
               torch.zeros(3, device=torch.device("cuda", 1)), torch.zeros(3).to(1)]
    with torch.cuda.device(1):
        tensors.append(torch.zeros(3, device="cuda"))
    torch.cuda.set_device(1)
    tensors.append(torch.zeros(3).cuda())
    torch.cuda.set_device(0)
    return [str(tensor.device) for tensor in tensors] + [tensors[0].is_cuda,
                                                         tensors[0].get_device(),
                                                         tensors[0].type()]


@construct
def default_device():
    torch.set_default_device("cuda")
    try:
        return str(nn.Linear(3, 3).weight.device)
    finally:
        torch.set_default_device(None)


@construct
def pinned_memory():
    data = torch.utils.data.TensorDataset(torch.randn(16, 8), torch.arange(16))
    loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True, pin_memory=True)
    sums = 0
    for values, labels in loader:
        values = values.cuda(non_blocking=True)
        sums += labels.cuda(non_blocking=True).sum().item()
    buffer = torch.empty(1000, pin_memory=True)
    return [sums, str(values.device), torch.randn(5).pin_memory().is_pinned(), buffer.numel()]


@construct
def workers():
    data = torch.utils.data.TensorDataset(torch.randn(16, 8))
    loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=2)
    return [str(batch[0].cuda().device) for batch in loader]


@construct
def training_with_scaler():
    net, losses = model().cuda(), []
    optimizer = torch.optim.AdamW(net.parameters())
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(2):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.float16):
            loss = net(torch.randn(32, 256, device="cuda")).square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    return [str(loss.dtype), len(optimizer.state), losses]


@construct
def optimizers():
    counts = {}
    for kind, options in (("SGD", {"momentum": 0.9}), ("Adam", {}), ("AdamW", {"fused": True}),
                          ("AdamW", {"foreach": False}), ("RMSprop", {}), ("Adagrad", {}),
                          ("Adamax", {}), ("NAdam", {}), ("Adadelta", {}), ("Adafactor", {})):
        net = model(64).cuda()
        optimizer = getattr(torch.optim, kind)(net.parameters(), lr=1e-3, **options)
        net(torch.randn(4, 64, device="cuda")).sum().backward()
        optimizer.step()
        counts[kind + str(options)] = len(optimizer.state)
    return counts


@construct
def statistics():
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    block = torch.empty(10 * MIB, dtype=torch.uint8, device="cuda")
    held = torch.cuda.memory_allocated() - before
    del block
    stats = torch.cuda.memory_stats()
    free, total = torch.cuda.mem_get_info()
    return [held, torch.cuda.memory_allocated() - before,
            torch.cuda.max_memory_allocated() - before, torch.cuda.memory_reserved() > 0,
            stats["allocation.all.current"] >= 0, free < total,
            "GPU reserved memory" in torch.cuda.memory_summary()]


@construct
def empty_cache():
    block = torch.empty(40 * MIB, dtype=torch.uint8, device="cuda")
    held = torch.cuda.memory_reserved()
    del block
    torch.cuda.empty_cache()
    return held - torch.cuda.memory_reserved()


@construct
def streams_and_events():
    side = torch.cuda.Stream()
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    before = torch.cuda.memory_reserved()
    with torch.cuda.stream(side):
        inside = torch.cuda.current_stream() == side
        block = torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
    del block
    torch.cuda.current_stream().wait_stream(side)
    other = torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
    grown = torch.cuda.memory_reserved() - before
    other.record_stream(side)
    end.record()
    torch.cuda.synchronize()
    return [inside, grown, start.elapsed_time(end) >= 0, torch.cuda.current_stream() == side]


@construct
def compiled():
    net = torch.compile(model().cuda())
    square = torch.compile(lambda x: x * x)

    @torch.compile(mode="reduce-overhead")
    def cube(x):
        return x ** 3
    value = cube(square(net(torch.randn(2, 256, device="cuda"))))
    return list(value.shape)


@construct
def data_parallel():
    nn.DataParallel(model())


@construct
def values_of_small_tensors():
    mask = torch.ones(4, 8, dtype=torch.int64).cuda()
    positions = torch.arange(10, device="cuda")
    return [bool((mask == 1).all()), positions.sum().item(), positions[positions > 6].tolist(),
            torch.nonzero(positions > 6).shape[0], positions.max().item(), mask.sum(1).tolist()]


@construct
def values_that_are_guessed():
    noise = torch.randn(100, device="cuda")
    chosen = noise[noise > 0]
    return [noise.sum().item(), bool(torch.isnan(noise).any()), chosen.shape[0],
            torch.unique(noise).shape[0], noise.tolist()[:2], str(noise)[:6]]


@construct
def host_and_back():
    there = torch.randn(100, 100, device="cuda")
    back = there.cpu()
    large = torch.randn(3000, 3000)
    mixed = (large @ large).mean()
    return [str(back.device), list(there.half().cpu().numpy().shape), mixed.item(),
            large.cuda().to(torch.bfloat16).dtype == torch.bfloat16]


@construct
def recurrent():
    found = []
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        net = kind(16, 32, 2, batch_first=True).cuda()
        out, _ = net(torch.randn(4, 7, 16, device="cuda"))
        out.sum().backward()
        found.append([list(out.shape), net.weight_hh_l0.grad is not None])
    return found


@construct
def attention():
    found = []
    for dtype, mask in ((torch.bfloat16, None), (torch.float32, None), (torch.bfloat16, "bool"),
                        (torch.float64, None)):
        query = torch.randn(2, 4, 48, 32, device="cuda", dtype=dtype, requires_grad=True)
        given = torch.ones(48, 48, dtype=torch.bool, device="cuda").tril() if mask else None
        out = nn.functional.scaled_dot_product_attention(query, query, query, attn_mask=given)
        out.sum().backward()
        found.append(out.grad_fn.name() if hasattr(out.grad_fn, "name") else "")
    layer = nn.TransformerEncoderLayer(32, 4, batch_first=True).cuda()
    layer(torch.randn(2, 6, 32, device="cuda")).sum().backward()
    layer.eval()
    with torch.no_grad():
        layer(torch.randn(2, 6, 32, device="cuda"))
    return found


@construct
def convolutions():
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
                        nn.MaxPool2d(2), nn.ConvTranspose2d(8, 4, 2, 2), nn.GroupNorm(2, 4),
                        nn.Upsample(scale_factor=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                        nn.Linear(4, 10)).cuda()
    loss = nn.CrossEntropyLoss()(net(torch.randn(2, 3, 16, 16, device="cuda")),
                                 torch.tensor([1, 2]).cuda())
    loss.backward()
    net = net.to(memory_format=torch.channels_last)
    net(torch.randn(2, 3, 16, 16, device="cuda").to(memory_format=torch.channels_last))
    return [nn.Conv1d(4, 4, 3).cuda()(torch.randn(1, 4, 9, device="cuda")).shape[2],
            nn.Conv3d(2, 2, 2).cuda()(torch.randn(1, 2, 4, 4, 4, device="cuda")).dim()]


@construct
def files():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "weights.pt")
        net = model()
        torch.save({"model": net.state_dict(), "step": 7}, path)
        loaded = torch.load(path, map_location="cuda")
        again = model().cuda()
        again.load_state_dict(loaded["model"])
        host = torch.load(path, weights_only=True)
        torch.save(again.state_dict(), path)
        return [str(loaded["model"]["0.weight"].device), loaded["step"],
                str(host["model"]["0.weight"].device), list(again[0].weight.shape)]


@construct
def checkpointing():
    from torch.utils.checkpoint import checkpoint
    net = model().cuda()
    x = torch.randn(8, 256, device="cuda", requires_grad=True)
    checkpoint(net, x, use_reentrant=False).sum().backward()
    checkpoint(net, x, use_reentrant=True).sum().backward()
    return net[0].weight.grad is not None


@construct
def functions_of_one_own():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2 + ctx.saved_tensors[0] * 0
    x = torch.randn(5, device="cuda", requires_grad=True)
    Double.apply(x).sum().backward()
    return list(x.grad.shape)


@construct
def generators_and_seeds():
    torch.manual_seed(1)
    torch.cuda.manual_seed_all(2)
    generator = torch.Generator(device="cuda")
    generator.manual_seed(3)
    state = torch.cuda.get_rng_state()
    torch.cuda.set_rng_state(state)
    return [list(torch.randn(3, device="cuda", generator=generator).shape),
            list(torch.randperm(5, device="cuda").shape), str(generator.device)]


def pool_bytes(pool):
    """What a private pool holds of the device."""
    return sum(segment["total_size"] for segment in torch.cuda.memory_snapshot(pool))


@construct
def graphs():
    graph, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    net = nn.Linear(64, 64).cuda()
    static = torch.zeros(4, 64, device="cuda")
    with torch.cuda.graph(graph):
        inside = torch.cuda.is_current_stream_capturing()
        out = net(static)
        out.sum().backward()
        block = torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
    graph.replay()
    with torch.cuda.graph(second, pool=graph.pool()):
        other = torch.empty(5, device="cuda")
    pool = graph.pool()
    held = pool_bytes(pool)
    del block
    torch.cuda.empty_cache()
    kept = pool_bytes(pool)
    del graph, second, out, other
    net.zero_grad()
    torch.cuda.empty_cache()
    made = torch.cuda.make_graphed_callables(net, (static.clone().requires_grad_(),))
    made(torch.ones(4, 64, device="cuda", requires_grad=True)).sum().backward()
    return [inside, held >= 30 * MIB, kept == held, pool_bytes(pool) < held,
            torch.cuda.is_current_stream_capturing(), net.weight.grad is not None]


@construct
def pools():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        block = torch.empty(12 * MIB, dtype=torch.uint8, device="cuda")
    outside = torch.empty(12 * MIB, dtype=torch.uint8, device="cuda")
    return [block.is_cuda and outside.is_cuda, pool_bytes(pool.id)]


@construct
def recording():
    before = torch.empty(MIB, device="cuda")
    torch.cuda.memory._record_memory_history(max_entries=1000)
    inside = torch.empty(3, device="cuda")
    del before
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "snapshot.pickle")
        torch.cuda.memory._dump_snapshot(path)
        with open(path, "rb") as snapshot:
            events = pickle.load(snapshot)["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    return [[event["action"], event["size"]] for event in events] + [
        inside.is_cuda, len(torch.cuda.memory._snapshot()["device_traces"][0])]


@construct
def uses_on_other_streams():
    """A block that another stream uses is not handed out before its free is complete."""
    side = torch.cuda.Stream()
    first = torch.empty(40 * MIB, dtype=torch.uint8, device="cuda")
    first.record_stream(side)
    before = torch.cuda.memory_stats()["active_bytes.all.current"]
    del first
    waiting = torch.cuda.memory_stats()["active_bytes.all.current"]
    second = torch.empty(1, device="cuda")
    after = torch.cuda.memory_stats()["active_bytes.all.current"]
    return [before == waiting, after - before + 40 * MIB, second.numel()]


@construct
def backward_on_a_stream():
    """The backward pass works on the stream of the forward pass."""
    side = torch.cuda.Stream()
    x = torch.randn(512, 512, device="cuda", requires_grad=True)
    torch.cuda.memory._record_memory_history(max_entries=1000)
    with torch.cuda.stream(side):
        (x * x).sum().backward()
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    return len({event["stream"] for event in events if event["action"] == "alloc"
                and event["size"] >= MIB})


@construct
def indexing():
    table = nn.Embedding(100, 16).cuda()
    tokens = torch.randint(0, 100, (4, 9), device="cuda")
    out = table(tokens)
    out[:, 0] = 0
    out[tokens > 50] = 1
    out.sum().backward()
    scores = torch.randn(4, 50, device="cuda")
    values, places = scores.topk(5)
    ranked, order = scores.sort(descending=True)
    picked = scores.gather(1, places)
    scores.scatter_(1, places, values)
    one = nn.functional.one_hot(torch.tensor([1, 2], device="cuda"), 5)
    return [list(picked.shape), list(order.shape), list(one.shape),
            list(torch.multinomial(scores.softmax(-1), 2).shape),
            list(torch.cumsum(ranked, 1).shape),
            list(torch.einsum("ij,kj->ik", scores, scores).shape),
            list(torch.where(scores > 0)[0].shape) != []]


@construct
def linear_algebra():
    square = torch.randn(6, 6, device="cuda")
    return [list(torch.linalg.inv(square).shape), list(torch.linalg.svd(square)[1].shape),
            list(torch.linalg.solve(square, square).shape), list(torch.linalg.qr(square)[0].shape),
            list(torch.fft.rfft(square).shape), torch.linalg.norm(square).item()]


@construct
def copies_of_models():
    import copy
    net = model().cuda()
    twin = copy.deepcopy(net)
    for first, second in zip(net.parameters(), twin.parameters()):
        first.data.lerp_(second.data, 0.5)
    half = copy.deepcopy(net).half()
    torch.cuda.memory._record_memory_history()
    best = copy.deepcopy(net.state_dict())
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    return [twin[0].weight.data_ptr() != net[0].weight.data_ptr(), str(half[0].weight.dtype),
            str(best["0.weight"].device), list(best["0.weight"].shape),
            [event["size"] for event in events if event["action"] == "alloc"],
            str(torch.zeros(3).untyped_storage().cuda().device)]


@construct
def attention_without_gradients():
    """As it was recorded: the mask with rows of 32, the output, nothing else."""
    query = torch.randn(8, 12, 31, 64, device="cuda")
    mask = torch.zeros(8, 1, 31, 31, device="cuda")
    torch.cuda.memory._record_memory_history()
    with torch.no_grad():
        nn.functional.scaled_dot_product_attention(query, query, query, attn_mask=mask)
    events = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    return [event["size"] for event in events if event["action"] == "alloc"]


@construct
def quantized_linear():
    known = torch.tensor([1, 2, 3], device="cuda")  # its values are remembered meanwhile
    weight = torch.randint(-128, 127, (64, 64), dtype=torch.int8, device="cuda")
    x = torch.randn(32, 64, device="cuda").to(torch.float8_e4m3fn)
    return [list(torch._int_mm(weight, weight).shape), str(x.dtype), known.tolist()]


warnings.simplefilter("ignore")
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump(FOUND, file)
