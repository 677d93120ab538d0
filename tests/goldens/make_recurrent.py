"""Oracles of recurrent layers: torch's nn.RNN (tanh), nn.GRU and nn.LSTM, and additive attention.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 transformers==4.57.1 safetensors
    python make_recurrent.py

recurrent_NAME.safetensors, NAME of elman, gru, lstm: two layers of 7 units over `x` [3, 5, 4], batch first. In each of
two cases, `zero` and `carried` (an initial state is given), for a loss with a different weight on each output:

* `weight.<torch's name>`: the parameters, the same in both cases.
* `x`, `h0` [2, 3, 7], `c0` (LSTM): inputs; only `carried` uses the states.
* `y_weight`, `h_weight`, `c_weight`: loss = sum(y * y_weight) + sum(h_n * h_weight) + sum(c_n * c_weight).
* `<case>.y`, `<case>.h_n`, `<case>.c_n`: outputs. `<case>.grad.<name>`: the gradient of every parameter, of `x`, and in
  `carried` of `h0` and `c0`.

In the case `packed` the rows have the lengths [5, 2, 4] (torch's packed sequences, `y` zero beyond them).

additive_attention.safetensors: v·tanh(W q + U k), softmax over the keys within `lengths`, weighted mean of the memory,
written out with torch's operations; `query` [3, 6], `memory` [3, 5, 8], W [7, 6], U [7, 8], v [1, 7].
"""

import torch
import transformers as hf
from shared import begin, seeded, write
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

LAYERS, BATCH, SEQ, WIDTH, D = 2, 3, 5, 4, 7
LENGTHS = [5, 2, 4]
KINDS = {"elman": torch.nn.RNN, "gru": torch.nn.GRU, "lstm": torch.nn.LSTM}


def run(module, case, x, state, weigh):
    leaves = [x, *state] if case == "carried" else [x]
    leaves = [leaf.clone().requires_grad_() for leaf in leaves]
    module.zero_grad()
    first = None
    if case == "carried":
        first = leaves[1] if len(state) == 1 else tuple(leaves[1:])
    if case == "packed":
        packed = pack_padded_sequence(leaves[0], LENGTHS, batch_first=True, enforce_sorted=False)
        y, last = module(packed)
        y, _ = pad_packed_sequence(y, batch_first=True)
    else:
        y, last = module(leaves[0], first)
    last = last if isinstance(last, tuple) else (last,)
    results = dict(zip(["y", "h_n", "c_n"], [y, *last]))
    loss = sum((results[name] * weigh[name]).sum() for name in results)
    loss.backward()
    found = {f"{case}.{name}": value.detach().contiguous() for name, value in results.items()}
    for name, parameter in module.named_parameters():
        found[f"{case}.grad.{name}"] = parameter.grad.clone()
    for name, leaf in zip(["x", "h0", "c0"], leaves):
        found[f"{case}.grad.{name}"] = leaf.grad.clone()
    return found


def recurrent(name):
    generator = seeded(name)
    draw = lambda *shape: torch.randn(*shape, generator=generator)
    module = KINDS[name](WIDTH, D, LAYERS, batch_first=True)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(draw(*parameter.shape) * 0.5)
    x = draw(BATCH, SEQ, WIDTH)
    state = [draw(LAYERS, BATCH, D) for _ in range(2 if name == "lstm" else 1)]
    weigh = {"y": draw(BATCH, SEQ, D), "h_n": draw(LAYERS, BATCH, D), "c_n": draw(LAYERS, BATCH, D)}
    tensors = {"weight." + n: p.detach().clone() for n, p in module.named_parameters()}
    tensors |= {"x": x} | dict(zip(["h0", "c0"], state))
    tensors |= {n.split("_")[0] + "_weight": value for n, value in weigh.items()}
    for case in ["zero", "carried", "packed"]:
        tensors |= run(module, case, x, state, weigh)
    write(f"recurrent_{name}", tensors, {"lengths": LENGTHS})


def additive():
    generator = seeded("additive")
    draw = lambda *shape: torch.randn(*shape, generator=generator).requires_grad_()
    leaves = {"query": draw(BATCH, 6), "memory": draw(BATCH, SEQ, 8)}
    leaves |= {"W": draw(D, 6), "U": draw(D, 8), "v": draw(1, D)}
    query, memory, w, u, v = leaves.values()
    scores = (torch.tanh((query @ w.T)[:, None] + memory @ u.T) @ v.T)[..., 0]
    hidden = torch.arange(SEQ)[None] >= torch.tensor(LENGTHS)[:, None]
    weights = scores.masked_fill(hidden, float("-inf")).softmax(-1)
    seen = (weights[..., None] * memory).sum(1)
    y_weight = torch.randn(seen.shape, generator=generator)
    (seen * y_weight).sum().backward()
    tensors = {name: leaf.detach() for name, leaf in leaves.items()}
    tensors |= {"grad." + name: leaf.grad for name, leaf in leaves.items()}
    tensors |= {"seen": seen.detach(), "y_weight": y_weight}
    write("additive_attention", tensors, {"lengths": LENGTHS})


if __name__ == "__main__":
    begin(torch, hf)
    for kind in KINDS:
        recurrent(kind)
    additive()
