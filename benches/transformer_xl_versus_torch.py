#!/usr/bin/env python3
"""Times a training step of a small Transformer-XL: `formwork bench train experiments/bench/transformer_xl.toml` against the
same model in PyTorch, alternating.

    python3 benches/transformer_xl_versus_torch.py [--rounds 5] [--steps 12] [--threads 2] [--bin target/release/formwork]

Needs torch (measured with 2.15.0). The model: d 256, 4 layers, 4 heads, d_ff 1024, post-norm, relu, segment 128, memory 128,
batch 16, vocabulary 256, tied embeddings, dropout 0.1 on embeddings, distances, attention weights, inside the feed-forward
layer and on each layer's output (Dai et al. 2019, section 3). A step is forward, backward, clipping at norm 1, AdamW. PyTorch
is timed in two forms: `plain`, all scores by matmul with the relative shift, and `sdpa`, where the position term of the scores
goes into PyTorch's fused attention as a float mask. The printed ratio is to the faster of both.
"""
import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time

D, LAYERS, HEADS, FF, SEGMENT, MEMORY, BATCH, VOCAB, DROP = 256, 4, 4, 1024, 128, 128, 16, 256, 0.1


def torch_steps(form, steps, warmup, threads):
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    import torch
    import torch.nn as nn
    import torch.nn.functional as F

    torch.set_num_threads(threads)
    torch.manual_seed(0)
    width = D // HEADS

    def shift(x):
        # x is [b, h, q, k]; column r holds the distance k - 1 - r of the last query. Each earlier row is shifted one further to the left.
        b, h, q, k = x.shape
        return F.pad(x, (1, 0)).view(b, h, k + 1, q)[:, :, 1:].reshape(b, h, q, k)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.value, self.distance = (nn.Linear(D, D, bias=False) for _ in range(4))
            self.out = nn.Linear(D, D, bias=False)
            self.up, self.down = nn.Linear(D, FF), nn.Linear(FF, D)
            self.norm1, self.norm2 = nn.LayerNorm(D), nn.LayerNorm(D)

        def forward(self, x, memory, r, u, v, hidden):
            source = torch.cat([memory, x], 1)
            heads = lambda y: y.view(y.shape[0], y.shape[1], HEADS, width).transpose(1, 2)
            q, k, w = heads(self.query(x)), heads(self.key(source)), heads(self.value(source))
            r = self.distance(r).view(-1, HEADS, width).permute(1, 2, 0)
            by_distance = shift((q + v) @ r) / math.sqrt(width)
            if form == "sdpa":
                mask = by_distance.masked_fill(hidden, float("-inf"))
                y = F.scaled_dot_product_attention(q + u, k, w, attn_mask=mask, dropout_p=DROP)
            else:
                scores = (q + u) @ k.transpose(2, 3) / math.sqrt(width) + by_distance
                weights = F.dropout(F.softmax(scores.masked_fill(hidden, float("-inf")), -1), DROP)
                y = weights @ w
            y = self.out(y.transpose(1, 2).reshape(x.shape))
            x = self.norm1(x + F.dropout(y, DROP))
            y = self.down(F.dropout(F.relu(self.up(x)), DROP))
            return self.norm2(x + F.dropout(y, DROP))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(VOCAB, D)
            self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
            self.u, self.v = (nn.Parameter(torch.zeros(HEADS, 1, width)) for _ in range(2))
            keys = SEGMENT + MEMORY
            places = torch.arange(keys - 1, -1, -1.0)
            rates = 1 / 10000 ** (torch.arange(0, D, 2) / D)
            angles = places[:, None] * rates
            self.register_buffer("r", torch.cat([angles.sin(), angles.cos()], 1))
            self.register_buffer("hidden", torch.ones(SEGMENT, keys, dtype=torch.bool).triu(1 + MEMORY))

        def forward(self, ids, memory):
            x = F.dropout(self.table(ids) * math.sqrt(D), DROP)
            r, kept = F.dropout(self.r, DROP), []
            for layer, old in zip(self.layers, memory):
                kept.append(x.detach())
                x = layer(x, old, r, self.u, self.v, self.hidden)
            return F.linear(F.dropout(x, DROP), self.table.weight), kept

    net = Net()
    with torch.no_grad():
        for p in net.parameters():
            if p.ndim > 1:
                nn.init.normal_(p, std=0.02)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    memory = [torch.zeros(BATCH, MEMORY, D) for _ in range(LAYERS)]
    times = []
    for _ in range(warmup + steps):
        ids, targets = torch.randint(0, VOCAB, (2, BATCH, SEGMENT))
        began = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        logits, memory = net(ids, memory)
        F.cross_entropy(logits.view(-1, VOCAB), targets.reshape(-1)).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        times.append((time.perf_counter() - began) * 1e3)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    params = sum(p.numel() for p in net.parameters())
    print(json.dumps({"step_ms_median": statistics.median(times[warmup:]), "peak_rss_mb": peak, "params": params}))


def measured(command, **more):
    out = subprocess.run(command, check=True, capture_output=True, text=True, **more)
    return json.loads(out.stdout.strip().splitlines()[-1])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--steps", type=int, default=12)
    p.add_argument("--warmup", type=int, default=3)
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--bin", default="target/release/formwork")
    p.add_argument("--torch", choices=["plain", "sdpa"])
    a = p.parse_args()
    if a.torch:
        return torch_steps(a.torch, a.steps, a.warmup, a.threads)
    env = dict(os.environ, RAYON_NUM_THREADS=str(a.threads))
    bench = [a.bin, "bench", "train", "experiments/bench/transformer_xl.toml", "--steps", str(a.steps), "--json"]
    same = ["--steps", str(a.steps), "--warmup", str(a.warmup), "--threads", str(a.threads)]
    rows = {"ours": [], "plain": [], "sdpa": []}
    for number in range(a.rounds):
        rows["ours"].append(measured(bench, env=env))
        for form in ("plain", "sdpa"):
            rows[form].append(measured([sys.executable, __file__, "--torch", form, *same]))
        line = {name: round(found[-1]["step_ms_median"], 1) for name, found in rows.items()}
        print(json.dumps({"round": number, "step_ms": line}), flush=True)
    step = {name: statistics.median(row["step_ms_median"] for row in found) for name, found in rows.items()}
    pairs = zip(rows["ours"], rows["plain"], rows["sdpa"])
    ratios = [min(x["step_ms_median"], y["step_ms_median"]) / own["step_ms_median"] for own, x, y in pairs]
    print(json.dumps({
        "step_ms": {name: round(ms, 1) for name, ms in step.items()},
        "ratio": round(statistics.median(ratios), 2),
        "peak_rss_mb": {name: round(max(row["peak_rss_mb"] for row in found)) for name, found in rows.items()},
        "params": {name: found[0]["params"] for name, found in rows.items()},
    }))


if __name__ == "__main__":
    main()
