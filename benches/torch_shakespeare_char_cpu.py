#!/usr/bin/env python3
"""The recipe of experiments/causal_lm/shakespeare_char_cpu.toml in plain PyTorch, to compare training times.

    python3 -m venv .venv-bench && .venv-bench/bin/pip install torch==2.15.0 numpy
    .venv-bench/bin/python benches/torch_shakespeare_char_cpu.py FORMWORK_DATA/tinyshakespeare/input.txt

Same model (0.8M parameters, tied, no biases), batches of 12 windows of 64 characters, AdamW with weight decay on matrices,
cosine schedule, clipping at 1, the same evaluations. Prints the loss over the whole validation split and the
seconds of the training loop, including evaluations. Eager float32, fused attention and AdamW, all cores.
"""
import json, math, os, sys, time

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import torch
import torch.nn as nn
import torch.nn.functional as F

LAYERS, HEADS, D, CONTEXT, BATCH, STEPS = 4, 4, 128, 64, 12, 2000
LR, MIN_LR, WARMUP = 4e-3, 1e-4, 100


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_1, self.norm_2 = nn.LayerNorm(D, bias=False), nn.LayerNorm(D, bias=False)
        self.qkv, self.out = nn.Linear(D, 3 * D, bias=False), nn.Linear(D, D, bias=False)
        self.up, self.down = nn.Linear(D, 4 * D, bias=False), nn.Linear(4 * D, D, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = (y.view(b, t, HEADS, D // HEADS).transpose(1, 2) for y in self.qkv(self.norm_1(x)).split(D, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, D))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Model(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocab, D), nn.Embedding(CONTEXT, D)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(D, bias=False)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                residual = name.endswith(("out.weight", "down.weight"))
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * LAYERS) if residual else 0.02)

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.tokens.weight.T


def loss(model, x, y, reduction="mean"):
    logits = model(x)
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), y.reshape(-1), reduction=reduction)


@torch.no_grad()
def evaluate(model, data, batches=None):
    windows = [(i, min(CONTEXT, len(data) - 1 - i)) for i in range(0, len(data) - 1, CONTEXT)]
    total, count = 0.0, 0
    groups = [windows[i:i + 64] for i in range(0, len(windows), 64)][:batches]
    for group in groups:
        for length in {n for _, n in group}:
            rows = [i for i, n in group if n == length]
            x = torch.stack([data[i:i + length] for i in rows])
            y = torch.stack([data[i + 1:i + 1 + length] for i in rows])
            total += loss(model, x, y, "sum").item()
            count += y.numel()
    return total / count


def rate(step):
    if step < WARMUP:
        return LR * (step + 1) / (WARMUP + 1)
    return MIN_LR + 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP))) * (LR - MIN_LR)


def main():
    torch.manual_seed(1337)
    text = open(sys.argv[1]).read()
    index = {c: i for i, c in enumerate(sorted(set(text)))}
    data = torch.tensor([index[c] for c in text])
    train, valid = data[:int(0.9 * len(data))], data[int(0.9 * len(data)):]
    model = Model(len(index))
    groups = [{"params": [p for p in model.parameters() if p.dim() == 2], "weight_decay": 0.1},
              {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LR, betas=(0.9, 0.99), fused=True)
    began = time.perf_counter()
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        starts = torch.randint(len(train) - CONTEXT, (BATCH,)).tolist()
        x = torch.stack([train[i:i + CONTEXT] for i in starts])
        y = torch.stack([train[i + 1:i + 1 + CONTEXT] for i in starts])
        optimizer.zero_grad(set_to_none=True)
        loss(model, x, y).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if (step + 1) % 250 == 0 and step + 1 < STEPS:
            evaluate(model, valid, 20)
    final = evaluate(model, valid)
    print(json.dumps({"engine": "torch " + torch.__version__, "params": sum(p.numel() for p in model.parameters()),
                      "valid_loss": round(final, 4), "seconds": round(time.perf_counter() - began, 1)}))


if __name__ == "__main__":
    main()
