"""Oracle of the layer of retentive networks (Sun et al. 2023, arXiv:2307.08621): its parallel form, equations 5 and 8.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 safetensors
    python make_retention.py

Computed in float64 from inputs that are exact in float32, gradients by autograd; retention.safetensors has all of it in float32: 2 rows,
70 positions (S), width 12 (D), 3 heads (H) with keys of 4 numbers (K) and values of 5 (V).

* `x` [2, S, D]; `input` [2HK + HV, D] (queries, keys, values), `gate` [HV, D], `output` [D, HV]; `y`, `weights` [2, S, D]:
  loss = sum(y * weights); `grad.<name>` is its gradient.
* With q and k as complex numbers of neighbouring pairs, those of position n times e^(i n theta_j), theta_j = 10000^(-2j/K), a head's
  o_n = sum over m <= n of gamma^(n-m) Re(q_n conj(k_m)) / sqrt(K) v_m, gamma = 1 - 2^(-5-h); o is divided by the root of its mean square
  (1e-6 is added) and y = ((silu(x gate^T) * o) output^T.
* `plain.y`: the same without the angles.
"""

import torch
from shared import begin, seeded, write

ROWS, LENGTH, WIDTH, HEADS, KEY, VALUE = 2, 70, 12, 3, 4, 5


def turned(x, angles):
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous())
    return pairs * torch.polar(torch.ones_like(angles), angles)


def retention(x, input, gate, output, rotated):
    q, k, v = (x @ input.T).split([HEADS * KEY, HEADS * KEY, HEADS * VALUE], -1)
    q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (q, k, v))
    at = torch.arange(LENGTH, dtype=x.dtype)
    theta = 10000.0 ** (-2 * torch.arange(KEY // 2, dtype=x.dtype) / KEY)
    angles = at[:, None] * theta if rotated else torch.zeros(LENGTH, KEY // 2, dtype=x.dtype)
    q, k = turned(q, angles), turned(k, angles)
    scores = (q @ k.conj().transpose(-1, -2)).real * KEY**-0.5
    gamma = 1 - 2.0 ** (-5 - torch.arange(HEADS, dtype=x.dtype))
    decay = (gamma[:, None, None] ** (at[:, None] - at[None, :])).tril()
    o = (scores * decay) @ v
    o = o / (o.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    o = o.transpose(1, 2).flatten(2)
    return (torch.nn.functional.silu(x @ gate.T) * o) @ output.T


if __name__ == "__main__":
    begin(torch)
    generator = seeded("retention")
    drawn = lambda *shape: torch.randn(shape, generator=generator)
    of_width = HEADS * VALUE
    leaves = {
        "x": drawn(ROWS, LENGTH, WIDTH),
        "input": drawn(2 * HEADS * KEY + of_width, WIDTH) * WIDTH**-0.5,
        "gate": drawn(of_width, WIDTH) * WIDTH**-0.5,
        "output": drawn(WIDTH, of_width) * of_width**-0.5,
    }
    leaves = {name: leaf.double().requires_grad_() for name, leaf in leaves.items()}
    weights = drawn(ROWS, LENGTH, WIDTH).double()
    y = retention(**leaves, rotated=True)
    (y * weights).sum().backward()
    arrays = {name: leaf.detach() for name, leaf in leaves.items()}
    arrays |= {f"grad.{name}": leaf.grad for name, leaf in leaves.items()}
    arrays |= {"y": y.detach(), "weights": weights, "plain.y": retention(**leaves, rotated=False).detach()}
    write("retention", {name: array.float() for name, array in arrays.items()}, {"heads": HEADS, "key": KEY, "value": VALUE})
