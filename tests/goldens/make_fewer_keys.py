"""Oracle of attention over fewer keys: PyPI's linformer and memory-compressed-attention, and adaptive spans by definition.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 safetensors linformer==0.2.3 memory-compressed-attention==0.0.7
    python make_fewer_keys.py

linformer.safetensors: `LinformerSelfAttention` (Wang et al. 2020) of 4 heads over a stream of 16 with k = 5 and a context of
12, in rows of 9 positions. Cases: `headwise`; `one_head`, with one head of keys and values; `key_value`, whose two
projections are one parameter; `layerwise`, two consecutive layers whose four projections are one parameter.
memory_compressed.safetensors: `MemoryCompressedAttention` (Liu et al. 2018) of 4 heads over a stream of 16, factor 3, 150
positions, a multiple of three; cases `causal` and `both`. It divides scores by the root of the stream's width; its convolution
has a group for each head and is shared by keys and values; and a learned key comes first. adaptive_span.safetensors:
Sukhbaatar et al. 2019, section 2.2: softmax weights over all keys, times the ramp of each head, divided by their sum; 4
heads over a stream of 16, spans of at most 60 with ramps of 4, 150 positions, distances from 0 at the query's own
position; cases `causal` and `both`.

Each file has `x`, `weight` (the gradients are those of the sum of outputs times it), and for each case `<case>.<name>` of every parameter,
`<case>.out`, `<case>.grad.x` and `<case>.grad.<name>`. All in float64, stored as float32.
"""

import torch
from linformer import LinformerSelfAttention
from memory_compressed_attention import MemoryCompressedAttention
from safetensors.torch import save_file
from shared import HERE, begin, seeded
from torch import nn


def drawn(name, *shape):
    return torch.randn(*shape, generator=seeded(name), dtype=torch.float64)


def redraw(case, module):
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            size = parameter.shape[-1] ** -0.5 if parameter.dim() > 1 else 0.3
            parameter.copy_(drawn(f"{case} {name}", *parameter.shape) * size)


def put(file, tensors):
    save_file({name: x.detach().float().contiguous() for name, x in tensors.items()}, f"{HERE}/{file}")


def noted(case, module, x, weight):
    """Records parameters, output and gradients of a module for these inputs."""
    x = x.clone().requires_grad_()
    out = module(x)
    (out * weight).sum().backward()
    file = {f"{case}.out": out, f"{case}.grad.x": x.grad}
    for name, parameter in module.named_parameters():
        assert parameter.grad.abs().max() > 0, name
        file |= {f"{case}.{name}": parameter, f"{case}.grad.{name}": parameter.grad}
    return file


def linformer():
    x, weight = drawn("linformer x", 2, 9, 16), drawn("linformer weight", 2, 9, 16)
    file = {"x": x, "weight": weight}
    make = lambda **more: LinformerSelfAttention(16, 12, k=5, heads=4, **more).double()
    one = make()
    one.proj_v = one.proj_k
    layers = nn.Sequential(make(), make())
    for layer in layers:
        layer.proj_k = layer.proj_v = layers[0].proj_k
    cases = {"headwise": make(), "one_head": make(one_kv_head=True), "key_value": one, "layerwise": layers}
    for case, module in cases.items():
        redraw(case, module)
        file |= noted(case, module, x, weight)
    put("linformer.safetensors", file)


def memory_compressed():
    x, weight = drawn("compressed x", 1, 150, 16), drawn("compressed weight", 1, 150, 16)
    file = {"x": x, "weight": weight}
    for case in ["causal", "both"]:
        module = MemoryCompressedAttention(16, heads=4, causal=case == "causal", compression_factor=3).double()
        redraw(case, module)
        file |= noted(case, module, x, weight)
    put("memory_compressed.safetensors", file)


class AdaptiveSpan(nn.Module):
    def __init__(self, causal):
        super().__init__()
        self.causal = causal
        for name in ["query", "key", "value", "output"]:
            setattr(self, name, nn.Linear(16, 16, bias=False))
        self.span = nn.Parameter(torch.zeros(4))

    def forward(self, x):
        heads = lambda x: x.unflatten(-1, (4, 4)).transpose(1, 2)
        q, k, v = (heads(map(x)) for map in [self.query, self.key, self.value])
        t = x.shape[1]
        distance = torch.arange(t)[:, None] - torch.arange(t)[None, :]
        scores = q @ k.transpose(2, 3) / 2
        if self.causal:
            scores = scores.masked_fill(distance < 0, float("-inf"))
        ramp = ((4 + self.span[:, None, None] * 60 - distance.abs()) / 4).clamp(0, 1)
        ramp = ramp * (distance.abs() < 60)
        weights = scores.softmax(-1) * ramp
        weights = weights / weights.sum(-1, keepdim=True)
        return self.output((weights @ v).transpose(1, 2).flatten(2))


def adaptive_span():
    x, weight = drawn("span x", 1, 150, 16), drawn("span weight", 1, 150, 16)
    file = {"x": x, "weight": weight}
    for case in ["causal", "both"]:
        module = AdaptiveSpan(case == "causal").double()
        redraw(case, module)
        with torch.no_grad():
            # No span or ramp ends exactly at a position, where the ramp has a kink; the last one is limited by the longest span.
            module.span.copy_(torch.tensor([0.005, 0.123, 0.51, 0.99]))
        file |= noted(case, module, x, weight)
    put("adaptive_span.safetensors", file)


begin(torch)
linformer()
memory_compressed()
adaptive_span()
