# SPDX-License-Identifier: MIT
"""Small programs as people write them, one after the other: programs.py FOUND.json

Each function trains something and returns what a test looks at: first how many bytes more
are allocated after it than its parameters, buffers, gradients and optimizer state take.
"""
import copy
import json
import os
import sys
import tempfile
import traceback
import warnings

import torch
import torch.nn.functional as F
from torch import nn

FOUND = {}


def program(function):
    """Runs a program and notes its answer."""
    try:
        FOUND[function.__name__] = function()
    except Exception as error:  # each is a test of its own
        traceback.print_exc()
        FOUND[function.__name__] = f"{type(error).__name__}: {error}"[:500]
    torch.cuda.empty_cache()
    return function


def rounded(tensors):
    """Bytes of the blocks behind tensors, each counted once."""
    sizes = {tensor.data_ptr(): -(-tensor.nbytes // 512) * 512 for tensor in tensors
             if tensor is not None and tensor.is_cuda and tensor.numel()}
    return sum(sizes.values())


def surplus(before, *things):
    """Bytes allocated since a moment beyond what models and optimizers hold."""
    tensors = []
    for thing in things:
        if isinstance(thing, torch.optim.Optimizer):
            tensors += [value for state in thing.state.values() for value in state.values()
                        if isinstance(value, torch.Tensor)]
        elif isinstance(thing, nn.Module):
            tensors += [*thing.parameters(), *thing.buffers()]
            tensors += [parameter.grad for parameter in thing.parameters()]
        else:
            tensors.append(thing)
    return torch.cuda.memory_allocated() - before - rounded(tensors)


def warm():
    """Workspaces of both threads of a backward pass stay; they are made first."""
    weight = torch.randn(8, 8, device="cuda", requires_grad=True)
    (weight @ weight).sum().backward()
    return torch.cuda.memory_allocated()


warm()


@program
def classification():
    """Images, mixed precision by the old names, a scheduler, checkpoints of the training."""
    from torch.cuda.amp import GradScaler, autocast
    before = torch.cuda.memory_allocated()
    data = torch.utils.data.TensorDataset(torch.randn(32, 3, 32, 32),
                                          torch.randint(0, 10, (32,)))
    loader = torch.utils.data.DataLoader(data, 8, shuffle=True, num_workers=1, pin_memory=True)
    model = nn.Sequential(nn.Conv2d(3, 16, 7, 2, 3, bias=False), nn.BatchNorm2d(16),
                          nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1), nn.Conv2d(16, 32, 3, 2),
                          nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    model = model.to("cuda", memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, nesterov=True)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, epochs=2,
                                                    steps_per_epoch=len(loader))
    scaler = GradScaler()
    correct = 0
    for step, (images, labels) in enumerate(loader):
        images = images.to("cuda", non_blocking=True, memory_format=torch.channels_last)
        labels = labels.to("cuda", non_blocking=True)
        with autocast():
            outputs = model(images)
            loss = F.cross_entropy(outputs, labels, label_smoothing=0.1) / 2
        scaler.scale(loss).backward()
        if step % 2:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            if step < 3:
                optimizer.zero_grad(set_to_none=True)
        correct += (outputs.argmax(1) == labels).sum().item()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "training.pt")
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)
        saved = torch.load(path, map_location="cuda", weights_only=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        del saved
    del images, labels, outputs, loss
    return [surplus(before, model, optimizer, scaler._scale, scaler._growth_tracker), correct,
            len(optimizer.state)]


@program
def encoder():
    """A vision transformer, made on the device, with a fused optimizer."""
    before = torch.cuda.memory_allocated()
    with torch.device("cuda"):
        layer = nn.TransformerEncoderLayer(64, 4, 128, activation="gelu", batch_first=True,
                                           norm_first=True)
        model = nn.ModuleDict({"patch": nn.Conv2d(3, 64, 16, 16), "head": nn.Linear(64, 10),
                               "body": nn.TransformerEncoder(layer, 2,
                                                             enable_nested_tensor=False)})
    del layer
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3, fused=True)
    for _ in range(2):
        images = torch.rand(4, 3, 64, 64, device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            tokens = model["patch"](images).flatten(2).transpose(1, 2)
            logits = model["head"](model["body"](tokens).mean(1))
            loss = F.cross_entropy(logits, torch.zeros(4, dtype=torch.long, device="cuda"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    share = (logits.argmax(-1) == 0).float().mean().item()
    del images, tokens, logits, loss
    return [surplus(before, model, optimizer), share]


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.down = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 32, 3, 2, 1)
        self.norm, self.mix = nn.GroupNorm(8, 32), nn.Conv2d(32, 96, 1)
        self.last = nn.Conv2d(48, 3, 3, padding=1)

    def attend(self, x):
        batch, width, high, wide = x.shape
        query, key, value = self.mix(self.norm(x)).reshape(
            batch, 3, 4, width // 4, high * wide).permute(1, 0, 2, 4, 3).unbind(0)
        mixed = F.scaled_dot_product_attention(query, key, value)
        return x + mixed.permute(0, 1, 3, 2).reshape(x.shape)

    def forward(self, x, time):
        skip = F.silu(self.first(x) + time.view(-1, 1, 1, 1))
        inner = torch.utils.checkpoint.checkpoint(self.attend, self.down(skip),
                                                  use_reentrant=False)
        up = F.interpolate(inner, scale_factor=2, mode="bilinear", align_corners=False)
        return self.last(torch.cat([up, skip], 1))


@program
def diffusion():
    """A U-Net with attention, an average of its weights, steps only for finite gradients."""
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
    before = torch.cuda.memory_allocated()
    model = Denoiser().cuda()
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))
    optimizer = torch.optim.Adam(model.parameters(), 2e-4)
    products = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 100, device="cuda"), 0)
    for _ in range(2):
        images = torch.randn(2, 3, 16, 16, device="cuda")
        time = torch.randint(0, 100, (2,), device="cuda")
        noise, kept = torch.randn_like(images), products[time].view(-1, 1, 1, 1)
        loss = F.mse_loss(model(kept.sqrt() * images + (1 - kept).sqrt() * noise, time), noise)
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if torch.isfinite(norm):
            optimizer.step()
            average.update_parameters(model)
    with torch.no_grad():
        shown = average(images, time).clamp(-1, 1).mul(127).byte().cpu().numpy().shape
    steps = len(optimizer.state)
    del images, time, noise, kept, loss, norm
    return [surplus(before, model, average, optimizer, products), steps, list(shown)]


@program
def recurrence():
    """A language model with truncated backward passes, packed sequences, cells, a CTC loss."""
    from torch.nn.utils import rnn
    table = nn.Embedding(100, 16, padding_idx=0).cuda()
    net, head = nn.LSTM(16, 32, 2, dropout=0.2, batch_first=True).cuda(), nn.Linear(32, 100).cuda()
    state, tokens = None, torch.randint(1, 100, (4, 21)).cuda()
    for start in (0, 10):
        out, state = net(table(tokens[:, start:start + 10]), state)
        state = tuple(part.detach() for part in state)
        F.cross_entropy(head(out).flatten(0, 1),
                        tokens[:, start + 1:start + 11].flatten()).backward()
    parts = [torch.randint(1, 100, (length,)) for length in (9, 7, 4)]
    packed = rnn.pack_padded_sequence(table(rnn.pad_sequence(parts, True).cuda()),
                                      torch.tensor([9, 7, 4]), True)
    both = nn.GRU(16, 8, bidirectional=True, batch_first=True).cuda()
    out, lengths = rnn.pad_packed_sequence(both(packed)[0], batch_first=True)
    out.sum().backward()
    x = torch.randn(4, 16, device="cuda")
    gru, lstm = nn.GRUCell(16, 32).cuda(), nn.LSTMCell(16, 32).cuda()
    (gru(x, gru(x)).sum() + lstm(x, lstm(x))[0].sum()).backward()
    chances = torch.randn(20, 2, 30, device="cuda").log_softmax(-1).requires_grad_()
    nn.CTCLoss()(chances, torch.randint(1, 30, (2, 5), device="cuda"), torch.tensor([20, 20]),
                 torch.tensor([5, 4])).backward()
    return [list(out.shape), lengths.tolist(), list(gru.weight_hh.grad.shape),
            list(lstm.weight_hh.grad.shape), list(chances.grad.shape)]


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(width), nn.Linear(width, 3 * width)
        self.inner = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(approximate="tanh"),
                                   nn.Linear(4 * width, width), nn.Dropout(0.1))

    def forward(self, x):
        parts = self.mix(self.norm(x)).unflatten(-1, (3, 4, -1)).unbind(2)
        query, key, value = (part.transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True,
                                               dropout_p=0.1 if self.training else 0)
        return x + self.inner(x + mixed.transpose(1, 2).flatten(2))


@program
def generation():
    """A language model with each kernel of attention: what it needs, and sampling from it."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    peaks, left = [], []
    for kernel in (SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH):
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        model = nn.Sequential(nn.Embedding(200, 64), Block(64), Block(64), nn.Linear(64, 200))
        model = torch.compile(model.cuda())
        wide = [parameter for parameter in model.parameters() if parameter.dim() > 1]
        rest = [parameter for parameter in model.parameters() if parameter.dim() < 2]
        optimizer = torch.optim.AdamW([{"params": wide, "weight_decay": 0.1}, {"params": rest}])
        with sdpa_kernel(kernel):
            for step in range(4):
                tokens = torch.randint(200, (4, 128)).pin_memory().to("cuda", non_blocking=True)
                with torch.autocast("cuda", torch.bfloat16):
                    loss = F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()) / 2
                loss.backward()
                if step % 2:
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=True)
        peaks.append(torch.cuda.max_memory_allocated() - before)
        model.eval()
        tokens = torch.zeros(1, 1, dtype=torch.long, device="cuda")
        with torch.no_grad():
            for _ in range(3):
                logits = model(tokens)[:, -1]
                least = logits.topk(5)[0][:, [-1]]
                logits[logits < least] = -float("inf")
                tokens = torch.cat((tokens, torch.multinomial(logits.softmax(-1), 1)), 1)
        del loss, logits, least
        left.append(surplus(before, model, optimizer, tokens))
        length = tokens.shape[1]
        del model, optimizer, wide, rest, tokens
    return [max(peaks[:2]) < peaks[2], length, left]


@program
def adapters():
    """A frozen model in bfloat16 with small layers that learn."""
    class Adapter(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base = base.requires_grad_(False)
            self.down = nn.Parameter(torch.randn(4, base.in_features, dtype=torch.bfloat16))
            self.up = nn.Parameter(torch.zeros(base.out_features, 4, dtype=torch.bfloat16))

        def forward(self, x):
            return self.base(x) + (x @ self.down.T) @ self.up.T

    before = torch.cuda.memory_allocated()
    model = nn.Sequential(*[nn.Sequential(nn.Linear(256, 256), nn.ReLU()) for _ in range(3)])
    model.to(torch.bfloat16)
    for part in model:
        part[0] = Adapter(part[0])
    model.cuda()
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learning, 1e-4, foreach=True)
    for _ in range(2):
        loss = model(torch.randn(8, 256, device="cuda", dtype=torch.bfloat16)).float().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    del loss
    return [surplus(before, model, optimizer), len(optimizer.state)]


@program
def captured_training():
    """Whole training steps in graphs, with optimizers that allow it."""
    done = []
    for kind, settings in (("Adam", {}), ("AdamW", {"fused": True}), ("RMSprop", {})):
        model = nn.Linear(32, 8).cuda()
        optimizer = getattr(torch.optim, kind)(model.parameters(), capturable=True, **settings)
        inputs, side = torch.randn(4, 32).cuda(), torch.cuda.Stream()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(side):
            for _ in range(2):
                optimizer.zero_grad(set_to_none=True)
                model(inputs).square().mean().backward()
                optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            loss = model(inputs).square().mean()
            loss.backward()
            optimizer.step()
        inputs.copy_(torch.randn(4, 32))
        graph.replay()
        done.append([len(optimizer.state), loss.item() >= 0])
        model.zero_grad()
    plain = torch.optim.Adam(model.parameters())
    model(inputs).sum().backward()
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            plain.step()
    except RuntimeError as error:
        done.append("capturable" in str(error))
    return done


@program
def branches():
    """Values that are not there, and tests of them that a sound program passes."""
    x = torch.randn(64, 64, device="cuda")
    count = 0
    while x.square().sum() > 1000 and count < 5:
        count += 1
    chosen = torch.distributions.Categorical(logits=x).sample()
    assert torch.isfinite(x).all() and not torch.isnan(x).any()
    assert torch.allclose(x, x)
    return [count, "positive" if x.mean().item() > 0 else "not positive", list(chosen.shape),
            x[x > 1].shape[0], torch.nonzero(x, as_tuple=True)[0].shape[0], (x % 1).dim(),
            list(F.grid_sample(torch.randn(1, 3, 8, 8, device="cuda"),
                               torch.zeros(1, 4, 4, 2, device="cuda"),
                               align_corners=False).shape)]


@program
def old_types():
    """Names of types as they were."""
    found = [list(torch.cuda.FloatTensor(3, 4).shape), torch.cuda.LongTensor([1, 2]).tolist(),
             str(torch.ones(2).type(torch.cuda.HalfTensor).dtype),
             str(torch.ones(2).type("torch.cuda.DoubleTensor").device),
             isinstance(torch.ones(2, device="cuda"), torch.cuda.FloatTensor)]
    torch.set_default_tensor_type("torch.cuda.FloatTensor")
    found.append(str(torch.zeros(2).device))
    torch.set_default_tensor_type("torch.FloatTensor")
    return found + [str(torch.zeros(2).device), torch.ones(2, device="cuda").type()]


@program
def functions():
    """Gradients of gradients, of each sample, of a traced function; hooks; profiles."""
    from torch.func import functional_call, grad, vmap
    net = nn.Sequential(nn.Linear(16, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1)).cuda()
    x = torch.randn(4, 16, device="cuda", requires_grad=True)
    slope = torch.autograd.grad(net(x).sum(), x, create_graph=True)[0]
    (slope.norm(2, 1) - 1).square().mean().backward()
    weights = {name: weight.detach() for name, weight in net.named_parameters()}
    each = vmap(grad(lambda held, row: functional_call(net, held, row[None]).sum()), (None, 0))(
        weights, x.detach())
    hook = net[0].register_forward_hook(lambda module, args, out: out * 1)
    twin = copy.deepcopy(net)
    hook.remove()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        twin(x)
    return [list(each["0.weight"].shape), list(torch.jit.trace(net, x)(x).shape),
            len(profile.key_averages()) > 0]


@program
def safetensors():
    """Weights in a file of another library."""
    from safetensors.torch import load_file, safe_open, save_file
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "weights.safetensors")
        save_file({"wide": torch.randn(300, 500), "short": torch.randn(4)}, path)
        before = torch.cuda.memory_allocated()
        loaded = load_file(path, device="cuda")
        held = torch.cuda.memory_allocated() - before
        with safe_open(path, "pt", device="cuda:0") as file:
            part = file.get_slice("wide")[:10]
        return [held, list(loaded["wide"].shape), list(part.shape), str(part.device)]


warnings.simplefilter("ignore")
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump(FOUND, file)
