"""Oracle of attention kernels with structured visibility: torch's softmax over explicit masks, with gradients.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 safetensors
    python make_attention.py

attention_windows.safetensors: `query` [1, 4, 150, 8], `key` and `value` [1, 2, 150, 8] (query heads 0 and 1 read key
head 0), `bias` [4, 299], whose element j - i + 149 is added to the score of query i and key j (ALiBi and T5 as one vector per
head), `weight` [1, 4, 150, 8]. A head sees key j from query i when |i - j| is a multiple of its dilation (1, 2, 1, 3),
at most 19 times it, and, in `causal`, j <= i. Scores are q.k / sqrt(8) + bias. For each of `causal` and `both`:
`<case>.out` and the gradients of the sum of out times weight, `<case>.grad.query`, `.key`, `.value`, `.bias`. All in
float64, stored as float32.

attention_shaw.safetensors: `query`, `key`, `value`, `weight` [2, 2, 7, 4], `keys` and `values` [7, 4], the tables of
Shaw et al. 2018 (arXiv:1803.02155, section 3.2) for distances clipped to 3 (row d + 3 for key - query = d). Causal;
e_ij = q_i.(k_j + a^K_ij) / 2, z_i = sum_j alpha_ij (v_j + a^V_ij). `out` and `grad.<name>` of the five as above.
"""

import torch
from safetensors.torch import save_file
from shared import HERE, begin, seeded

POSITIONS, WINDOW, DILATION = 150, 20, [1, 2, 1, 3]


def drawn(name, *shape):
    return torch.randn(*shape, generator=seeded(name), dtype=torch.float64)


def put(file, tensors):
    save_file({name: x.detach().float().contiguous() for name, x in tensors.items()}, f"{HERE}/{file}")


def windows():
    t = POSITIONS
    leaves = {
        "query": drawn("query", 1, 4, t, 8),
        "key": drawn("key", 1, 2, t, 8),
        "value": drawn("value", 1, 2, t, 8),
        "bias": drawn("bias", 4, 2 * t - 1),
    }
    weight = drawn("weight", 1, 4, t, 8)
    file = {**leaves, "weight": weight}
    i, j = torch.arange(t)[:, None], torch.arange(t)[None, :]
    for case in ["causal", "both"]:
        x = {name: leaf.clone().requires_grad_() for name, leaf in leaves.items()}
        seen = torch.stack([((i - j) % d == 0) & ((i - j).abs() <= (WINDOW - 1) * d) for d in DILATION])
        if case == "causal":
            seen &= j <= i
        key, value = (x[name].repeat_interleave(2, dim=1) for name in ["key", "value"])
        scores = x["query"] @ key.transpose(2, 3) / 8**0.5 + x["bias"][:, j - i + t - 1]
        out = scores.masked_fill(~seen, float("-inf")).softmax(3) @ value
        (out * weight).sum().backward()
        file[f"{case}.out"] = out
        file |= {f"{case}.grad.{name}": leaf.grad for name, leaf in x.items()}
    put("attention_windows.safetensors", file)


def shaw():
    t, d, clip = 7, 4, 3
    names = ["query", "key", "value"]
    leaves = {name: drawn("shaw " + name, 2, 2, t, d) for name in names}
    leaves |= {name: drawn("shaw " + name, 2 * clip + 1, d) for name in ["keys", "values"]}
    weight = drawn("shaw weight", 2, 2, t, d)
    x = {name: leaf.clone().requires_grad_() for name, leaf in leaves.items()}
    i, j = torch.arange(t)[:, None], torch.arange(t)[None, :]
    row = (j - i).clamp(-clip, clip) + clip
    keys = x["key"][:, :, None] + x["keys"][row]
    values = x["value"][:, :, None] + x["values"][row]
    scores = (x["query"][:, :, :, None] * keys).sum(-1) / d**0.5
    alpha = scores.masked_fill(j > i, float("-inf")).softmax(3)
    out = (alpha[..., None] * values).sum(3)
    (out * weight).sum().backward()
    file = {**leaves, "weight": weight, "out": out}
    put("attention_shaw.safetensors", file | {f"grad.{name}": leaf.grad for name, leaf in x.items()})


begin(torch)
windows()
shaw()
