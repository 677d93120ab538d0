"""Oracles of attention by features: performer-pytorch 1.1.4 with its own random matrix, and linear attention's closed form.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 safetensors performer-pytorch==1.1.4
    python make_performer.py

performer.safetensors: `query`, `key`, `value`, `weight` [2, 3, 40, 8] and `projection` [16, 8], drawn by performer-pytorch.
For each of `softmax.both`, `softmax.causal`, `relu.both`, `relu.causal`: `<case>.out` of its FastAttention and the gradients of
the sum of out times weight, `<case>.grad.query`, `.key`, `.value`.

From keys, performer-pytorch subtracts the largest product over all positions, including later ones. `softmax.causal` does not
depend on them: row t is the last row of FastAttention over the first t + 1 positions. The 1e-6 that only its causal form adds to sums of
keys (argument `eps` of causal_linear_attention_noncuda) is 0.

`layer.*`: performer-pytorch's SelfAttention (3 heads of 8, width 24, 16 features) with its weights `layer.to_q.weight` and so on
and `layer.projection`, on `layer.input` [2, 12, 24]: `layer.out`, and of the sum of out times `layer.weight`
`layer.grad.input` and `layer.grad.<weight>`.

linear.safetensors: `query`, `weight` [2, 4, 40, 8], `key`, `value` [2, 2, 40, 8] (query heads 0 and 1 read key head 0);
phi(x) = elu(x) + 1, y_i = sum_j phi(q_i).phi(k_j) v_j / sum_j phi(q_i).phi(k_j) over all j (`both`) or j <= i (`causal`), with
the weights of all pairs formed. `<case>.out` and `<case>.grad.<name>` as above.

All in float64, stored as float32.
"""

from functools import partial

import torch
import torch.nn.functional as F
from performer_pytorch.performer_pytorch import FastAttention, SelfAttention, causal_linear_attention_noncuda
from safetensors.torch import save_file
from shared import HERE, begin, seeded


def drawn(name, *shape):
    return torch.randn(*shape, generator=seeded(name), dtype=torch.float64)


def put(file, tensors):
    save_file({name: x.detach().float().contiguous() for name, x in tensors.items()}, f"{HERE}/{file}")


def differentiated(case, attend, leaves, weight):
    x = {name: leaf.clone().requires_grad_() for name, leaf in leaves.items()}
    out = attend(*x.values())
    (out * weight).sum().backward()
    return {f"{case}.out": out} | {f"{case}.grad.{name}": leaf.grad for name, leaf in x.items()}


def of_texts_so_far(attend):
    """The last row of attention over each prefix of the text."""

    def each(q, k, v):
        ends = range(1, q.shape[2] + 1)
        return torch.cat([attend(q[:, :, :end], k[:, :, :end], v[:, :, :end])[:, :, -1:] for end in ends], 2)

    return each


def performer():
    leaves = {name: drawn(f"performer.{name}", 2, 3, 40, 8) for name in ["query", "key", "value"]}
    weight = drawn("performer.weight", 2, 3, 40, 8)
    torch.manual_seed(1)
    projection = FastAttention(8, 16).projection_matrix.double()
    file = {**leaves, "weight": weight, "projection": projection}
    for kernel in ["softmax", "relu"]:
        for case in ["both", "causal"]:
            attend = FastAttention(8, 16, causal=case == "causal", generalized_attention=kernel == "relu")
            attend.projection_matrix = projection
            attend.causal_linear_fn = partial(causal_linear_attention_noncuda, eps=0.0)
            of = of_texts_so_far(attend) if (kernel, case) == ("softmax", "causal") else attend
            file |= differentiated(f"{kernel}.{case}", of, leaves, weight)
    file |= layer()
    put("performer.safetensors", file)


def layer():
    torch.manual_seed(2)
    attention = SelfAttention(24, heads=3, dim_head=8, nb_features=16).double()
    x = drawn("layer.input", 2, 12, 24).requires_grad_()
    weight = drawn("layer.weight", 2, 12, 24)
    out = attention(x)
    (out * weight).sum().backward()
    weights = dict(attention.named_parameters())
    return {
        "layer.input": x,
        "layer.weight": weight,
        "layer.out": out,
        "layer.grad.input": x.grad,
        "layer.projection": attention.fast_attention.projection_matrix,
        **{f"layer.{name}": p for name, p in weights.items()},
        **{f"layer.grad.{name}": p.grad for name, p in weights.items()},
    }


def linear():
    leaves = {
        "query": drawn("linear.query", 2, 4, 40, 8),
        "key": drawn("linear.key", 2, 2, 40, 8),
        "value": drawn("linear.value", 2, 2, 40, 8),
    }
    weight = drawn("linear.weight", 2, 4, 40, 8)
    file = {**leaves, "weight": weight}

    def attend(causal):
        def of(q, k, v):
            k, v = (x.repeat_interleave(2, dim=1) for x in [k, v])
            pairs = (F.elu(q) + 1) @ (F.elu(k) + 1).transpose(2, 3)
            pairs = pairs.tril() if causal else pairs
            return pairs @ v / pairs.sum(3, keepdim=True)

        return of

    for case in ["both", "causal"]:
        file |= differentiated(case, attend(case == "causal"), leaves, weight)
    put("linear.safetensors", file)


if __name__ == "__main__":
    begin(torch)
    performer()
    linear()
