"""Oracles of adaptive inputs and adaptive softmax.

Run by hand, on the CPU, in this folder; nothing is downloaded:

    pip install torch==2.15.0 safetensors
    python make_adaptive.py

adaptive.safetensors: 30 tokens in the clusters 0..6, 6..15, 15..30. The metadata has, under each case's name, the keys of
`[model] vocabulary` with `d_model` and `tied` (the output tables are the input tables).

`torch_1` and `torch_2`: torch's nn.AdaptiveLogSoftmaxWithLoss, div_value 2, without and with a bias in the head, over
`<case>.hidden` [14, 16]. Its matrices are named as in a vocabulary whose first projection is the identity and whose
tail biases are zero: `<case>.weight.<path>`. `<case>.log_probabilities` [14, 30], `<case>.loss` (the sum over
`<case>.targets`), `<case>.grad.<path>` of the parameters that torch has, `<case>.grad.hidden`.

The other cases: Transformer-XL's AdaptiveEmbedding and ProjectedAdaptiveLogSoftmax (Dai et al. 2019, released code), rewritten
from their definition. With ids [2, 7]:

    vectors = sqrt(d_model) * P_i E_i[id]                      x = tanh(vectors)
    head    = [E_0; C] P_0' x + [b_0; c]                       log p = log softmax(head)[w], w in the first cluster
    tail i  = E_i P_i' x + b_i                                 log p = log softmax(head)[6 + i - 1] + log softmax(tail i)[w]

(P' is the output projection, or P itself if it is tied. The released code finds the score of tail i at -i, the i-th
from the end; here tails are in order, which is the same up to the order of the rows of C.) The loss is
-sum(log p(target)) over all positions except two, whose target is -100. In `unread`, no id and no target belongs to the last
cluster. `<case>.weight.<path>`, `<case>.vectors` [2, 7, d_model], `<case>.log_probabilities` [14, 30], `<case>.loss`,
`<case>.grad.<path>`.
"""

import json
import os

import torch
from safetensors.torch import save_file
from shared import HERE, begin, seeded
from torch.nn.functional import linear, log_softmax

CUTOFFS, VOCAB, BATCH, SEQ = [6, 15], 30, 2, 7
BOUNDS = [0, *CUTOFFS, VOCAB]
SIZES = [high - low for low, high in zip(BOUNDS, BOUNDS[1:])]


def weights(generator, d_model, d_embed, div_val, tied, tie_projs, bias):
    """Parameters by path."""
    draw = lambda *shape: (torch.randn(*shape, generator=generator) * 1.2 * shape[-1] ** -0.5).requires_grad_()
    widths = [d_embed // div_val**i for i in range(len(SIZES))]
    found = {f"embedding.tables.{i}": draw(size, width) for i, (size, width) in enumerate(zip(SIZES, widths))}
    projected = 0 if div_val == 1 and d_embed == d_model else 1 if div_val == 1 else len(SIZES)
    for i in range(projected):
        found[f"embedding.projections.{i}.weight"] = draw(d_model, widths[i])
    found["head.clusters"] = draw(len(CUTOFFS), widths[0])
    if bias:
        found["head.cluster_bias"] = draw(len(CUTOFFS))
        found |= {f"head.biases.{i}": draw(size) for i, size in enumerate(SIZES)}
    if not tied:
        found |= {f"head.tables.{i}": draw(size, width) for i, (size, width) in enumerate(zip(SIZES, widths))}
    for i in range(len(SIZES)):
        ties = {"none": False, "tails": i > 0, "all": True}[tie_projs]
        if projected and not ties:
            found[f"head.projections.{i}.weight"] = draw(d_model, widths[i])
    return found


def cluster(token):
    return sum(token >= cutoff for cutoff in CUTOFFS)


def embed(w, ids, d_model):
    rows = []
    for token in ids.flatten().tolist():
        i = cluster(token)
        vector = w[f"embedding.tables.{i}"][token - BOUNDS[i]]
        projection = w.get(f"embedding.projections.{i}.weight", w.get("embedding.projections.0.weight"))
        rows.append(vector if projection is None else projection @ vector)
    return d_model**0.5 * torch.stack(rows).reshape(*ids.shape, d_model)


def log_probabilities(w, hidden):
    """Log-probabilities [n, VOCAB] of hidden states [n, d_model]."""

    def scores(i):
        table = w.get(f"head.tables.{i}", w[f"embedding.tables.{i}"])
        bias = w.get(f"head.biases.{i}")
        shared = w.get(f"embedding.projections.{i}.weight", w.get("embedding.projections.0.weight"))
        projection = w.get(f"head.projections.{i}.weight", shared)
        if i == 0:
            table = torch.cat([table, w["head.clusters"]])
            bias = None if bias is None else torch.cat([bias, w["head.cluster_bias"]])
        return linear(hidden if projection is None else hidden @ projection, table, bias)

    head = log_softmax(scores(0), 1)
    parts = [head[:, : SIZES[0]]]
    for i in range(1, len(SIZES)):
        chosen = head[:, SIZES[0] + i - 1]
        parts.append(chosen[:, None] + log_softmax(scores(i), 1))
    return torch.cat(parts, 1)


def rebuilt(name, config, highest=VOCAB):
    config = {"d_model": 12, "d_embed": 12, "div_val": 1, "tied": True, "tie_projs": "none", "bias": True, **config}
    generator = seeded(name)
    keys = ("d_model", "d_embed", "div_val", "tied", "tie_projs", "bias")
    w = weights(generator, *(config[key] for key in keys))
    ids, targets = (torch.randint(highest, (BATCH, SEQ), generator=generator) for _ in range(2))
    # Every cluster except an unread one occurs among ids and targets.
    for tokens in (ids, targets):
        tokens[0, 1:5] = torch.tensor([0, 6, 14, min(highest - 1, 15)])
    targets[0, 0] = targets[1, 3] = -100
    vectors = embed(w, ids, config["d_model"])
    log_p = log_probabilities(w, torch.tanh(vectors).reshape(BATCH * SEQ, -1))
    scored = targets.flatten() >= 0
    loss = -log_p[scored].gather(1, targets.flatten()[scored][:, None]).sum()
    loss.backward()
    found = {"ids": ids, "targets": targets.flatten(), "vectors": vectors, "log_probabilities": log_p, "loss": loss.reshape(1)}
    for path, value in w.items():
        found[f"weight.{path}"] = value
        found[f"grad.{path}"] = torch.zeros_like(value) if value.grad is None else value.grad
    return config, found


def torchs(name, head_bias):
    generator = seeded(name)
    d = 16
    module = torch.nn.AdaptiveLogSoftmaxWithLoss(d, VOCAB, CUTOFFS, div_value=2.0, head_bias=head_bias)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 1.2 * parameter.shape[-1] ** -0.5)
    hidden = torch.randn(BATCH * SEQ, d, generator=generator).requires_grad_()
    targets = torch.randint(VOCAB, (BATCH * SEQ,), generator=generator)
    targets[:3] = torch.tensor([0, 6, 29])
    loss = -module(hidden, targets).output.sum()
    loss.backward()
    first = SIZES[0]
    parts = lambda of: {"head.tables.0": of(module.head.weight)[:first], "head.clusters": of(module.head.weight)[first:]}
    both = {}
    for kind, of in (("weight", lambda p: p), ("grad", lambda p: p.grad)):
        named = parts(of)
        if head_bias:
            named |= {"head.biases.0": of(module.head.bias)[:first], "head.cluster_bias": of(module.head.bias)[first:]}
        for i, (down, up) in enumerate(module.tail, 1):
            named |= {f"head.projections.{i}.weight": of(down.weight).T, f"head.tables.{i}": of(up.weight)}
        both |= {f"{kind}.{path}": value for path, value in named.items()}
    both["weight.head.projections.0.weight"] = torch.eye(d)
    if head_bias:
        both |= {f"weight.head.biases.{i}": torch.zeros(SIZES[i]) for i in (1, 2)}
    config = {"d_model": d, "d_embed": d, "div_val": 2, "tied": False, "tie_projs": "none", "bias": head_bias}
    found = {"hidden": hidden, "targets": targets, "log_probabilities": module.log_prob(hidden), "loss": loss.reshape(1)}
    return config, found | both | {"grad.hidden": hidden.grad}


def main():
    begin(torch)
    cases = {
        "torch_1": torchs("torch_1", False),
        "torch_2": torchs("torch_2", True),
        "plain": rebuilt("plain", {}),
        "projected": rebuilt("projected", {"d_embed": 8, "tied": False}),
        "projected_tied": rebuilt("projected_tied", {"d_embed": 8, "tie_projs": "all"}),
        "halved": rebuilt("halved", {"div_val": 2, "tie_projs": "tails"}),
        "halved_bare": rebuilt("halved_bare", {"div_val": 2, "tied": False, "bias": False}),
        "quartered": rebuilt("quartered", {"d_embed": 16, "div_val": 4, "tie_projs": "all"}),
        "quartered_untied": rebuilt("quartered_untied", {"d_embed": 16, "div_val": 4}),
        "unread": rebuilt("unread", {"div_val": 2, "tie_projs": "tails"}, highest=15),
    }
    tensors = {f"{case}.{name}": value.detach().clone().contiguous() for case, (_, found) in cases.items() for name, value in found.items()}
    path = os.path.join(HERE, "adaptive.safetensors")
    config = json.dumps({case: config for case, (config, _) in cases.items()}, indent=2, sort_keys=True)
    save_file(tensors, path, {"config": config})
    print(f"adaptive.safetensors {os.path.getsize(path) // 1024} KB")


if __name__ == "__main__":
    main()
