"""Oracle of sparse attention: torch's own attention under masks written out pair by pair.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 safetensors
    python make_block_patterns.py

block_patterns.safetensors: `x` [2, 50, 16], the matrices `query`, `output` [16, 16], `key`, `value` [8, 16] (two heads of
4 for four heads of queries, in pairs; `[out, in]` as torch stores them), `bias` [4, 99], whose element j - i + 49 is added to the score
of query i and key j of a head, `weight` [2, 50, 16]. The documents of a row are `documents` [2, 50]. For each case the
mask is the definition below; `<case>.out` is the layer's output, `<case>.grad.<name>` the gradient of the sum of out times
weight by x, the four matrices and, where the case has it, the bias. A query that sees no key gets zeros. In float64,
stored as float32.

Definitions, of query i and key j in blocks of b or with a stride l: local (Liu et al. 2018; Kitaev et al. 2020), strided and
fixed (Child et al. 2019, section 4.3; `summary` is its c).
"""

import torch
from safetensors.torch import save_file
from shared import HERE, begin, seeded

T, D, HEADS = 50, 16, 4


def drawn(name, *shape, size=1.0):
    return size * torch.randn(*shape, generator=seeded("blocks " + name), dtype=torch.float64)


def local(b, back, ahead):
    return lambda head, i, j: i // b - back <= j // b <= i // b + ahead


def strided(l, local_heads):
    def sees(head, i, j):
        if j > i:
            return False
        return i - j <= l if head < local_heads else (i - j) % l == 0

    return sees


def fixed(l, c, local_heads, merged=False):
    def sees(head, i, j):
        if j > i:
            return False
        own, summary = j // l == i // l, j % l >= l - c
        if merged:
            return own or summary
        return own if head < local_heads else summary

    return sees


# The mask, whether it is also causal, whether biases by distance are added, whether other documents are hidden.
CASES = {
    "local": (local(8, 1, 1), False, True, False),
    "local_causal": (local(8, 1, 0), True, True, True),
    "local_alone": (local(7, 0, 0), False, False, False),
    "local_far": (local(6, 2, 1), False, False, False),
    "strided": (strided(7, 2), True, True, False),
    "strided_documents": (strided(7, 1), True, True, True),
    "fixed": (fixed(8, 3, 2), True, False, False),
    "fixed_documents": (fixed(8, 3, 1), True, False, True),
    "fixed_merged": (fixed(9, 2, 0, merged=True), True, False, True),
}


def attention(q, k, v, seen, bias):
    """Attention of `[B, H, T, d]` under the mask `seen` [B, H, T, T]."""
    nothing = ~seen.any(-1, keepdim=True)
    mask = torch.zeros(seen.shape, dtype=q.dtype).masked_fill(~(seen | nothing), float("-inf"))
    if bias is not None:
        place = torch.arange(T)[None, :] - torch.arange(T)[:, None] + T - 1
        mask = mask + bias[:, place]
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return out.masked_fill(nothing, 0.0)


def main():
    names = {"query": (D, D), "key": (D // 2, D), "value": (D // 2, D), "output": (D, D)}
    leaves = {name: drawn(name, *shape, size=0.4) for name, shape in names.items()}
    leaves |= {"x": drawn("x", 2, T, D), "bias": drawn("bias", HEADS, 2 * T - 1)}
    weight = drawn("weight", 2, T, D)
    documents = torch.tensor([[int(j >= 11) + int(j >= 33) for j in range(T)], [int(j >= 29) for j in range(T)]])
    file = {**leaves, "weight": weight}
    same = (documents[:, :, None] == documents[:, None, :])[:, None]
    for case, (sees, causal, biased, apart) in CASES.items():
        leaf = {name: x.clone().requires_grad_() for name, x in leaves.items()}
        pairs = [[[sees(h, i, j) for j in range(T)] for i in range(T)] for h in range(HEADS)]
        seen = torch.tensor(pairs)[None].expand(2, -1, -1, -1).clone()
        if causal:
            seen &= torch.ones(T, T, dtype=torch.bool).tril()
        if apart:
            seen &= same
        split = lambda y: y.reshape(2, T, -1, D // HEADS).transpose(1, 2)
        q, k, v = (split(leaf["x"] @ leaf[name].T) for name in ["query", "key", "value"])
        k, v = (y.repeat_interleave(2, dim=1) for y in (k, v))
        y = attention(q, k, v, seen, leaf["bias"] if biased else None)
        out = y.transpose(1, 2).reshape(2, T, D) @ leaf["output"].T
        (out * weight).sum().backward()
        file[f"{case}.out"] = out
        file |= {f"{case}.grad.{name}": x.grad for name, x in leaf.items() if x.grad is not None}
    tensors = {name: x.detach().float().contiguous() for name, x in file.items()}
    save_file(tensors | {"documents": documents}, f"{HERE}/block_patterns.safetensors")


begin(torch)
main()
